"""`python -m cs336_basics tokenize`: tokens, ids, counts and merges of hostile text."""

import itertools
import re
import sys

import pytest

from cs336_basics import Tokenizer
from cs336_basics._support.visible import visible
from cs336_basics.tokenizer import PostProcessor
from tests.commands.small_run import command, error_of, pipe
from tests.tokenizer.examples import BYTES, END, small_tokenizer

tokenize = command("tokenize")

HOSTILE = "the cat's na\u00efve \u732b\ud83c".encode("utf-8", "surrogatepass") + (
    f"\t{END}\x1b]0;title\x07 \u202e x\r\n\n  the\x00".encode() + b"\xff\xf0\x9f"
)
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    small_tokenizer().save("tok")
    (tmp_path / "text.txt").write_bytes(HOSTILE)
    return tmp_path


def run(capsys, *words):
    assert tokenize(["--tokenizer", "tok", *words]) == 0
    return capsys.readouterr().out


def expected_tokens(data=HOSTILE):
    tokenizer = small_tokenizer()
    ids = tokenizer.encode_array(data, errors="bytes").tolist()
    return ids, [visible(tokenizer.vocab[token_id]) for token_id in ids]


def test_tokens_are_separated_where_there_are_no_colors(work, capsys, monkeypatch):
    shown = run(capsys, "text.txt")
    _, tokens = expected_tokens()
    lines = "|".join(tokens).replace("↵", "↵\n").replace("\n|", "\n")
    assert shown == lines + "\n"
    assert shown.replace("\n", "").isprintable()
    pipe(monkeypatch, HOSTILE)
    assert run(capsys) == shown
    pipe(monkeypatch, HOSTILE)
    assert run(capsys, "-") == shown


def test_neighbors_have_different_backgrounds_and_special_tokens_their_own(work, capsys):
    shown = run(capsys, "text.txt", "--color", "always")
    _, tokens = expected_tokens()
    assert STYLE.sub("", shown).replace("\n", "") == "".join(tokens)
    assert STYLE.sub("", shown).replace("\n", "").isprintable()
    for line in shown.splitlines():
        assert line.endswith("\x1b[0m")  # no background reaches the end of the line
    listed = run(capsys, "text.txt", "--ids", "--color", "always").splitlines()
    backgrounds = [re.search(r"48;5;(\d+)m", line)[1] for line in listed]
    assert all(left != right for left, right in itertools.pairwise(backgrounds))
    special = backgrounds[tokens.index(END)]
    assert backgrounds.count(special) == 1


