"""Extrapolate a stopped run's remaining time: the cost per unit of work times the remaining work.

The cost of a merge changes as training goes on. Words become shorter, so `naive` counts fewer
symbols. Pairs become rarer, so an update touches fewer words. The number of pairs, which
`incremental` searches, first grows and then falls. The times of the first merges do not show these
changes. However, a fast run (`work_profile`) counts the work of each later merge exactly, and the
cost of a unit of work hardly changes. For each phase, the cost is measured over the last half of
the merges that were run.

A checkpoint is `[merges, {phase: seconds so far}, {unit: work so far}]`. Checkpoints are in
ascending order.

Work is counted in these units, cumulatively from the first merge:

- `symbols`: symbols in all words. `naive` counts their pairs for every merge.
- `words`: these symbols plus the number of words. `naive` rebuilds every word.
- `pairs`: distinct pairs. `naive` and `incremental` compare them to find the maximum.
- `entries`: heap entries that `heap` pops and pushes to find the maximum.
- `touched`: symbols in the words that contain the pair. `incremental` and `heap` update these
  words.
"""

import warnings

import numpy as np

from benchmarks.corpora import EOT
from cs336_basics import TRAINERS

CHECKPOINTS_PER_DOUBLING = 4
UNITS = ("symbols", "words", "pairs", "entries", "touched")

# stage -> phase -> unit of work. A phase that ends before the first merge has no unit. The stages
# are those in Python; the compiled merge loops of the others cannot be stopped.
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
    """Return the numbers of merges after which a run records its time, in ascending order."""
    most = max(targets)
    steps = int(np.log2(most) * CHECKPOINTS_PER_DOUBLING) + 1
    spaced = np.rint(2 ** (np.arange(steps) / CHECKPOINTS_PER_DOUBLING)).astype(int)
    return sorted({*(int(m) for m in spaced if m < most), *targets})


def work_at(profile, num_merges, stage):
    """Return the work of a stage up to a number of merges, interpolated from a profile.

    The result is a dict from a unit to its amount.
    """
    merges = [0, *(number for number, _ in profile)]
    return {
        unit: float(np.interp(num_merges, merges, [0, *(work[unit] for _, work in profile)]))
        for unit in WORK[stage].values()
    }


def extrapolated(stage, checkpoints, work):
    """Return the time of each phase of a complete run in seconds, extrapolated from its start.

    Args:
        stage: A key of WORK.
        checkpoints: Checkpoints of the run, up to where it was stopped.
        work: Unit -> work for all merges.
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
    """Return the exponent k for which seconds ~ size ** k, the slope in a log-log plot."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
