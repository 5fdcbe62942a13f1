"""Sequences of splits give the pieces of Hugging Face's tokenizers."""

from __future__ import annotations

import random

import pytest

from cs336_basics.splitting import pretokenize
from cs336_basics.splitting.patterns.named_patterns import resolve_pattern
from cs336_basics.splitting.patterns.split_sequences import (
    BEHAVIORS,
    MAX_SPLITS,
    Split,
    pattern_of_splits,
    sequence_pattern,
    splits_of,
)
from cs336_basics.splitting.splitter import SEARCH_TIMEOUT
from cs336_basics.tokenizer import Tokenizer
from tests.errors import rejects
from tests.tokenizer.examples import BYTES

EXPRESSIONS = ["[0-9]", "[0-9]+", r"\s+", r"\s", "(?:a)", "(?:ab)+", r"[^\s]+", r"\p{L}{2}"]
THEIR_BEHAVIORS = {"Isolated": "isolated", "Contiguous": "contiguous",
                   "MergedWithPrevious": "merged_with_previous",
                   "MergedWithNext": "merged_with_next"}  # fmt: skip


def random_splits(chooser):
    return [
        Split(chooser.choice(EXPRESSIONS), chooser.choice(BEHAVIORS), chooser.random() < 0.4)
        for _ in range(chooser.randint(1, 3))
    ]


@pytest.mark.parametrize("number", [100, pytest.param(3000, marks=pytest.mark.slow)])
def test_pieces_are_those_of_tokenizers(number):
    tokenizers = pytest.importorskip("tokenizers")
    chooser = random.Random(0)
    for _ in range(number):
        splits = random_splits(chooser)
        theirs = tokenizers.pre_tokenizers.Sequence(
            [
                tokenizers.pre_tokenizers.Split(
                    tokenizers.Regex(expression), THEIR_BEHAVIORS[behavior], invert
                )
                for expression, behavior, invert in splits
            ]
        )
        for _ in range(10):
            text = "".join(chooser.choices("ab 1\n猫é", k=chooser.randint(0, 12)))
            expected = [piece for piece, _ in theirs.pre_tokenize_str(text)]
            assert list(pretokenize(text, sequence_pattern(splits))) == expected


def test_a_sequence_is_a_pattern_of_a_tokenizer():
    pattern = sequence_pattern([Split("[0-9]"), Split(r"\s+", "MergedWithNext")])
    assert splits_of(pattern) == [Split("[0-9]"), Split(r"\s+", "MergedWithNext")]
    vocab = {**BYTES, 256: b" a", 257: b"a ", 258: b"12"}
    merges = [(b"a", b" "), (b" ", b"a"), (b"1", b"2")]
    for backend in (None, "python", "reference"):
        ours = Tokenizer(vocab, merges, ["<s>"], pattern=pattern, backend=backend)
        assert ours.encode("a a12<s>") == [97, 256, 49, 50, 259]
        assert list(ours.encode_iterable(["a ", "a1", "2<s", ">"])) == [97, 256, 49, 50, 259]


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_the_shortest_pattern_for_one_split_gives_its_pieces(behavior, invert):
    split = Split("[0-9]", behavior, invert)
    for text in ("1", "12", "a12b", "12ab34", "a1b2"):
        pieces = list(pretokenize(text, sequence_pattern([split])))
        assert list(pretokenize(text, pattern_of_splits([split]))) == pieces


BAD = [
    '{"splits": [',
    '{"splits": []}',
    '{"splits": [["a"]], "more": 5',
    '{"splits": 7}',
    '{"splits": [["[0-9]", "Other", false]]}',
    '{"splits": [["[0-9]", "Isolated", 0]]}',
    '{"splits": [[5, "Isolated", false]]}',
    '{"splits": [["(", "Isolated", false]]}',
    '{"splits": [["a*", "Isolated", false]]}',
    '{"splits": ' + "[" * 40_000,
    sequence_pattern([Split("[0-9]")] * (MAX_SPLITS + 1)),
    sequence_pattern([Split("[0-9]" * 20_000)]),
    sequence_pattern([Split(sequence_pattern([Split("[0-9]")]))]),
]


@pytest.mark.parametrize("pattern", BAD)
def test_a_malformed_sequence_is_refused(pattern):
    with rejects("pattern") as caught:
        resolve_pattern(pattern)
    assert len(str(caught.value)) < 600


def test_a_slow_sequence_is_stopped(monkeypatch):
    monkeypatch.setattr("cs336_basics.splitting.splitter.SEARCH_TIMEOUT", 0.2)
    assert SEARCH_TIMEOUT > 0.2
    pattern = sequence_pattern([Split(r"\n"), Split("(?<!x)(?:a|aa)+[bc]")])
    with rejects(None, "seconds"):
        list(pretokenize("a" * 60, pattern))
