"""The encoder in plain Python: its linked list, the work it does, its cache."""

from __future__ import annotations

import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cs336_basics.tokenizer.encoders as python_encoder
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.encoders import PythonEncoder
from cs336_basics.tokenizer.reference import merge_pretoken
from tests.tokenizer.examples import edited_merges, small_tokenizer


def encoder_of(tokenizer: Tokenizer, cache_size: int = 1 << 20) -> PythonEncoder:
    return PythonEncoder(
        tokenizer._byte_ids, tokenizer._pair_ranks, tokenizer._merged_ids, cache_size
    )


def reference(tokenizer: Tokenizer, word: str) -> list[int]:
    ids = {token: token_id for token_id, token in tokenizer.vocab.items()}
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    return [ids[token] for token in merge_pretoken(word.encode(), ranks)]


# The linked list for every word, for long words, for none.
@pytest.mark.parametrize("long_word", [1, 100, 10**9])
@given(
    seed=st.integers(0, 10**6),
    word=st.text(alphabet="abc", min_size=1, max_size=12)
    | st.text(alphabet="abc", min_size=90, max_size=200),
)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_words_merge_as_the_reference_says(monkeypatch, long_word, seed, word):
    monkeypatch.setattr(python_encoder, "_LONG_WORD", long_word)
    tokenizer = Tokenizer(*edited_merges(seed), pattern=r"[abc]+")
    assert encoder_of(tokenizer).encode_word(word) == reference(tokenizer, word)


class CountingDict(dict):
    """Counts how often it is asked; `calls` grows with the work that an encoder does."""

    calls = 0

    def get(self, key, default=None):
        self.calls += 1
        return super().get(key, default)


@pytest.mark.parametrize("unit", ["a", "ab", " ", "\n", "🎉", "hahatheate"])
def test_the_work_grows_with_the_length_of_a_word_not_its_square(unit):
    tokenizer = small_tokenizer()
    calls = []
    for length in (5_000, 50_000):
        counting = CountingDict(tokenizer._pair_ranks)
        encoder = PythonEncoder(tokenizer._byte_ids, counting, tokenizer._merged_ids, 0)
        encoder.encode_word(unit * (length // len(unit)))
        calls.append(counting.calls)
    assert calls[0] >= 5_000 / len(unit) - 1
    assert calls[1] < 12 * calls[0]


@pytest.mark.parametrize("cache_size", [0, 1, 500, 5000])
def test_the_cache_changes_nothing_and_keeps_to_its_limit(cache_size):
    tokenizer = small_tokenizer()
    encoder = encoder_of(tokenizer, cache_size)
    words = [f" {a}{b}{c}" for a in "abcd" for b in "efgh" for c in "ijkl"]
    for _ in range(2):
        for word in words:
            assert list(encoder.encode_words([word])) == reference(tokenizer, word)
            held = sum(
                sys.getsizeof(word) + sys.getsizeof(ids) for word, ids in encoder._cache.items()
            )
            assert held <= cache_size
    assert bool(encoder._cache) == (cache_size >= 500)


def test_a_very_long_word_is_not_remembered():
    encoder = encoder_of(small_tokenizer())
    list(encoder.encode_words(["a" * 5000, " " + "猫" * 40, " the"]))
    assert list(encoder._cache) == [" the"]
