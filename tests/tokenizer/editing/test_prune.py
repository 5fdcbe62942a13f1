"""prune: all remaining tokens are reachable, and text is encoded with the remaining merges."""

import random
import time
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics import Tokenizer, train_bpe
from cs336_basics._support.errors import InputError, InputTypeError, MissingFileError
from cs336_basics.counting import count_text, count_words
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import prune
from cs336_basics.tokenizer.editing.prune import MergeTree
from cs336_basics.tokenizer.reference import merge_pretoken
from tests.errors import rejects
from tests.texts import long_text
from tests.tokenizer.examples import END, edited_merges, reference_ids, tricky_texts


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("prune") / "text.txt"
    path.write_text(long_text(2, 30_000), encoding="utf-8", newline="")
    return path


@pytest.fixture(scope="module")
def tokenizer(text_file):
    return Tokenizer(*train_bpe(text_file, 420, [END]), [END])


@pytest.mark.parametrize("size", [257, 258, 300, 419, 420])
def test_every_remaining_token_can_be_reached(tokenizer, text_file, size):
    pruned, id_map = prune(tokenizer, size, count_words(text_file, tokenizer.splitter))
    assert sorted(pruned.vocab) == list(range(size))
    ranks = {pair: rank for rank, pair in enumerate(pruned.merges)}
    for token in pruned.vocab.values():
        assert token == END.encode() or merge_pretoken(token, ranks) == [token]
    assert id_map.dtype == np.int64
    assert id_map.shape == (tokenizer.vocab_size,)
    kept = np.flatnonzero(id_map >= 0)
    np.testing.assert_array_equal(id_map[kept], np.arange(size))
    assert [pruned.vocab[i] for i in range(size)] == [tokenizer.vocab[i] for i in kept.tolist()]
    assert pruned.merges == [m for m in tokenizer.merges if m[0] + m[1] in pruned.vocab.values()]
    assert pruned.special_token_id(END) == 256


@settings(max_examples=40, deadline=None)
@given(tricky_texts, st.integers(257, 420))
def test_text_is_encoded_by_the_remaining_merges(tokenizer, text, size):
    pruned, _ = prune(tokenizer, size, {b" the": 2, b"ing": 1})
    assert pruned.encode(text) == reference_ids(pruned, text)
    assert pruned.decode(pruned.encode(text)) == text


def rarest_leaf(tokenizer, words):
    """Count the tokens of all words again, and return the token to remove next."""
    ids = {token: i for i, token in tokenizer.vocab.items()}
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    counts = Counter()
    for word, count in words.items():
        is_whole = tokenizer.ignore_merges and word in ids
        for token in [word] if is_whole else merge_pretoken(word, ranks):
            counts[token] += count
    parts = {part for pair in tokenizer.merges for part in pair}
    first = {}
    for rank, (left, right) in enumerate(tokenizer.merges):
        first.setdefault(left + right, rank)
    leaves = [
        token for token in ids if len(token) > 1 and token not in parts and token != END.encode()
    ]
    return min(leaves, key=lambda token: (counts[token], -first.get(token, 1 << 62), ids[token]))


def test_counts_equal_a_recount_at_every_step(tokenizer):
    words = count_text(long_text(3, 3000), tokenizer.splitter)
    expected = tokenizer
    for size in range(len(tokenizer) - 1, 280, -1):
        token = rarest_leaf(expected, words)
        vocab = {i: t for i, t in expected.vocab.items() if t != token}
        merges = [pair for pair in expected.merges if pair[0] + pair[1] != token]
        expected = Tokenizer(vocab, merges, [END])
        if size % 20 == 0:
            found, id_map = prune(tokenizer, size, words)
            assert set(found.vocab.values()) == set(vocab.values())
            assert found.merges == merges
            assert set(np.flatnonzero(id_map >= 0).tolist()) == set(vocab)


@pytest.mark.parametrize("ignore_merges", [False, True])
@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 100))]
)
def test_vocabularies_in_any_order_are_pruned(seed, ignore_merges, monkeypatch):
    vocab, merges = edited_merges(seed)
    chooser = random.Random(seed)
    longest, context = chooser.choice([(9, 16), (30, 1), (30, 4)])
    monkeypatch.setattr("cs336_basics.tokenizer.editing.prune._CONTEXT", context)
    words = Counter(
        bytes(chooser.choices(b"abc", k=chooser.randint(1, longest))) for _ in range(40)
    )
    if ignore_merges:
        new = sorted(words.keys() - set(vocab.values()))[::3]
        vocab = {**vocab, **dict(enumerate(new, max(vocab) + 1))}
    tokenizer = Tokenizer(vocab, merges, ignore_merges=ignore_merges)
    expected = tokenizer
    while len(expected) > 256:
        token = rarest_leaf(expected, words)
        expected = Tokenizer(
            {i: t for i, t in expected.vocab.items() if t != token},
            [pair for pair in expected.merges if pair[0] + pair[1] != token],
            ignore_merges=ignore_merges,
        )
        pruned, _ = prune(tokenizer, len(expected), words)
        assert sorted(pruned.vocab.values()) == sorted(expected.vocab.values())