@pytest.mark.parametrize(
    ("terminal", "environment", "options", "expected"),
    [
        (True, {}, [], True),
        (False, {}, [], False),
        (True, {"NO_COLOR": "1"}, [], False),
        (True, {"NO_COLOR": ""}, [], True),
        (True, {"TERM": "dumb"}, [], False),
        (True, {"NO_COLOR": "1"}, ["--color", "always"], True),
        (True, {}, ["--color", "never"], False),
    ],
)
def test_colors_are_for_terminals(
    work, capsys, monkeypatch, terminal, environment, options, expected
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    assert ("\x1b[" in run(capsys, "text.txt", *options)) == expected


def test_ids_are_those_of_encode(work, capsys):
    (work / "many.txt").write_bytes(HOSTILE * 2500)  # several blocks
    lines = run(capsys, "many.txt", "--ids").splitlines()
    ids, tokens = expected_tokens(HOSTILE * 2500)
    assert [int(line.split()[0]) for line in lines] == ids
    assert [line[9:] for line in lines] == tokens


def test_counts_are_those_of_wc_and_of_encode(work, capsys):
    text = (b"two words \n\n" * 20_000)[:-3] + b"end"
    (work / "long.txt").write_bytes(text)
    (work / "empty.txt").write_bytes(b"")
    header, *rows = run(capsys, "--count", "text.txt", "long.txt", "empty.txt").splitlines()
    assert header.split() == ["lines", "words", "bytes", "tokens", "bytes/token"]
    found = {row.split()[-1]: row.split()[:-1] for row in rows}
    num_tokens = len(expected_tokens(text)[0])
    assert found["long.txt"] == [
        str(text.count(b"\n")), str(len(text.split())), str(len(text)), str(num_tokens),
        f"{len(text) / num_tokens:.3f}",
    ]  # fmt: skip
    assert found["empty.txt"] == ["0", "0", "0", "0", "-"]
    assert int(found["total"][3]) == num_tokens + len(expected_tokens()[0])


def test_the_merges_of_a_word_end_with_its_tokens(work, capsys):
    word = " the\u202e" + END
    lines = run(capsys, "--merges", word).splitlines()
    assert lines[0] == "   rank  · t h e"
    ids = [int(line.split()[1]) for line in lines if line.startswith("     id")]
    assert ids == small_tokenizer().encode(word)
    assert lines[-1].split() == ["id", str(ids[-1]), END]
    merges = [line for line in lines if "(" in line]
    assert "(t + h)" in merges[0]
    assert all(line.isprintable() for line in lines)


def test_the_parts_of_the_tokenizer_and_what_they_do_are_printed(work, capsys, monkeypatch):
    definition = small_tokenizer().definition
    end = definition.added_ids[END]
    definition = definition.replaced(
        normalizer="NFC", post_processor=PostProcessor((end, "A"), (end, "A", "B"))
    )
    made = Tokenizer.of(definition)
    made.save("tok")
    text = f"the cafe\u0301{END}\x1b[2J\u202e"
    pipe(monkeypatch, text.encode())
    printed = run(capsys, "--parts")
    assert all(line.isprintable() for line in printed.splitlines())
    described, _, rows = printed.partition("\n\n")
    assert described == str(made)
    rows = [row.split() for row in rows.splitlines()[1:]]
    assert rows[0] == ["0-0", "post-processor", END, f"({end})"]
    change = next(row for row in rows if row[1] == "normalizer")
    assert change[0] == "7-9"
    assert " ".join(change[-4:]) == "(U+0065 U+0301 → U+00E9)"
    ids = [int(word) for row in rows if row[1] != "normalizer"
           for word in " ".join(row).rpartition("(")[2].strip(")").split(", ")
           if word.isdigit()]  # fmt: skip
    assert ids == made(text)["input_ids"]


@pytest.mark.filterwarnings("ignore:the text is not all UTF-8:UserWarning")
def test_the_parts_of_several_files_are_printed(work, capsys):
    (work / "empty.txt").write_bytes(b"")
    printed = run(capsys, "--parts", "text.txt", "empty.txt", "--color", "always")
    blocks = printed.split("\n\n")
    assert blocks[0] == str(small_tokenizer())
    assert blocks[1].splitlines()[0].endswith("  text.txt")
    assert "\x1b]0" not in printed
    assert blocks[2].splitlines() == [blocks[2].strip("\n")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ids", "--count"], "pass one"),
        (["--parts", "--count"], "pass one"),
        (["--parts", "large.txt"], "1,000,000"),
        (["--merges", "a", "text.txt"], "'text.txt'"),
        (["missing.txt"], "missing.txt does not exist"),
        (["."], "Is a directory"),
        (["--merges", "a" * 1001], "1,001"),
        (["--merges", "\udcff"], "surrogate"),
        (["--color", "sometimes"], "'sometimes'"),
    ],
)
def test_errors_are_one_line(work, capsys, words, message):
    (work / "large.txt").write_bytes(b"large " * 200_000)
    assert tokenize(["--tokenizer", "tok", *words]) == 2
    assert message in error_of(capsys, "tokenize")


def test_tokens_that_are_escape_sequences_do_not_reach_the_terminal(work, capsys):
    vocab = {**BYTES, 256: b"\x1b[", 257: b"\x1b[2J"}
    Tokenizer(vocab, [(b"\x1b", b"[")], ["\x1b[2J"]).save("tok")
    (work / "text.txt").write_bytes(b"\x1b[2J \x1b[31m")
    for words in (["text.txt"], ["text.txt", "--ids"], ["--merges", "\x1b[2J \x1b[31m"]):
        assert "\x1b" not in run(capsys, *words)


def test_a_text_in_place_of_a_file_has_a_hint(work, capsys):
    assert tokenize(["--tokenizer", "tok", "the cat"]) == 2
    assert re.search("the cat does not exist; .* pipe it", capsys.readouterr().err)
