"""Exercise 1: write `merge_pair`, a step that all trainers and encoders share.

Test: `pytest exercises/test_ex1_merge_pair.py`. Solution: cs336_basics/bpe/reference.py.
"""


def merge_pair(symbols: tuple[bytes, ...], pair: tuple[bytes, bytes]) -> tuple[bytes, ...]:
    """Merge every occurrence of a pair in a word, from left to right.

    Each symbol is merged at most once: (a, a, a) with the pair (a, a) becomes (aa, a).
    """
    raise NotImplementedError("write merge_pair")
