"""Exercise 2: break a tie.

If several pairs are equally frequent, the function below chooses the pair that was counted first,
so the merges depend on the order of the words. In the course, the largest pair wins; pairs compare
as tuples of bytes. Fix the function.

Test: `pytest exercises/test_ex2_tie.py`. Solution: `find_best` in
cs336_basics/bpe/v2_incremental.py, which v1 contains in its loop.
"""

from collections.abc import Mapping

Pair = tuple[bytes, bytes]


def find_best(pair_counts: Mapping[Pair, int]) -> Pair | None:
    """Return the most frequent pair (the largest one in a tie), or None if there are no pairs."""
    return max(pair_counts, key=lambda pair: pair_counts[pair], default=None)
