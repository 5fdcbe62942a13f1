"""Words that a vocabulary must have."""

from __future__ import annotations

import random
import warnings

import pytest

from cs336_basics._support.errors import InputTypeError
from cs336_basics.bpe import TRAINERS
from cs336_basics.bpe.reference import merge_by_rank, split_bytes
from cs336_basics.bpe.required import required_merges, with_required
from cs336_basics.tokenizer import Tokenizer, extend
from tests.bpe.trainers import every_trainer, train
from tests.errors import rejects

WORDS = {b" the": 9, b" then": 5, b" cat": 4, b" protein": 1, b"abab": 2}


@every_trainer
def test_required_words_are_the_last_tokens(name):
    plain = train(name, WORDS, 9)[1]
    vocab, merges = train(name, WORDS, 9, require=[" then", "xyz"])
    assert len(vocab) == 256 + 9
    assert merges[-2:] == [(b"x", b"y"), (b"xy", b"z")]
    learned = merges[:-2] if (b" the", b"n") in plain[:7] else merges[:-3]
    assert learned == plain[: len(learned)]
    tokenizer = Tokenizer(vocab, merges)
    assert [len(tokenizer.encode(word)) for word in (" then", "xyz")] == [1, 1]


@every_trainer
def test_the_result_is_that_of_extend(name):
    words = [" protein", "abcabc", " thence"]
    expected = train(name, WORDS, 24, require=words)
    results = (extend(Tokenizer(*train(name, WORDS, n)), words) for n in range(24, -1, -1))
    found = next(result for result in results if len(result) <= 256 + 24)
    assert (found.vocab, found.merges) == expected


def test_merges_are_dropped_until_the_words_fit():
    learned = [(b"a", b"b"), (b"c", b"d"), (b"ab", b"cd")]
    assert with_required([], [], learned, 9) == learned
    # The last merge makes "abcd", so nothing is added or dropped.
    assert with_required([b"abcd"], [], learned, 3) == learned
    # "xy" needs one merge, so the last learned merge is dropped.
    assert with_required([b"xy"], [], learned, 3) == [*learned[:2], (b"x", b"y")]
    # Without this merge, "abcd" needs a merge as well, so another one is dropped, and so on.
    found = with_required([b"xy", b"abcd"], [], learned, 4)
    assert found == [*learned, (b"x", b"y")]
    with rejects("require", "at least 1 more"):
        with_required([b"xy", b"abcd"], [], learned, 3)
    with rejects("require", "at least 1 more"):
        with_required([b"xyz"], [], learned, 1)


def check_random_cases(first: int, number: int) -> None:
    """Every required word is one token, other tokens keep their merges, and the size is kept."""
    for seed in range(first, first + number):
        chooser = random.Random(seed)
        counts = {
            bytes(chooser.choices(b"abc", k=chooser.randint(1, 8))): chooser.randint(1, 9)
            for _ in range(chooser.randint(1, 10))
        }
        words = [
            bytes(chooser.choices(b"abcd", k=chooser.randint(1, 6)))
            for _ in range(chooser.randint(0, 4))
        ]
        room = chooser.randint(25, 40)
        plain = train("native" if seed % 2 else "heap", counts, room)[1]
        found = with_required(words, [], plain, room)
        assert len(found) <= room
        assert any(
            found == [*plain[:n], *required_merges(words, plain[:n])]
            for n in range(len(plain), -1, -1)
        ), seed
        ranks = {pair: rank for rank, pair in enumerate(found)}
        for word in words:
            assert merge_by_rank(split_bytes(word), ranks) == (word,), seed
        assert len({left + right for left, right in found}) == len(found) == len(ranks), seed


@pytest.mark.skipif(not TRAINERS["native"].is_built, reason="extensions are not built")
def test_random_words_become_tokens():
    check_random_cases(0, 100)


@pytest.mark.slow
def test_ten_thousand_times_random_words_become_tokens():
    check_random_cases(1000, 10_000)


def test_parity_aware_training_has_required_words_too():
    trainer = TRAINERS["heap"](require=[" zebra"])
    vocab, merges = trainer.train_parity_from_counts([WORDS, {b" kot": 3}], 270, dev=[WORDS] * 2)
    assert b" zebra" in vocab.values()
    assert len(merges) == 14


def test_invalid_words_are_rejected():
    with rejects("require", "abc", kind=InputTypeError):
        TRAINERS["heap"](require="abc")
    for words, shown in (
        ([""], "''"), (["a b"], "'a b'"), (["\ud800"], "surrogate"), (["x" * 2000], "2,000"),
        (["<e>"], "'<e>'"),
    ):  # fmt: skip
        with rejects("require", shown), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TRAINERS["heap"](require=words).train_from_counts(WORDS, 300, ["<e>"])
    with rejects("require", 7, kind=InputTypeError):
        TRAINERS["heap"](require=[7]).train_from_counts(WORDS, 300)
    with rejects("require", "NFC"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        TRAINERS["heap"](require=["e\u0301"], normalizer="NFC").train_from_counts({b"a": 1}, 300)
