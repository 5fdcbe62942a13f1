"""Exercise 3: break a tie.

Of equally frequent pairs this function takes the one that was counted first, so that the merges
depend on the order of the words. The rule of the course is that the greatest pair wins, compared as
(bytes, bytes). Mend it.

Test: `pytest exercises/test_ex3_tie.py`. Solution: `find_best` in cs336_basics/bpe/v1_naive.py.
"""

from collections.abc import Mapping

Pair = tuple[bytes, bytes]


def find_best(pair_counts: Mapping[Pair, int]) -> Pair | None:
    """Return the most frequent pair, of equally frequent ones the greatest; None: no pairs."""
    return max(pair_counts, key=lambda pair: pair_counts[pair], default=None)
