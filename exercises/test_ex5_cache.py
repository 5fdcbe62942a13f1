"""Exercise 5: a cache of words."""

import sys

from exercises import ex5_cache as exercise


def counted(max_bytes):
    """Return a cache and the list of words that it encodes."""
    encoded = []

    def encode_word(word):
        encoded.append(word)
        return list(word.encode())

    return exercise.WordCache(encode_word, max_bytes), encoded


def test_a_word_is_encoded_once():
    cache, encoded = counted(100_000)
    for word in ["low", "lower", "low", "new", "lower", "low"] * 100:
        assert cache[word] == list(word.encode())
    assert encoded == ["low", "lower", "new"]


def test_memory_is_bounded_and_new_words_are_cached():
    cache, encoded = counted(20_000)
    for number in range(5000):
        word = f"word{number}"
        assert cache[word] == cache[word] == list(word.encode())
        size = sum(sys.getsizeof(key) + sys.getsizeof(ids) for key, ids in cache.items())
        assert size <= 20_000
    assert len(encoded) == 5000, "the second use of a word is a hit"


def test_a_word_that_never_fits_is_not_cached():
    cache, encoded = counted(0)
    assert cache["low"] == cache["low"] == [108, 111, 119]
    assert encoded == ["low", "low"]
