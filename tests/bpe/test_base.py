"""All trainers learn the same vocabulary and merges from any input, even if counts are tied."""

import inspect
import json
import os
import random
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics import TRAINERS, BPE_Trainer, Tokenizer, train_bpe
from cs336_basics._support.errors import InputError, InputTypeError, MissingFileError
from cs336_basics.bpe import get_trainer
from cs336_basics.bpe.rules import TIE_BREAKS
from cs336_basics.bpe.v3_heap import HeapTrainer
from cs336_basics.counting import WordCounts, count_texts, count_words
from cs336_basics.execution.executors import EXECUTORS
from cs336_basics.formats.byte_strings import token_to_string
from cs336_basics.splitting import SPLITTINGS
from cs336_basics.text import Corpus
from cs336_basics.text.normalization import NORMALIZERS
from tests.bpe.trainers import (
    EOT,
    WORKED_EXAMPLE,
    WORKED_MERGES,
    every_trainer,
    specified_merges,
    train,
)
from tests.errors import rejects
from tests.processes import run_python
from tests.text.combining import combining_text
from tests.texts import long_text


def test_trainers_are_listed_by_their_names():
    for name, trainer in TRAINERS.items():
        assert issubclass(trainer, BPE_Trainer)
        assert trainer.name == name


@pytest.mark.parametrize("progress", [True, False])
def test_progress_bars_are_imported_before_the_clock_starts(progress):
    code = f"""if 1:
        import sys
        from cs336_basics import TRAINERS
        sys.stderr.isatty = lambda: True
        trainer = TRAINERS["native"](progress={progress})
        before = set(sys.modules)
        trainer.train_from_iterator(["low lower"], 258, [])
        assert not {progress} or "multiprocessing" in before
        assert not {{"tqdm", "multiprocessing"}} & (set(sys.modules) - before)
    """
    run_python(code)


@every_trainer
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_training_equals_training_on_normalized_text(name, normalizer, tmp_path):
    chooser = random.Random(normalizer)
    text = EOT.join(
        " ".join(combining_text(chooser, chooser.randrange(9)) for _ in range(40)) for _ in range(5)
    )
    path, before = tmp_path / "text.txt", tmp_path / "before.txt"
    path.write_text(text, encoding="utf-8", newline="")
    pieces = (unicodedata.normalize(normalizer, piece) for piece in text.split(EOT))
    before.write_text(EOT.join(pieces), encoding="utf-8", newline="")
    expected = train_bpe(before, 300, [EOT], trainer=name)
    assert expected != train_bpe(path, 300, [EOT], trainer=name)
    assert train_bpe(path, 300, [EOT], trainer=name, normalizer=normalizer) == expected
    trainer = TRAINERS[name](normalizer=normalizer)
    assert trainer.train_from_iterator([text], 300, [EOT]) == expected
    tokenizer = Tokenizer(*expected, [EOT], normalizer=normalizer)
    words = [word for word in count_texts([text], tokenizer.splitter) if len(word) > 1]
    assert any(len(tokenizer.encode(word.decode())) == 1 for word in words)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_normalized_merges_equal_hugging_faces(normalizer):
    tokenizers = pytest.importorskip("tokenizers")
    chooser = random.Random(normalizer)
    texts = [combining_text(chooser, 60) for _ in range(60)]
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.normalizer = getattr(tokenizers.normalizers, normalizer)()
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    theirs.train_from_iterator(
        texts,
        tokenizers.trainers.BpeTrainer(
            vocab_size=330, initial_alphabet=alphabet, show_progress=False, min_frequency=2
        ),
    )
    trainer = TRAINERS["native"](normalizer=normalizer, tie_break="huggingface", min_frequency=2)
    _, merges = trainer.train_from_iterator(texts, 330, [])
    found = json.loads(theirs.to_str())["model"]["merges"]
    assert [tuple(map(token_to_string, pair)) for pair in merges] == [*map(tuple, found)]


@pytest.mark.parametrize(
    ("name", "fields"), [("hep", ("trainer", "'hep'", "'heap'")), (3, ("trainer", 3))]
)
def test_unknown_names_are_rejected(name, fields):
    with rejects(*fields):
        get_trainer(name)


def test_train_bpe_has_the_options_of_the_trainers():
    ours, theirs = (inspect.signature(f).parameters for f in (train_bpe, BPE_Trainer))
    assert {name: ours[name] for name in theirs} == dict(theirs)
    assert set(ours) - set(theirs) == {"input_path", "vocab_size", "special_tokens", "trainer"}


# --- merges --------------------------------------------------------------------------------------

