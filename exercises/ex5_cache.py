"""Exercise 5: cache words.

Most words of a text have occurred before, but the dictionary below encodes a word every time. Make
it keep the ids in bounded memory. If the next word does not fit, clear the dictionary first.

Test: `pytest exercises/test_ex5_cache.py`. Solution: `WordCache` in
cs336_basics/tokenizer/encoders/python_encoder.py.
"""

from collections.abc import Callable


class WordCache(dict[str, list[int]]):
    """A cache from words to ids that uses about `max_bytes` bytes.

    `cache[word]` encodes a missing word. Measure a word and its ids with `sys.getsizeof`.
    """

    def __init__(self, encode_word: Callable[[str], list[int]], max_bytes: int) -> None:
        super().__init__()
        self._encode_word = encode_word
        self._max_bytes = max_bytes

    def __missing__(self, word: str) -> list[int]:
        return self._encode_word(word)
