"""PythonEncoder: its linked list, its complexity and its cache."""

from __future__ import annotations

import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.encoders import python_encoder
from cs336_basics.tokenizer.encoders.python_encoder import PythonEncoder, RankMerger
from cs336_basics.tokenizer.reference import ReferenceEncoder
from tests.tokenizer.examples import edited_merges, trained


def small_encoder(cache_size: int = 1 << 20) -> PythonEncoder:
    return PythonEncoder(TokenizerDefinition(*trained()), cache_size)


# Use the linked list for all words, for long words, and for no words.
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
def test_words_merge_as_in_the_reference(monkeypatch, long_word, seed, word):
    monkeypatch.setattr(python_encoder, "_LONG_WORD", long_word)
    definition = TokenizerDefinition(*edited_merges(seed))
    ids = RankMerger(definition).encode(word.encode())
    assert ids == ReferenceEncoder(definition).encode_word(word)


class CountingDict(dict):
    """A dict that counts lookups, as a measure of the encoder's work."""

    calls = 0

    def get(self, key, default=None):
        self.calls += 1
        return super().get(key, default)


@pytest.mark.parametrize("unit", ["a", "ab", " ", "\n", "🎉", "hahatheate"])
def test_the_work_for_a_word_grows_almost_linearly_with_its_length(unit):
    calls = []
    for length in (1_000, 10_000):
        definition = TokenizerDefinition(*trained())
        counting = CountingDict(definition.pair_ranks)
        RankMerger(definition, counting).encode((unit * (length // len(unit))).encode())
        calls.append(counting.calls)
    assert calls[0] >= 1_000 / len(unit) - 1
    assert calls[1] < 12 * calls[0]


@pytest.mark.parametrize("cache_size", [0, 1, 500, 5000])
def test_the_cache_keeps_to_its_limit_and_does_not_change_the_ids(cache_size):
    encoder = small_encoder(cache_size)
    reference = ReferenceEncoder(encoder.definition)
    words = [f" {a}{b}{c}" for a in "abcd" for b in "efgh" for c in "ijkl"]
    for _ in range(2):
        for word in words:
            assert list(encoder.encode_words([word])) == reference.encode_word(word)
            held = sum(
                sys.getsizeof(word) + sys.getsizeof(ids) for word, ids in encoder.cache.items()
            )
            assert held <= cache_size
    assert bool(encoder.cache) == (cache_size >= 500)


def test_a_very_long_word_is_not_cached():
    encoder = small_encoder()
    list(encoder.encode_words(["a" * 5000, " " + "猫" * 40, " the"]))
    assert list(encoder.cache) == [" the"]


def test_an_encoder_with_its_own_cache_does_not_change_the_shared_one():
    encoder = small_encoder()
    own = encoder.with_own_cache(500)
    assert own.encode("the cat", frozenset()) == encoder.encode("the cat", frozenset())
    assert list(own.cache) == list(encoder.cache) == ["the", " cat"]
    own.encode(" rat", frozenset())
    assert " rat" not in encoder.cache
