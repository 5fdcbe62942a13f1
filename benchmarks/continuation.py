"""Continues the time of a run that was stopped: from the trend of its own cost per merge.

The cost of a merge changes as training goes on: words become shorter, so `naive` counts less, and
pairs become rarer, so an update touches less, while the number of pairs grows, so `incremental`
searches longer. In each phase the cost per merge follows a power of the number of merges, a line in
a plot with two logarithmic axes. The line is fitted to the last part of the run and continued.

A checkpoint is `(merges, {phase: seconds so far})`; checkpoints ascend.
"""

import numpy as np

LAST_PART = 1 / 8
"""The trend is fitted to the merges from this share of the measured ones on."""

CHECKPOINTS_PER_DOUBLING = 4


def checkpoint_merges(targets):
    """Return the numbers of merges after which a run records its time, ascending."""
    most = max(targets)
    steps = int(np.log2(most) * CHECKPOINTS_PER_DOUBLING) + 1
    spaced = np.rint(2 ** (np.arange(steps) / CHECKPOINTS_PER_DOUBLING)).astype(int)
    return sorted({*(int(m) for m in spaced if m < most), *targets})


def continued(checkpoints, num_merges):
    """Return phase -> seconds after `num_merges`, more than were measured."""
    last, measured = checkpoints[-1]
    return {
        phase: seconds + _seconds_between(checkpoints, phase, last, num_merges)
        for phase, seconds in measured.items()
    }


def _seconds_between(checkpoints, phase, last, num_merges):
    """Return the seconds that a phase takes from `last` merges to `num_merges`."""
    fitted = [c for c in checkpoints if c[0] >= last * LAST_PART]
    merges = np.array([c[0] for c in fitted], float)
    seconds = np.array([c[1][phase] for c in fitted])
    if len(merges) < 3:
        raise ValueError(
            f"{len(merges)} checkpoints up to merge {last:,} are too few to see a trend: measure "
            "longer"
        )
    costs = np.diff(seconds) / np.diff(merges)
    if (costs <= 0).any():  # a phase that is over, such as counting the pairs once
        return 0.0
    middles = np.sqrt(merges[:-1] * merges[1:])
    slope, height = np.polyfit(np.log(middles), np.log(costs), 1)
    later = np.geomspace(last, num_merges, 200)
    return float(np.trapezoid(np.exp(height) * later**slope, later))


def exponent(sizes, seconds):
    """Return the power of the size that the seconds follow: the slope in a log-log plot."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
