"""`python -m cs336_basics train-bpe`: its files, messages and options."""

import ast
import csv
import json
import os
import re
import sys
import unicodedata
from pathlib import Path

import pytest
import regex

from cs336_basics import TRAINERS, Tokenizer, train_bpe
from cs336_basics.bpe import DEFAULT_TRAINER
from cs336_basics.bpe.limits import num_words
from cs336_basics.bpe.reference import merge_by_rank, split_bytes
from cs336_basics.counting import Sample, WordCounts, count_words
from cs336_basics.splitting import PATTERNS, Splitter, pattern_of_superwords
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import AddedToken, PostProcessor, TokenizerDefinition
from tests.commands.small_run import command, error_of
from tests.errors import rejects
from tests.faults import restore, states_at_every_call

main = command("train-bpe")

ROOT = Path(__file__).parents[2]
EOT = "<|endoftext|>"
TEXT = f"the cat sat on the mat. the dog saw the cat!{EOT}\nthen they sat together. é好\n" * 40


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8", newline="")
    return path


def arguments(text_file, output, *more):
    return ["--input", str(text_file), "--output", str(output), "--vocab-size", "280",
            "--special-token", EOT, "--num-workers", "1", *more]  # fmt: skip


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_saved_tokenizer_is_the_result_of_train_bpe(trainer, text_file, tmp_path, capsys):
    output = tmp_path / "tokenizer"
    assert main(arguments(text_file, output, "--trainer", trainer)) == 0
    vocab, merges = train_bpe(text_file, 280, [EOT], trainer="naive")
    tokenizer = Tokenizer.from_directory(output)
    assert tokenizer.vocab == vocab
    assert tokenizer.merges == merges
    assert tokenizer.special_tokens == [EOT]
    printed = capsys.readouterr().out
    assert all(phase in printed for phase in ("reading and counting", "updating", "total"))
    assert f"trainer: {trainer}" in printed
    rows = re.findall(r" ([\d.]+) s +([\d.]+)%$", printed, re.MULTILINE)
    total = float(rows[-1][0])
    unit = 10.0 ** -len(rows[-1][0].partition(".")[2])
    for seconds, share in rows:
        # Times are rounded to a unit of their last digit, and shares to a tenth of a percent.
        lowest = (float(seconds) - unit / 2) / (total + unit / 2)
        highest = (float(seconds) + unit / 2) / (total - unit / 2)
        assert 100 * lowest - 0.06 <= float(share) <= 100 * highest + 0.06


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--vocab-size", "100"], "--vocab-size .*100"),
        (["--special-token", EOT], re.escape(EOT)),
        (["--pattern", "("], r"pattern .*'\('"),
        (["--pattern", ""], "pattern .*''"),
        (["--min-frequency", "-1"], "--min-frequency .*-1"),
        (["--max-token-length", "0"], "--max-token-length .*0"),
    ],
)
def test_errors_are_one_line_and_leave_no_directory(text_file, tmp_path, capsys, more, message):
    output = tmp_path / "deep" / "tokenizer"
    assert main(arguments(text_file, output, *more)) == 2
    assert re.search(message, error_of(capsys, "train-bpe"))
    assert not output.parent.exists()