# With few letters, short words and small counts, ties and runs are frequent. `binary` generates
# all bytes. A mixture of large and small counts makes `native` lower its threshold during the loop.
word_counts = st.dictionaries(
    st.one_of(
        st.lists(st.sampled_from([b"a", b"b", b"\xff"]), max_size=14).map(b"".join),
        st.lists(st.sampled_from([b"a", b"aa", b"ab", b"aab", b" ", b"\0"]), max_size=7).map(
            b"".join
        ),
        st.binary(max_size=9),
        st.text("a é世😀", max_size=5).map(str.encode),
    ),
    st.sampled_from([0, 1, 1, 2, 3, 1000, 2**40]),
    max_size=9,
)
options = st.fixed_dictionaries(
    {},
    optional={
        "min_frequency": st.integers(0, 5),
        "max_token_length": st.none() | st.integers(1, 9),
        "max_words": st.integers(1, 2),
        "whole_characters": st.booleans(),
        "forbid": st.sampled_from(["aa", "^ .", r"[ \0]$"]),
        "veto": st.sampled_from([lambda left, right, count: left + right in (b"ab", b"aab")]),
        "tie_break": st.sampled_from(TIE_BREAKS),
    },
)


def check_against_the_specification(name, word_counts, options, num_merges, continued):
    before, start = [], {}
    if continued is not None:
        before = specified_merges(*continued)
        vocab = dict(enumerate([*(bytes([b]) for b in range(256)), *map(b"".join, before)]))
        start["continue_from"] = (vocab, before)
    vocab, merges = train(name, word_counts, num_merges, [EOT], **options, **start)
    expected = specified_merges(word_counts, num_merges, before=before, **options)
    assert merges == [*before, *expected]
    tokens = [*map(b"".join, before), EOT.encode(), *map(b"".join, expected)]
    assert vocab == dict(enumerate([*(bytes([b]) for b in range(256)), *tokens]))


arguments = given(
    word_counts=word_counts,
    options=options,
    num_merges=st.integers(0, 50),
    continued=st.none() | st.tuples(word_counts, st.integers(0, 9)),
)


@every_trainer
@arguments
def test_equals_the_specification(name, word_counts, options, num_merges, continued):
    check_against_the_specification(name, word_counts, options, num_merges, continued)


@pytest.mark.slow
@every_trainer
@settings(max_examples=5000)
@arguments
def test_equals_the_specification_at_length(name, word_counts, options, num_merges, continued):
    check_against_the_specification(name, word_counts, options, num_merges, continued)


@every_trainer
@pytest.mark.parametrize("num_merges", [0, 1, 6, 12])
def test_the_example_of_the_course(name, num_merges, tmp_path):
    vocab, merges = train(name, WORKED_EXAMPLE, num_merges, [EOT])
    assert merges == WORKED_MERGES[:num_merges]
    assert [vocab[i] for i in range(256)] == [bytes([i]) for i in range(256)]
    assert vocab[256] == EOT.encode()
    assert [vocab[257 + i] for i in range(num_merges)] == [a + b for a, b in merges]
    path = tmp_path / "text.txt"
    path.write_text("low low low low low lower lower widest widest widest" + " newest" * 6)
    from_file = train_bpe(path, 257 + num_merges, [EOT], trainer=name, pattern=r"\S+")
    assert from_file == (vocab, merges)


@every_trainer
@pytest.mark.parametrize(
    ("counts", "best"),
    [
        # The words of the course's example of a tie. Their largest pair of bytes is (Z, Z).
        ({b"AB": 1, b"AC": 1, b"BZZ": 1, b"BAA": 1}, (b"Z", b"Z")),
        # Bytes are compared as unsigned numbers.
        ({b"ab": 1, b"\xffa": 1}, (b"\xff", b"a")),
        ({b"\x7fa": 1, b"\x80a": 1}, (b"\x80", b"a")),
        # A more frequent pair is merged before a larger pair.
        ({b"ab": 2, b"\xffa": 1}, (b"a", b"b")),
    ],
)
def test_the_largest_of_tied_pairs_is_merged(name, counts, best):
    assert train(name, counts, 1)[1] == [best]


@every_trainer
def test_counts_may_exceed_32_bits(name):
    for factor in (3 * 10**9, 2**40, 2**55):
        counts = {word: count * factor for word, count in WORKED_EXAMPLE.items()}
        assert train(name, counts, 12)[1] == WORKED_MERGES
    for counts in (
        {b"ab": 2**60, b"cd": 2**60 - 1, b"abx": 3, b"zz": 2**60 + 1},
        {b"xy": 2**62 - 1},
    ):
        assert train(name, counts, 9)[1] == specified_merges(counts, 9)
    counts = {b" the": 3_000_000_000, b" thx": 2_999_999_999, b"zz": 4_294_967_296}
    assert train(name, counts, 3)[1] == [(b"t", b"h"), (b" ", b"th"), (b"z", b"z")]