def test_a_corpus_is_counted(tokenizer, text_file):
    by_words = prune(tokenizer, 300, count_words(text_file, tokenizer.splitter))
    for source in (Corpus(text_file), text_file, str(text_file), [text_file]):
        assert prune(tokenizer, 300, source).tokenizer.hash() == by_words.tokenizer.hash()
    with rejects(None, "none.txt", kind=MissingFileError):
        prune(tokenizer, 300, "none.txt")


def test_words_of_another_pattern_or_other_special_tokens_are_rejected(tokenizer, text_file):
    for splitter, fields in (
        (Splitter("cl100k", tokenizer.special_tokens), ("pattern", "'cl100k'")),
        (Splitter(tokenizer.pattern), ("special_tokens", "[]")),
    ):
        with rejects(*fields):
            prune(tokenizer, 262, count_words(text_file, splitter))


def test_tokens_that_no_merge_makes_are_removed_and_the_parts_of_special_tokens_stay():
    vocab = {0: b"a", 1: b"b", 5: b"ab", 7: b"aba", 9: b"bb"}
    tokenizer = Tokenizer(vocab, [(b"a", b"b"), (b"ab", b"a")], ["aba"])
    pruned, id_map = prune(tokenizer, 4, {})
    assert list(pruned.vocab.values()) == [b"a", b"b", b"ab", b"aba"]
    assert id_map.tolist() == [0, 1, -1, -1, -1, 2, -1, 3, -1, -1]
    with rejects("vocab_size", 4, 3):
        prune(tokenizer, 3, {})


@pytest.mark.parametrize(
    ("size", "counts", "error", "fields"),
    [
        (421, {}, InputError, ("vocab_size", 420, 421)),
        (256, {}, InputError, ("vocab_size", 257, 256)),
        (300, np.zeros(420), InputTypeError, ("paths", "0.0")),
        (300, 7, InputTypeError, ("paths", 7)),
        (300, {b"a": -1}, InputError, ("counts", "b'a'", 0)),
        (300, {"a": 1}, InputTypeError, ("words", "'a'")),
        (300, {b"a": 1.5}, InputTypeError, ("counts", "b'a'")),
        (2.5, {}, InputTypeError, ("vocab_size", "2.5")),
    ],
)
def test_invalid_arguments_are_rejected(tokenizer, size, counts, error, fields):
    with rejects(*fields, kind=error):
        prune(tokenizer, size, counts)


def test_num_workers_is_checked_even_if_nothing_is_counted(tokenizer):
    with rejects("num_workers", 1):
        prune(tokenizer, 300, {}, num_workers=-1)


def test_a_word_with_an_absent_byte_is_rejected():
    with rejects(None, "0x78"):
        prune(Tokenizer({0: b"a", 1: b"aa"}, [(b"a", b"a")]), 1, {b"x": 1})


def test_words_that_are_not_utf8_are_counted():
    tokenizer = Tokenizer({0: b"\xff", 1: b"\xff\xff", 2: b"\xfe"}, [(b"\xff", b"\xff")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(prune(tokenizer, 2, {b"\xff\xff": 3}).tokenizer) == 2


def test_only_the_text_around_a_removed_token_is_encoded_again(tokenizer, monkeypatch):
    text = "".join(filter(str.isalpha, long_text(4, 15_000)))
    encoded = []

    class Counted(MergeTree):
        def encode(self, word):
            encoded.append(len(word))
            return super().encode(word)

        def merge(self, part):
            encoded.append(len(part))
            return super().merge(part)

    monkeypatch.setattr("cs336_basics.tokenizer.editing.prune.MergeTree", Counted)
    prune(tokenizer, 300, {text.encode(): 1})
    assert sum(encoded) < 20 * len(text)  # 120 tokens are removed


def test_a_long_word_is_encoded_again_in_seconds():
    tokens = [b"a" * 2**power for power in range(12)]
    tokenizer = Tokenizer(dict(enumerate(tokens)), [(token, token) for token in tokens[:-1]])
    words = {b"a" * 30_000: 1, b"aa": 5}
    start = time.perf_counter()
    pruned, _ = prune(tokenizer, 5, words)
    assert time.perf_counter() - start < 60  # takes one second on an idle machine
    assert list(pruned.vocab.values()) == tokens[:5]
