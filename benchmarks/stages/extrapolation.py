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

- `symbols`: symbols in all words.
- `words`: these symbols plus the number of words.
- `pairs`: distinct pairs, which a search for the maximum compares.
- `entries`: entries of a heap that are popped to find the maximum and pushed for new pairs.
- `touched`: symbols in the words that contain the pair.

Each trainer in Python names the unit of each phase in `work_units`. Compiled merge loops cannot be
stopped, and their trainers name none.
"""

import numpy as np

from benchmarks.stages.merge_variants import trainer_of
from cs336_basics.bpe.reference import split_bytes
from cs336_basics.bpe.rules import Rules
from cs336_basics.bpe.trace import Work
from cs336_basics.bpe.v2_incremental import PairIndex
from cs336_basics.bpe.v3_heap import PairHeap

CHECKPOINTS_PER_DOUBLING = 4
UNITS = ("symbols", "words", "pairs", "entries", "touched")


def can_be_stopped(stage):
    """Return whether the time of a stopped run can be extrapolated."""
    return bool(trainer_of(stage).work_units)


def work_profile(word_counts, wanted):
    """Return `[merges, {unit: work so far}]` for the wanted numbers of merges and the last one."""
    profile = []
    rules = Rules(max(wanted))
    counted = [(split_bytes(word), count) for word, count in word_counts.items() if len(word) > 1]
    words, counts = map(list, zip(*counted, strict=True)) if counted else ([], [])
    index = PairIndex(words, counts, rules)
    heap = PairHeap(index.pair_counts, rules.ties())
    total = dict.fromkeys(UNITS, 0)
    size = sum(map(len, words))
    for number in range(1, rules.num_merges + 1):
        best = heap.pop()
        if best is None:
            break
        total["pairs"] += len(index.pair_counts)
        read, new_pairs = index.merge(best)
        heap.push(new_pairs)
        total["symbols"] += size
        total["words"] += size + len(words)
        total["touched"] += sum(map(len, read))
        total["entries"] += heap.num_popped + len(new_pairs)
        size -= Work.of(read, best, rules).occurrences
        if number in wanted or not index.pair_counts:
            profile.append([number, dict(total)])
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
        for unit in trainer_of(stage).work_units.values()
    }


def extrapolated(stage, checkpoints, work):
    """Return the time of each phase of a complete run in seconds, extrapolated from its start.

    Args:
        stage: A stage that can be stopped.
        checkpoints: Checkpoints of the run, up to where it was stopped.
        work: Unit -> work for all merges.
    """
    last, seconds, done = checkpoints[-1]
    earlier = [c for c in checkpoints if c[0] <= last / 2]
    _, earlier_seconds, earlier_done = earlier[-1] if earlier else (0, {}, {})
    result = dict(seconds)
    for phase, unit in trainer_of(stage).work_units.items():
        measured = seconds[phase] - earlier_seconds.get(phase, 0.0)
        cost = measured / (done[unit] - earlier_done.get(unit, 0))
        result[phase] += cost * (work[unit] - done[unit])
    return result


def exponent(sizes, seconds):
    """Return the exponent k of seconds ~ size ** k, the slope in a log-log plot."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