DATA = Path(os.environ.get("CS336_DATA") or "/nonexistent")
CORPORA = ["tinystories_valid", "owt_sample", "multi_zh_wiki", "multi_emoji", "code_python"]
PRESENT = [name for name in CORPORA if (DATA / f"{name}.txt").exists()]


@pytest.mark.slow
@pytest.mark.parametrize("corpus", [None, *PRESENT])
def test_all_agree_on_natural_and_hostile_text(corpus, tmp_path):
    path = tmp_path / "text.txt"
    text = (DATA / f"{corpus}.txt").read_bytes() if corpus else long_text(5, 60_000).encode()
    path.write_bytes(text[:400_000])
    results = {
        name: train_bpe(path, 257 + (40 if name == "naive" else 700), [EOT], trainer=name)[1]
        for name in TRAINERS
    }
    for name, merges in results.items():
        assert merges[:40] == results["naive"], name
        if name != "naive":
            assert merges == results["incremental"], name


# --- texts and vocabularies ----------------------------------------------------------------------


@every_trainer
def test_training_stops_early_and_warns_once(name, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("ab ab")
    with pytest.warns(UserWarning, match=r"\b2 of 744\b.*\b258\b") as caught:
        vocab, merges = train_bpe(path, 1000, [], trainer=name)
    assert len(caught) == 1
    assert merges == [(b"a", b"b"), (b" ", b"ab")]
    assert len(vocab) == 258
    path.write_text(EOT * 3)
    with pytest.warns(UserWarning, match=r"\b0 of 10\b"):
        vocab, merges = train_bpe(path, 267, [EOT], trainer=name)
    assert (len(vocab), merges) == (257, [])


@every_trainer
def test_training_on_texts_in_memory(name):
    texts = ["low low low low low lower", b"lower widest widest", "widest" + EOT + "newest newest"]
    trainer = TRAINERS[name](pattern=r"\S+")
    _, merges = trainer.train_from_iterator(iter(texts), 263, [EOT])
    counts = {b"low": 5, b"lower": 2, b"widest": 3, b"newest": 2}
    assert merges == specified_merges(counts, 6)
    with rejects(None, "0xff", 1, place="text 0"):
        trainer.train_from_iterator([b"a\xff"], 300, [], errors="strict")


@every_trainer
def test_training_on_a_corpus(name, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"body": "ab ab"}\n{"body": "cd"}\n')
    with pytest.warns(UserWarning, match=r"\b3 of 44\b"):
        _, merges = train_bpe(Corpus(path, field="body"), 300, [], trainer=name)
    assert merges == specified_merges({b"ab": 1, b" ab": 1, b"cd": 1}, 44)
    path.write_bytes(b'{"body": "ab\xff"}\n')
    with rejects(None, "0xff", 12, place=path):
        train_bpe(Corpus(path, field="body", errors="strict"), 300, [], trainer=name)


@every_trainer
def test_no_merge_touches_a_special_token(name, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(f"hello{EOT}hello<|pad|>hello {EOT} end" * 50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vocab, merges = train_bpe(path, 300, [EOT, "<|pad|>"], trainer=name)
    assert vocab[256] == EOT.encode()
    assert vocab[257] == b"<|pad|>"
    assert all(b"<|" not in a + b and b"ello<" not in a + b for a, b in merges)
    assert b"hello" in vocab.values()


@every_trainer
def test_a_special_token_is_not_made_twice(name):
    trainer = TRAINERS[name]()
    with rejects(None, "'<|e|>'"):
        trainer.train_from_counts({b"<|e|>": 9}, 261, ["<|e|>"])
    # The same words are accepted if no merge produces the special token.
    assert len(trainer.train_from_counts({b"<|e|>": 9}, 260, ["<|e|>"])[1]) == 3


@every_trainer
def test_the_trainer_keeps_nothing_after_training(name):
    trainer = TRAINERS[name]()
    before = set(vars(trainer))
    trainer.train_from_counts(WORKED_EXAMPLE, 262)
    assert set(vars(trainer)) == before


@every_trainer
def test_word_counts_and_numpy_integers_are_accepted(name):
    expected = train(name, WORKED_EXAMPLE, 6)
    counts = {word: np.int64(count) for word, count in WORKED_EXAMPLE.items()}
    trainer = TRAINERS[name](min_frequency=np.int64(2), max_token_length=np.int64(9))
    assert trainer.train_from_counts(counts, np.int64(262)) == expected
    # Messages show these values, so they must be ordinary ints.
    assert type(trainer.min_frequency) is type(trainer.limits.max_token_length) is int
    counts = WordCounts.from_mapping(WORKED_EXAMPLE, "gpt2", [EOT])
    with rejects("special_tokens", "endoftext"):
        TRAINERS[name]().train_from_counts(counts, 262)
    assert train(name, counts, 6, [EOT])[1] == expected[1]


# --- invalid arguments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vocab_size", "special_tokens", "error", "fields"),
    [
        (255, [], InputError, ("vocab_size", 256, 255)),
        (256, [EOT], InputError, ("vocab_size", 257, 256)),
        (-1, [], InputError, ("vocab_size", "-1")),
        (300.0, [], InputTypeError, ("vocab_size",)),
        (300, [EOT, EOT], InputError, ("special_tokens", "'<|endoftext|>'")),
        (300, [""], InputError, ("special_tokens",)),
        (300, ["a"], InputError, ("special_tokens", "'a'")),
        (300, EOT, InputTypeError, ("special_tokens", "endoftext")),
    ],
)
def test_invalid_requests_are_rejected(tmp_path, vocab_size, special_tokens, error, fields):
    path = tmp_path / "text.txt"
    path.write_text("some text")
    with rejects(*fields, kind=error):
        TRAINERS["naive"]().check_request(vocab_size, special_tokens)
    with rejects(*fields, kind=error):
        train_bpe(path, vocab_size, special_tokens)


def test_a_missing_file_is_named(tmp_path):
    with rejects(None, "missing.txt", kind=MissingFileError):
        train_bpe(tmp_path / "missing.txt", 300, [])


@pytest.mark.parametrize(
    ("word_counts", "error", "shown"),
    [
        ({b"ab": -1}, InputError, ["b'ab'", "-1"]),
        ({b"ab": -(10**5000)}, InputError, ["b'ab'"]),
        ({5: 1}, InputTypeError, ["5"]),
        ({("ab" * 10**6,): 1}, InputTypeError, ["'abab"]),
        ({"a\ud800": 1}, InputError, ["U+D800"]),
        ({"ab": 1, b"ab": 2}, InputError, ["b'ab'"]),
        ({b"ab": 1.5}, InputTypeError, ["b'ab'", "1.5"]),
        ({b"ab" * 10**6: 1.5}, InputTypeError, ["b'abab", "1.5"]),
        ({b"ab": True}, InputTypeError, ["b'ab'", "True"]),
        ({b"ab": 10**5000}, InputError, ["b'ab'"]),
        ({b"ab": 2**62 - 1, b"abc": 2}, InputError, ["word_counts", "9,223,372,036,854,775,812"]),
        ([(b"ab", 1)], InputTypeError, ["word_counts"]),
    ],
)
def test_invalid_counts_are_rejected_in_a_short_message(word_counts, error, shown):
    with pytest.raises(error) as found:
        TRAINERS["native"]().train_from_counts(word_counts, 300)
    message = str(found.value)
    assert all(value in message for value in shown)
    assert len(message) < 300


def test_the_base_class_is_abstract():
    with rejects(None, "TRAINERS", kind=InputTypeError):
        BPE_Trainer()


@pytest.mark.parametrize("splitting", [None, *SPLITTINGS])
@pytest.mark.parametrize("execution", [None, *EXECUTORS])
def test_the_options_for_counting_are_used(splitting, execution, tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("low lower lowest " * 9)
    chosen = []

    def watched(*arguments, splitting, execution, **options):
        chosen.append((splitting, execution))
        return count_words(*arguments, **options)

    monkeypatch.setattr("cs336_basics.counting.count_words", watched)
    found = train_bpe(path, 260, [], splitting=splitting, execution=execution)
    assert found == train_bpe(path, 260, [])
    assert chosen == [(splitting, execution), (None, None)]


def test_special_tokens_may_be_left_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("the cat sat on the mat")
    expected = train_bpe(path, 260, [])
    assert train_bpe(path, 260) == expected
    assert HeapTrainer().train(path, 260) == expected
    assert HeapTrainer().train_from_iterator(["the cat sat on the mat"], 260) == expected


def test_an_iterator_without_words_is_refused():
    texts = iter(["the cat sat on the mat"])
    HeapTrainer().train_from_iterator(texts, 260)
    with rejects("texts", "iterator"):
        HeapTrainer().train_from_iterator(texts, 260)
