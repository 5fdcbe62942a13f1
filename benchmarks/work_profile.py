"""How much work each merge of a text is, whoever does it: counted exactly, in a fast run.

Work is counted in these units, as sums from the first merge on:

- `symbols`: those of all words. `naive` counts their pairs at every merge.
- `words`: those symbols and the words, which have a cost of their own. `naive` writes all anew.
- `pairs`: distinct pairs. `naive` and `incremental` compare them all to find the maximum.
- `entries`: heap entries popped and pushed, which is how `heap` finds the maximum.
- `touched`: symbols of the words that hold the pair. `incremental` and `heap` update these.
"""

import warnings

from corpora import EOT

from cs336_basics import TRAINERS

UNITS = ("symbols", "words", "pairs", "entries", "touched")

# stage -> phase -> the unit of its work; a phase that is over before the first merge has none.
WORK = {
    "naive": {
        "counting pairs": "symbols", "finding the maximum": "pairs", "updating": "words"
    },
    "incremental": {"finding the maximum": "pairs", "updating": "touched"},
    "heap": {"finding the maximum": "entries", "updating": "touched"},
}  # fmt: skip


def work_profile(word_counts, wanted):
    """Return `[merges, {unit: work so far}]` for numbers of merges, and for the last one."""
    profile = []
    wanted = set(wanted)
    words = [word for word in word_counts if len(word) > 1]
    size = sum(map(len, words))
    total = dict.fromkeys(UNITS, 0)

    class Profiled(TRAINERS["heap"]):
        def _apply(self, pair):
            total["pairs"] += len(self._pair_counts)
            super()._apply(pair)

    def trace(merge):
        nonlocal size
        total["symbols"] += size
        total["words"] += size + len(words)
        total["touched"] += merge.work.positions
        total["entries"] += merge.work.heap_entries
        size -= merge.work.occurrences
        if merge.merge + 1 in wanted:
            profile.append([merge.merge + 1, dict(total)])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, merges = Profiled(trace=trace).train_from_counts(word_counts, 257 + max(wanted), [EOT])
    if merges and (not profile or profile[-1][0] < len(merges)):
        profile.append([len(merges), dict(total)])
    return profile