def test_a_small_text_is_a_one_line_warning(text_file, tmp_path, capsys):
    assert main([*arguments(text_file, tmp_path / "tokenizer"), "--vocab-size", "5000"]) == 0
    error = capsys.readouterr().err.strip()
    assert error.startswith("cs336 train-bpe: warning: no pair was left after ")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_ordinary_end_of_text_token_is_a_warning(pattern, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("A cat sat.<|endoftext|>A dog ran.<|endoftext|>" * 20, encoding="utf-8")
    words = ["--input", str(text), "--vocab-size", "268", "--pattern", pattern]
    assert main([*words, "--output", str(tmp_path / "without")]) == 0
    assert "the text seems to contain <|endoftext|>" in capsys.readouterr().err
    special = ["--special-token", EOT, "--vocab-size", "262"]
    assert main([*words, *special, "--output", str(tmp_path / "with")]) == 0
    assert "warning" not in capsys.readouterr().err


def test_the_options_reach_the_trainer(text_file, tmp_path):
    more = ["--max-token-length", "3", "--min-frequency", "50", "--tie-break", "huggingface"]
    assert main([*arguments(text_file, tmp_path / "out"), *more]) == 0
    options = {"max_token_length": 3, "min_frequency": 50, "tie_break": "huggingface"}
    with pytest.warns(UserWarning, match=r"\bof 23\b"):
        expected = train_bpe(text_file, 280, [EOT], trainer="naive", **options)[1]
    assert Tokenizer.from_directory(tmp_path / "out").merges == expected
    assert all(len(a + b) <= 3 for a, b in expected)
    more = ["--max-words", "1", "--whole-characters", "--forbid", "[aeiou]"]
    assert main([*arguments(text_file, tmp_path / "limited"), *more]) == 0
    tokens = [left + right for left, right in Tokenizer.from_directory(tmp_path / "limited").merges]
    assert tokens
    assert not any(set(token) & set(b"aeiou") for token in tokens)


def test_superwords_are_learned_and_recorded(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("at the end of the day, at the end of the night\n" * 20)
    words = ["--input", str(text), "--vocab-size", "290", "--superwords-from", "280"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 0
    tokenizer = Tokenizer.from_directory(tmp_path / "out")
    assert tokenizer.pattern == pattern_of_superwords("gpt2")
    assert any(b" the end" in left + right for left, right in tokenizer.merges)
    record = json.loads((tmp_path / "out" / "training.json").read_text())
    superwords = {"superwords_from": 280, "words_pattern": "gpt2", "max_words": 4}
    assert superwords.items() <= record.items()
    counts = ["--save-counts", str(tmp_path / "counts.npz")]
    assert main([*words, "--output", str(tmp_path / "two"), *counts]) == 2
    assert "leave out --counts and --save-counts" in capsys.readouterr().err
    assert main([*words[:2], "--vocab-size", "280", "--output", str(tmp_path / "w"), *counts]) == 0
    mixed = ["--mix", f"{text}:1", f"{counts[1]}:1", *words[2:]]
    assert main([*mixed, "--output", str(tmp_path / "two")]) == 2
    message = capsys.readouterr().err
    assert "superwords cannot be learned from word counts; pass the text of" in message

    more = ["--input", str(text), "--vocab-size", "300", "--continue", str(tmp_path / "out")]
    more += ["--superwords-from", "295"]
    assert main([*more, "--output", str(tmp_path / "three")]) == 2
    assert "error: --pattern must split text into words" in capsys.readouterr().err
    assert main([*more, "--output", str(tmp_path / "three"), "--pattern", "gpt2"]) == 0
    assert "only with the new pattern" not in capsys.readouterr().err


def test_continued_superwords_keep_their_record(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("at the end of the day, at the end of the night\n" * 20)
    common = ["--input", str(text), "--output"]
    first, more, less = tmp_path / "first", tmp_path / "more", tmp_path / "less"
    options = ["--vocab-size", "278", "--superwords-from", "272", "--max-words", "3"]
    assert main([*common, str(first), *options]) == 0
    options = ["--vocab-size", "279", "--continue", str(first)]
    assert main([*common, str(more), *options]) == 0
    assert max(map(num_words, Tokenizer.from_directory(more).vocab.values())) == 3
    records = [json.loads((folder / "training.json").read_text()) for folder in (first, more)]
    superwords = {"superwords_from": 272, "words_pattern": "gpt2", "max_words": 3}
    assert all(superwords.items() <= record.items() for record in records)
    assert "continued" not in records[0]
    assert records[1]["continued"] == {
        "tokenizer_hash": records[0]["tokenizer_hash"],
        "vocab_size": 278,
    }

    (first / "training.json").write_text(json.dumps({**records[0], "max_words": "many"}))
    assert main([*common, str(less), *options]) == 2
    assert "training.json" in capsys.readouterr().err
    (first / "training.json").unlink()  # without a record, there is no limit
    assert main([*common, str(less), *options]) == 0
    assert max(map(num_words, Tokenizer.from_directory(less).vocab.values())) > 3


@pytest.mark.parametrize(
    "option",
    [
        ["--field", "text"],
        ["--column", "c"],
        ["--errors", "strict"],
        ["--ray", "auto"],
        ["--splitting", "regex"],
        ["--execution", "serial"],
        ["--partial-counts", "d"],
    ],
)
def test_options_for_reading_text_require_input(option, text_file, tmp_path, capsys):
    counts = str(tmp_path / "counts.npz")
    assert main([*arguments(text_file, tmp_path / "one"), "--save-counts", counts]) == 0
    only = ["--output", str(tmp_path / "two"), "--vocab-size", "280", "--counts", counts]
    assert main([*only, "--special-token", EOT, *option]) == 2
    assert f"{' '.join(option)} requires --input" in capsys.readouterr().err


def test_saved_counts_require_the_same_pattern_and_special_tokens(text_file, tmp_path, capsys):
    counts = str(tmp_path / "counts.npz")
    first = ["--pattern", "cl100k", "--save-counts", counts]
    assert main([*arguments(text_file, tmp_path / "one"), *first]) == 0
    only = ["--output", str(tmp_path / "two"), "--vocab-size", "280", "--counts", counts]
    assert main([*only, "--special-token", EOT]) == 2
    assert re.search("'cl100k'.*'gpt2'", capsys.readouterr().err)
    assert main([*only, "--pattern", "cl100k"]) == 2
    assert re.search(r"\['<\|endoftext\|>'\].*\[\]", capsys.readouterr().err)
    assert main([*only, "--pattern", "cl100k", "--special-token", EOT]) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux allows any bytes in file names")
def test_a_file_name_with_invalid_utf_8_is_accepted(text_file, tmp_path):
    name = os.fsdecode(bytes(tmp_path) + b"/caf\xe9.txt")
    Path(name).write_bytes(text_file.read_bytes())
    assert main(arguments(name, tmp_path / "tokenizer")) == 0
    metadata = json.loads((tmp_path / "tokenizer" / "training.json").read_text())
    assert metadata["corpus"][0]["path"].endswith("caf\\xe9.txt")


def test_saved_counts_remain_after_an_error(text_file, tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError

    output = tmp_path / "tokenizer"
    counts = tmp_path / "counts.npz"
    with monkeypatch.context() as broken:
        broken.setattr(TRAINERS[DEFAULT_TRAINER], "learn_merges", fail)
        assert main([*arguments(text_file, output), "--save-counts", str(counts)]) == 1
    assert not output.exists()
    assert main([*arguments(text_file, output), "--counts", str(counts)]) == 0


def test_a_trace_has_a_row_for_each_merge(text_file, tmp_path, capsys):
    output, trace = tmp_path / "tokenizer", tmp_path / "traces" / "trace.csv"
    assert main(arguments(text_file, output, "--trace", str(trace))) == 0
    assert f"trace written to {trace}: 23 merges" in capsys.readouterr().out
    with open(trace, newline="") as file:
        rows = list(csv.DictReader(file))
    merges = [(ast.literal_eval(row["left"]), ast.literal_eval(row["right"])) for row in rows]
    assert merges == Tokenizer.from_directory(output).merges
    counts = [int(row["pair_count"]) for row in rows]
    assert counts == sorted(counts, reverse=True)


def test_the_training_of_a_tokenizer_is_continued(text_file, tmp_path, capsys):
    first, whole = tmp_path / "first", tmp_path / "whole"
    assert main(arguments(text_file, first)) == 0
    assert main(["--input", str(text_file), "--output", str(whole), "--vocab-size", "290",
                 "--special-token", EOT]) == 0  # fmt: skip
    then = ["--input", str(text_file), "--continue", str(first), "--vocab-size", "290"]
    assert main([*then, "--output", str(tmp_path / "then")]) == 0
    assert "continued" in capsys.readouterr().out
    found = Tokenizer.from_directory(tmp_path / "then")
    assert found.hash() == Tokenizer.from_directory(whole).hash()
    more = ["--special-token", EOT, "--special-token", "<|user|>"]
    assert main([*then, "--output", str(first), "--overwrite", *more]) == 0
    found = Tokenizer.from_directory(first)
    assert found.special_tokens == [EOT, "<|user|>"]
    assert found.special_token_id("<|user|>") == 280
    several = ["--special-token", EOT, "<|user|>"]  # both values after one option
    assert main([*then, "--output", str(tmp_path / "several"), *several]) == 0
    assert Tokenizer.from_directory(tmp_path / "several").hash() == found.hash()


def test_continued_training_keeps_the_pattern(text_file, tmp_path, capsys):
    first = tmp_path / "first"
    assert main(arguments(text_file, first, "--pattern", "cl100k")) == 0
    then = ["--input", str(text_file), "--continue", str(first), "--vocab-size", "290"]
    for name, more in (("a", []), ("b", ["--pattern", PATTERNS["cl100k"]])):
        assert main([*then, "--output", str(tmp_path / name), *more]) == 0
        assert "replaces" not in capsys.readouterr().out
        assert Tokenizer.from_directory(tmp_path / name).pattern == "cl100k"


MARKS = f"cafe\u0301 A\u030angstro\u0308m <m> caf\u00e9 \u1112\u1161\u11ab{EOT}" * 40


def test_text_is_normalized_before_it_is_counted(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text(MARKS, encoding="utf-8")
    assert main(arguments(text, tmp_path / "nfc", "--normalizer", "NFC")) == 0
    tokenizer = Tokenizer.from_directory(tmp_path / "nfc")
    assert tokenizer.normalizer == "NFC"
    vocab, merges = train_bpe(text, 280, [EOT], trainer="naive", normalizer="NFC")
    assert (tokenizer.vocab, tokenizer.merges) == (vocab, merges)
    assert "é".encode() in vocab.values()
    assert tokenizer.encode(MARKS) == tokenizer.encode(unicodedata.normalize("NFC", MARKS))
    assert tokenizer.hash() != Tokenizer(vocab, merges, [EOT]).hash()
    counts = ["--save-counts", str(tmp_path / "counts.npz")]
    assert main(arguments(text, tmp_path / "saved", "--normalizer", "NFC", *counts)) == 0
    saved = ["--counts", str(tmp_path / "counts.npz"), "--special-token", EOT,
             "--vocab-size", "280", "--output"]  # fmt: skip
    assert main([*saved, str(tmp_path / "counted"), "--normalizer", "NFC"]) == 0
    assert Tokenizer.from_directory(tmp_path / "counted").definition == tokenizer.definition
    capsys.readouterr()
    for more, given in ([], "None"), (["--normalizer", "NFD"], "'NFD'"):
        assert main([*saved, str(tmp_path / "other"), *more]) == 2
        message = error_of(capsys, "train-bpe")
        assert re.search(f"counts.npz: --normalizer .*'NFC'.*{given}", message)
    assert main(arguments(text, tmp_path / "bad", "--normalizer", "nfc")) == 2
    assert re.search("--normalizer .*nfc", error_of(capsys, "train-bpe"))


def test_continued_training_keeps_every_part(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text(MARKS, encoding="utf-8")
    vocab, merges = train_bpe(text, 270, [EOT], normalizer="NFC")
    tokens = [EOT, AddedToken("<m>", special=False, lstrip=True)]
    end = PostProcessor((256, "A"))
    first = TokenizerDefinition(vocab, merges, tokens, normalizer="NFC", post_processor=end)
    Tokenizer.of(first).save(tmp_path / "first")
    then = ["--input", str(text), "--continue", str(tmp_path / "first"), "--vocab-size", "280"]
    assert main([*then, "--output", str(tmp_path / "kept")]) == 0
    kept = Tokenizer.from_directory(tmp_path / "kept").definition
    assert kept.normalizer == "NFC"
    assert kept.added_tokens == first.added_tokens
    assert kept.added_ids == first.added_ids
    assert kept.post_processor is not None
    assert kept.post_processor.single == end.single
    assert kept.merges[: len(merges)] == merges
    assert "replaces" not in capsys.readouterr().out
    more = ["--normalizer", "NFD", "--special-token", "<x>"]
    assert main([*then, "--output", str(tmp_path / "nfd"), *more]) == 0
    assert "--normalizer NFD replaces the normalizer NFC" in capsys.readouterr().out
    changed = Tokenizer.from_directory(tmp_path / "nfd")
    assert changed.normalizer == "NFD"
    assert changed.special_tokens == [EOT, "<x>"]


@pytest.mark.parametrize("pattern", [r"[^\n]+|\n", r"\p{N}|\P{N}+", "cl100k"])
def test_training_is_continued_with_another_pattern(pattern, text_file, tmp_path, capsys):
    first, then = tmp_path / "first", tmp_path / "then"
    assert main(arguments(text_file, first)) == 0
    capsys.readouterr()
    assert main(["--input", str(text_file), "--continue", str(first), "--vocab-size", "300",
                 "--pattern", pattern, "--output", str(then)]) == 0  # fmt: skip
    assert sum("replaces the pattern 'gpt2'" in line for line in
               capsys.readouterr().out.splitlines()) == 1  # fmt: skip
    start, found = Tokenizer.from_directory(first), Tokenizer.from_directory(then)
    naive = TRAINERS["naive"](pattern=pattern, continue_from=(start.vocab, start.merges))
    assert (found.vocab, found.merges) == naive.train(text_file, 300, [EOT])
    assert found.merges[: len(start.merges)] == start.merges
    assert found.pattern == pattern
    if pattern != "cl100k":
        assert any(b" s" in token and token[:1] != b" " for token in found.vocab.values())
    ranks = {pair: rank for rank, pair in enumerate(found.merges)}
    ids = {token: number for number, token in found.vocab.items()}
    text = TEXT[:300] + "a mat 12 saw"
    expected = []
    for part in re.split(f"({re.escape(EOT)})", text):
        words = [part] if part == EOT else regex.findall(PATTERNS.get(pattern, pattern), part)
        for word in words:
            symbols = (word.encode(),) if word == EOT else split_bytes(word.encode())
            expected += [ids[symbol] for symbol in merge_by_rank(symbols, ranks)]
    assert found.encode(text) == expected


def test_several_sizes_are_one_training_run_and_equal_training_alone(text_file, tmp_path, capsys):
    output = tmp_path / "sizes"
    words = arguments(text_file, output, "--vocab-size", "270,284,260")
    assert main(words) == 0
    assert "the first 260 tokens" in capsys.readouterr().out
    for size in (260, 270, 284):
        alone = tmp_path / str(size)
        assert main(arguments(text_file, alone, "--vocab-size", str(size))) == 0
        for name in ("tokenizer.json", "training.json"):
            assert (output / str(size) / name).read_bytes() == (alone / name).read_bytes()
    assert main(words) == 2  # it exists
    assert main([*words, "--overwrite"]) == 0


@pytest.mark.parametrize("sizes", ["300,", "x", "300,300", "300,100", "10,000", "32,768"])
def test_bad_sizes_are_refused_before_the_text_is_read(text_file, tmp_path, capsys, sizes):
    assert main(arguments(text_file, tmp_path / "out", "--vocab-size", sizes)) == 2
    assert "--vocab-size" in error_of(capsys, "train-bpe")
    assert not (tmp_path / "out").exists()


def test_the_error_for_commas_between_thousands_says_what_to_write(text_file, tmp_path, capsys):
    assert main(arguments(text_file, tmp_path / "out", "--vocab-size", "10,000")) == 2
    assert "must be written 10000" in error_of(capsys, "train-bpe")


def test_the_output_cannot_be_standard_output(text_file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments(text_file, "-")) == 2
    assert "--output" in error_of(capsys, "train-bpe")
    assert not Path("-").exists()


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """Enter a directory with a text and rows."""
    monkeypatch.chdir(tmp_path)
    Path("cats.txt").write_text(TEXT, encoding="utf-8")
    Path("rows.jsonl").write_text('{"t": "low lower lowest newest widest"}\n' * 3)
    return ["--field", "t", "--output", "tok", "--vocab-size", "280", "--special-token", EOT]


def test_a_mixture_gives_the_merges_of_its_weighted_counts(corpora, capsys):
    mixture = ["--mix", "cats.txt:3", "rows.jsonl:7"]
    assert main([*mixture, *corpora, "--save-counts", "mixed.npz"]) == 0
    assert "mixture: cats 30.0%, rows 70.0%" in capsys.readouterr().out
    splitter = Splitter(special_tokens=[EOT])
    counts = [
        count_words(Corpus("cats.txt"), splitter),
        count_words(Corpus("rows.jsonl", field="t"), splitter),
    ]
    mixed = WordCounts.mixed(counts, [3, 7])
    assert WordCounts.load("mixed.npz") == mixed
    vocab, merges = TRAINERS["naive"]().train_from_counts(mixed, 280, [EOT])
    assert Tokenizer.from_directory("tok").merges == merges
    assert b" lower" in vocab.values()
    recorded = json.loads(Path("tok/training.json").read_text())["mixture"]
    assert [(part["name"], part["weight"]) for part in recorded] == [("cats", 0.3), ("rows", 0.7)]
    assert recorded[1]["corpus"][0]["path"] == "rows.jsonl"


def test_a_mixture_may_have_saved_counts(corpora, capsys):
    words = [*corpora, "--overwrite"]
    assert main(["--input", "rows.jsonl", *words, "--save-counts", "rows.npz"]) == 0
    assert main(["--mix", "cats.txt:3", "rows.jsonl:7", *words]) == 0
    expected = Path("tok/tokenizer.json").read_bytes()
    assert main(["--mix", "cats.txt:3", "rows.npz:7", *words[2:]]) == 0
    assert Path("tok/tokenizer.json").read_bytes() == expected


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--mix", "cats.txt"], "--mix must be PATH:WEIGHT"),
        (["--mix", "cats.txt:0"], "--mix .*'cats.txt:0'"),
        (["--mix", "gone.txt:1"], "gone.txt"),
        (["--mix", "cats.txt:1", "--input", "cats.txt"], "--mix cannot be given with --input"),
        (["--mix", "cats.txt:1", "--counts", "a.npz"], "--mix cannot be given with --counts"),
        (["--mix", "rows.jsonl:1", "--min-frequency", "2"], "--min-frequency must be 1"),
        (["--mix", "cats.txt:1"], "--field"),
        ([], "--input, --mix, --parity or --counts"),
    ],
)
def test_a_mixture_that_cannot_be_used_is_rejected(corpora, capsys, words, named):
    assert main([*words, *corpora]) == 2
    assert re.search(named, error_of(capsys, "train-bpe"))
    assert not Path("tok").exists()


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 6))]
)
def test_killed_sizes_leave_whole_tokenizers_and_the_next_run_works(
    text_file, tmp_path, capsys, part
):
    sizes = ("260", "270", "280")
    words = ["--input", str(text_file), "--num-workers", "1", "--vocab-size", ",".join(sizes)]

    def trained(folder, *more):
        assert main([*words, "--output", str(folder), *more]) == 0

    def tokenizers(folder):
        names = ("tokenizer.json", "training.json")
        return {
            f"{size}/{name}": (folder / size / name).read_bytes()
            for size in sizes
            for name in names
            if (folder / size / name).exists()
        }

    trained(tmp_path / "whole")
    expected = tokenizers(tmp_path / "whole")
    assert len(expected) == 6
    watched = tmp_path / "watched"
    watched.mkdir()
    states = states_at_every_call(lambda: trained(watched / "out"), watched)
    for number, state in enumerate(states[part::6]):
        folder = tmp_path / f"killed-{number}"
        restore(state, folder)
        found = tokenizers(folder / "out")
        assert found.items() <= expected.items()
        trained(folder / "out", "--overwrite")
        assert tokenizers(folder / "out") == expected
    assert len(states) > 12


# ------------------------------------------------------------------- sizes, parity, required words


def test_sizes_are_compared_on_held_out_text(text_file, tmp_path, capsys):
    held_out = [tmp_path / "a.txt", tmp_path / "b.txt"]
    held_out[0].write_text("the cat sat.\n" * 30)
    held_out[1].write_text("é好 dog\n" * 30, encoding="utf-8")
    sizes = ["--vocab-size", "262,270,284", "--d-model", "64", "--held-out", *map(str, held_out)]
    output = tmp_path / "out"
    assert main([*arguments(text_file, output), *sizes, "--least-gain", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("tokens"))
    assert lines[header - 1] == "on held-out text:"
    names = re.split("  +", lines[header])
    assert names == ["tokens", "a", "b", "all", "Gini", "never used", "embedding weights"]
    tokenizer = Tokenizer.from_directory(output / "284")
    rows = [lines[header + 1 + i].split() for i in range(3)]
    for row, size in zip(rows, (262, 270, 284), strict=True):
        smaller = tokenizer.truncated(size)
        rates = [
            path.stat().st_size / len(smaller.encode(path.read_text(encoding="utf-8")))
            for path in held_out
        ]
        assert row[:3] == [str(size), *(f"{rate:.3f}" for rate in rates)]
        assert row[-1] == f"{size * 64:,}"
    assert "up to 284 tokens, another 1,000 always gain 50.00% or more" in lines
    page = (output / "sizes.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "embedding weights" in page

    assert main([*arguments(text_file, tmp_path / "two"), "--vocab-size", "262,270"]) == 0
    assert "on the training text:" in capsys.readouterr().out


def test_several_texts_are_compressed_equally_well(tmp_path, capsys):
    texts = {"en": "the cat sat on the mat. ", "ru": "кот сидел на коврике. "}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text * 400, encoding="utf-8")
    paths = [str(tmp_path / f"{name}.txt") for name in texts]
    words = ["--parity", *paths, "--vocab-size", "290"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "training.json").read_text())["parity"]
    served = {source["name"]: source["merges"] for source in record["sources"]}
    assert f"merges chosen by each text: en {served['en']}, ru {served['ru']}" in printed
    assert sum(served.values()) == 34
    assert min(served.values()) > 0
    assert (record["unit"], record["window"]) == ("bytes", None)
    assert re.search(r"tokens +en +ru +all +Gini", printed)

    # With the same texts held out, the library learns the same merges.
    trainer = TRAINERS["naive"](num_workers=1)
    expected = trainer.train_parity(paths, 270, [], dev=paths)[1]
    more = ["--parity-dev", *paths, "--vocab-size", "270", "--output", str(tmp_path / "two")]
    assert main([*words[:3], *more]) == 0
    assert Tokenizer.from_directory(tmp_path / "two").merges == expected

    capsys.readouterr()
    for extra, message in (
        (["--parity-dev", paths[0]], "--parity-dev must be one text for each of the 2 sources"),
        (["--input", paths[0]], "--parity cannot be given with --input"),
        (["--parity-alpha", "0"], "--parity-alpha must be finite and at least 1"),
        (["--superwords-from", "280"], "--superwords-from cannot be given"),
    ):
        assert main([*words, *extra, "--output", str(tmp_path / "bad")]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "bad").exists()
    plain = ["--input", paths[0], "--vocab-size", "270", "--output", str(tmp_path / "bad")]
    assert main([*plain, "--parity-window", "5"]) == 2
    assert "--parity-window requires --parity" in capsys.readouterr().err


def test_a_temperature_makes_shares_more_equal(tmp_path, capsys):
    for name, size in (("large", 8000), ("small", 1000)):
        (tmp_path / f"{name}.txt").write_bytes(b"ab cd ef gh " * (size // 12))
    paths = [str(tmp_path / f"{name}.txt") for name in ("large", "small")]
    words = ["--vocab-size", "258", "--output", str(tmp_path / "out"), "--overwrite"]
    assert main(["--mix", *paths, "--temperature", "1", *words]) == 0
    assert "mixture: large 88.9%, small 11.1%" in capsys.readouterr().out
    assert main(["--mix", *paths, "--temperature", "3", *words]) == 0
    assert "mixture: large 66.7%, small 33.3%" in capsys.readouterr().out
    record = json.loads((tmp_path / "out" / "training.json").read_text())
    assert record["temperature"] == 3
    assert main(["--mix", *paths, "--temperature", "0.5", *words]) == 2
    assert "--temperature must be finite and at least 1, got 0.5" in capsys.readouterr().err
    assert main(["--mix", *paths, *words]) == 2
    assert "must be PATH:WEIGHT" in capsys.readouterr().err
    assert main(["--input", *paths, "--temperature", "2", *words]) == 2
    assert "--temperature requires --mix" in capsys.readouterr().err


def test_required_words_are_tokens_and_count_toward_the_size(text_file, tmp_path, capsys):
    required = tmp_path / "required.txt"
    required.write_text(" protein\n\n好\r\n", encoding="utf-8", newline="")
    output = tmp_path / "out"
    assert main([*arguments(text_file, output), "--require", str(required)]) == 0
    tokenizer = Tokenizer.from_directory(output)
    assert len(tokenizer) == 280
    assert [len(tokenizer.encode(word)) for word in (" protein", "好")] == [1, 1]
    record = json.loads((output / "training.json").read_text(encoding="utf-8"))
    assert record["require"] == [" protein", "好"]
    capsys.readouterr()
    for content, message in (
        (b"two words\n", "--require must be single pre-tokens, but 'two words' is split"),
        (b"\xff\n", "is not UTF-8: byte 0xff at offset 0"),
        (b" thousandsofletters\n", "--require needs at least"),
    ):
        required.write_bytes(content)
        more = ["--require", str(required), "--vocab-size", "262"]
        assert main([*arguments(text_file, tmp_path / "bad"), *more]) == 2
        assert message in capsys.readouterr().err
    required.unlink()
    assert main([*arguments(text_file, output), "--require", str(required)]) == 2
    assert f"--require must be a file with a word on each line, and {str(required)!r}" in (
        capsys.readouterr().err
    )
    more = ["--require", str(required), "--vocab-size", "262,270"]
    assert main([*arguments(text_file, tmp_path / "bad"), *more]) == 2
    assert "--require needs a single --vocab-size" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:no pair was left:UserWarning")
def test_a_sample_is_drawn_from_all_files_and_recorded(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cs336_basics.counting.sample.SMALLEST_UNIT", 512)
    files = []
    for name, word in (("en", "the cat"), ("de", "der Hund")):
        files.append(tmp_path / f"{name}.txt")
        files[-1].write_text(f"{word} {EOT}" * 3000, encoding="utf-8")
    output = tmp_path / "tokenizer"
    given = ["--input", *map(str, files), "--vocab-size", "275", "--special-token", EOT]
    given += ["--superwords-from", "270"]
    assert main([*given, "--output", str(output), "--sample", "12kB", "--sample-seed", "7"]) == 0
    printed = capsys.readouterr().out
    record = json.loads((output / "training.json").read_text())["sample"]
    total = sum(file.stat().st_size for file in files)
    assert (record["num_bytes"], record["seed"], record["of"]) == (12_000, 7, total)
    assert sum(record["drawn"]) == pytest.approx(12_000, abs=512)
    assert min(record["drawn"]) > 2000
    assert f"sample: {sum(record['drawn']):,} of {total:,} bytes" in printed
    corpus, sample = Corpus([*map(str, files)]), Sample(12_000, 7)
    _, merges = train_bpe(corpus, 275, [EOT], superwords_from=270, sample=sample)
    assert Tokenizer.from_directory(output).merges == merges
    parts = [f"{files[0]}:0.9", f"{files[1]}:0.1"]
    mixed = ["--mix", *parts, *given[3:], "--output", str(tmp_path / "mixed")]
    assert main([*mixed, "--sample", "10000"]) == 0
    record = json.loads((tmp_path / "mixed" / "training.json").read_text())["mixture"]
    assert [sum(portion["sample"]["drawn"]) for portion in record] == pytest.approx(
        [9000, 1000], abs=512
    )
    assert "sample of de: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--sample", "much"], "--sample"),
        (["--sample", "0.1B"], "--sample"),
        (["--sample-seed", "3"], "--sample-seed requires --sample"),
        (["--sample", "1kB", "--partial-counts", "kept"], "--partial-counts cannot be given"),
    ],
)
def test_a_sample_that_cannot_be_drawn_is_rejected(text_file, tmp_path, capsys, more, named):
    assert main([*arguments(text_file, tmp_path / "out"), *more]) == 2
    assert named in error_of(capsys, "train-bpe")


def test_only_files_are_sampled():
    trainer = TRAINERS["heap"](sample=Sample(1000))
    for train in (trainer.train_from_iterator, trainer.train_from_counts):
        with rejects("sample"):
            train({b"a": 1}, 300, [])
    with rejects("sample", kind=TypeError):
        TRAINERS["heap"](sample=1000)
    with rejects("sample"):
        trainer.train_parity(["a.txt"], 300, [], dev=["b.txt"])
