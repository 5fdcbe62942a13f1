"""Exercise 5: cache words.

Most words of a text have occurred before. The dictionary below encodes a word every time. Let it
keep the ids, in bounded memory: when the next word does not fit, empty it and go on.

Test: `pytest exercises/test_ex5_cache.py`. Solution: `WordCache` in
cs336_basics/tokenizer/encoders/python_encoder.py.
"""

from collections.abc import Callable


class WordCache(dict[str, list[int]]):
    """Word -> ids: `cache[word]` encodes a word that it lacks, in about `max_bytes` at most.

    Measure a word and its ids by `sys.getsizeof`.
    """

    def __init__(self, encode_word: Callable[[str], list[int]], max_bytes: int) -> None:
        super().__init__()
        self._encode_word = encode_word
        self._max_bytes = max_bytes

    def __missing__(self, word: str) -> list[int]:
        return self._encode_word(word)
