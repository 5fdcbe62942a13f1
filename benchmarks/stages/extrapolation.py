"""Extrapolate the time of a stopped run: its cost per unit of work, times the remaining work.

The cost of a merge changes as training goes on. Words become shorter, so `naive` counts less. Pairs
become rarer, so an update touches less. The number of pairs, which `incremental` searches, grows
and falls again. A trend of seconds alone does not show this. But a fast run (`work_profile`) counts
the work of each later merge exactly, and the cost of a unit of work hardly changes. The cost is
measured, for each phase, over the last half of the merges that were run.

A checkpoint is `[merges, {phase: seconds so far}, {unit: work so far}]`; checkpoints ascend.

Work is counted in these units, as sums from the first merge on:

- `symbols`: symbols of all words, whose pairs `naive` counts for every merge.
- `words`: these symbols plus the number of words. `naive` rebuilds every word.
- `pairs`: distinct pairs, which `naive` and `incremental` compare to find the maximum.
- `entries`: heap entries popped and pushed, by which `heap` finds the maximum.
- `touched`: symbols of the words that contain the pair, which `incremental` and `heap` update.
"""

import warnings

import numpy as np

from benchmarks.corpora import EOT
from cs336_basics import TRAINERS

CHECKPOINTS_PER_DOUBLING = 4
UNITS = ("symbols", "words", "pairs", "entries", "touched")

# stage -> phase -> unit of its work; a phase that ends before the first merge has none.
WORK = {
    "naive": {
        "counting pairs": "symbols", "finding the maximum": "pairs", "updating": "words"
    },
    "incremental": {"finding the maximum": "pairs", "updating": "touched"},
    "heap": {"finding the maximum": "entries", "updating": "touched"},
}  # fmt: skip


def work_profile(word_counts, wanted):
    """Return `[merges, {unit: work so far}]` for the wanted numbers of merges and the last one."""
    profile = []
    wanted = set(wanted)
    words = [word for word in word_counts if len(word) > 1]
    size = sum(map(len, words))
    total = dict.fromkeys(UNITS, 0)
    num_pairs = []  # at each merge

    class Profiled(TRAINERS["heap"]):
        def merge(self, words, best, pair_counts):
            num_pairs.append(len(pair_counts))
            return super().merge(words, best, pair_counts)

    def trace(merge):
        nonlocal size
        total["symbols"] += size
        total["words"] += size + len(words)
        total["pairs"] += num_pairs[merge.merge]
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


def checkpoint_merges(targets):
    """Return the numbers of merges after which a run records its time, ascending."""
    most = max(targets)
    steps = int(np.log2(most) * CHECKPOINTS_PER_DOUBLING) + 1
    spaced = np.rint(2 ** (np.arange(steps) / CHECKPOINTS_PER_DOUBLING)).astype(int)
    return sorted({*(int(m) for m in spaced if m < most), *targets})


def work_at(profile, num_merges):
    """Return unit -> work up to a number of merges, interpolated between those of a profile."""
    merges = [0, *(number for number, _ in profile)]
    return {
        unit: float(np.interp(num_merges, merges, [0, *(work[unit] for _, work in profile)]))
        for unit in UNITS
    }


def extrapolated(stage, checkpoints, work):
    """Return phase -> seconds after more merges than were measured.

    Args:
        stage: A key of WORK.
        checkpoints: Checkpoints of the run, up to its stop.
        work: Unit -> work of all merges.
    """
    last, seconds, done = checkpoints[-1]
    earlier = [c for c in checkpoints if c[0] <= last / 2]
    _, earlier_seconds, earlier_done = earlier[-1] if earlier else (0, {}, {})
    result = dict(seconds)
    for phase, unit in WORK[stage].items():
        measured = seconds[phase] - earlier_seconds.get(phase, 0.0)
        cost = measured / (done[unit] - earlier_done.get(unit, 0))
        result[phase] += cost * (work[unit] - done[unit])
    return result


def exponent(sizes, seconds):
    """Return the slope in a log-log plot: the power of the size that the seconds follow."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
