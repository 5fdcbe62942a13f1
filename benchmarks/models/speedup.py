"""Speedups in the tables of the benchmarks of models."""

import statistics

SPEEDUP_HEADINGS = f"{'median':>9}{'quartile':>10}{'minimum':>9}"


def speedup_cells(values, baseline):
    """Return the median, the lower quartile and the minimum of the ratios of two lists.

    Values of the same round are compared, because the load on the machine changes.
    """
    ratios = [value / base for value, base in zip(values, baseline, strict=True)]
    quartile = statistics.quantiles(ratios, n=4)[0] if len(ratios) > 1 else ratios[0]
    return f"{statistics.median(ratios):>8.2f}x{quartile:>9.2f}x{min(ratios):>8.2f}x"
