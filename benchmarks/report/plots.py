"""Draw measurements as SVG files in which text stays text, without dates or random ids.

Panels are stacked and text is large to suit narrow screens. The background is white to suit dark
pages.
"""

import re

from benchmarks.machine import RESULTS
from benchmarks.report.tables import (
    COMMON_VOCAB_SIZE,
    STAGES,
    TEXTS,
    at,
    exponent_text,
    growth_series,
    largest_tasks,
    of_comparison,
    task_name,
    tasks,
    three_digits,
    time_text,
    whole_tasks,
)

WIDTH = 7.0  # inches
COLOURS = dict(zip(STAGES, ("C3", "C1", "C8", "C0", "C2"), strict=False))
MARKERS = dict(zip(STAGES, "osD^v", strict=False))


def pyplot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # Text drawn as curves would make up most of the file.
    plt.rcParams.update({
        "svg.hashsalt": "cs336_basics", "svg.fonttype": "none", "font.size": 12,
        "font.sans-serif": ["DejaVu Sans"], "hatch.linewidth": 0.6,
    })  # fmt: skip
    return plt


def plot_all(rows, directory=RESULTS):
    """Draw every plot that has measurements, and return the names of the files."""
    drawn = []
    for name, draw in PLOTS.items():
        if draw(rows, directory / f"{name}.svg"):
            drawn.append(f"{name}.svg")
    return drawn


def save(plt, figure, path):
    """Write a figure without its invisible parts: excess digits, comments, ids and indentation."""
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    text = re.sub(r"(?<=[\s\"(])(-?\d+\.\d\d)\d+", r"\1", path.read_text(encoding="utf-8"))
    text = re.sub(r"<!-- .*? -->|(?<=<g) id=\".*?\"| transform=\"rotate\(-0 .*?\"", "", text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    path.write_text(text, encoding="utf-8")
    return True


def bars(comparison, tasks_of, in_seconds):
    """Return a function that draws a panel per task, with bars for stages and other libraries."""

    def draw(rows, path):
        rows = of_comparison(rows, comparison)
        wanted = tasks_of(rows)
        if not wanted:
            return False
        plt = pyplot()
        columns = [at(rows, task) for task in wanted]
        heights = [1.1 + 0.3 * len(column) for column in columns]
        figure, panels = plt.subplots(
            len(wanted), figsize=(WIDTH, sum(heights)), layout="constrained",
            height_ratios=heights, squeeze=False,
        )  # fmt: skip
        values = [value_of(row, in_seconds) for column in columns for row in column.values()]
        for axes, task, column in zip(panels[:, 0], wanted, columns, strict=True):
            for y, row in enumerate(column.values()):
                bar(axes, y, row, value_of(row, in_seconds), in_seconds)
            axes.set_yticks(range(len(column)), column)
            axes.set_xlim(min(values) / 3, max(values) * 8)
            axes.set_title(task_name(task), loc="left", fontsize=12)
            finish_bars(axes)
        unit = "seconds" if in_seconds else "MB/s"
        peers = "; grey: other libraries" if any(row.is_peer for row in rows) else ""
        panels[-1, 0].set_xlabel(f"{unit} (logarithmic scale){peers}")
        return save(plt, figure, path)

    return draw


def last_task(rows):
    return (whole_tasks(rows) or tasks(rows))[-1:]


def value_of(row, in_seconds):
    return row.median if in_seconds else row.rate


def light(colour):
    """Return a color blended equally with white. (Viewers render transparency differently.)"""
    from matplotlib.colors import to_rgb

    return tuple(0.5 + part / 2 for part in to_rgb(colour))


def bar(axes, y, row, value, in_seconds):
    """Draw a row's bar, hatched if the value is extrapolated, and write the value next to it."""
    colour = "0.7" if row.is_peer else COLOURS.get(row.stage, "C0")
    text = time_text(value) if in_seconds else three_digits(value)
    axes.barh(
        y, value, 0.72, color=light(colour) if row.is_extrapolated else colour,
        hatch="///" if row.is_extrapolated else None, edgecolor="white",
    )  # fmt: skip
    mark = "≈ " if row.is_extrapolated else ""
    axes.annotate(
        mark + text, (value, y), xytext=(4, 0), textcoords="offset points", va="center",
        fontsize=11, zorder=4,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
    )  # fmt: skip


def finish_bars(axes):
    from matplotlib.ticker import NullLocator

    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)


def growth(rows, path):
    """For each corpus, plot time against corpus size and against the number of merges."""
    rows = of_comparison(rows, "merging")
    corpora = [c for c in dict.fromkeys(t[0] for t in tasks(rows)) if has_growth(rows, c)]
    if not corpora:
        return False
    plt = pyplot()
    figure, panels = plt.subplots(
        2 * len(corpora), figsize=(WIDTH, 8.4 * len(corpora)), layout="constrained", squeeze=False
    )
    for index, corpus in enumerate(corpora):
        name = TEXTS.get(corpus, corpus)
        by_size, by_merges = panels[2 * index, 0], panels[2 * index + 1, 0]
        measured = set()
        for stage in STAGES:
            sizes, _, merges = growth_series(rows, corpus, stage)
            curve(by_size, [(b / 1e6, s) for b, s in sizes], stage, exponent_text("size", sizes))
            kept = set(spaced((number for number, _ in merges if number >= 10), 1.8))
            curve(by_merges, [p for p in merges if p[0] in kept or p == merges[-1]], stage,
                  exponent_text("merges", merges))  # fmt: skip
            measured |= {b / 1e6 for b, _ in sizes}
        by_size.set_title(f"{name}, {COMMON_VOCAB_SIZE:,} tokens", loc="left", fontsize=12)
        by_merges.set_title(f"{name}, whole corpus", loc="left", fontsize=12)
        finish(by_size, "MB of text", spaced(measured, 1.5))
        finish(by_merges, "merges")
    return save(plt, figure, path)


def has_growth(rows, corpus):
    return any(len(growth_series(rows, corpus, stage)[0]) > 2 for stage in STAGES)


def curve(axes, points, stage, label):
    if points:
        axes.plot(
            *zip(*points, strict=True), marker=MARKERS[stage], markersize=4, color=COLOURS[stage],
            label=f"{stage}: {label}" if label else stage,
        )  # fmt: skip


def spaced(values, ratio):
    """Return values in ascending order, each at least `ratio` times the previous one."""
    kept = []
    for value in sorted(values):
        if not kept or value >= ratio * kept[-1]:
            kept.append(value)
    return kept


def finish(axes, xlabel, xticks=None):
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(xlabel)
    axes.set_ylabel("merge loop, in seconds")
    if xticks:
        axes.set_xticks(xticks, [three_digits(x) for x in xticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        fontsize=11, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, frameon=False,
        columnspacing=1.2, handlelength=1.6,
    )  # fmt: skip


PLOTS = {
    "summary": bars("shipped", last_task, in_seconds=True),
    "merging": bars("merging", whole_tasks, in_seconds=True),
    "counting": bars("counting", largest_tasks, in_seconds=False),
    "encoding": bars("encoding", largest_tasks, in_seconds=False),
    "growth": growth,
}
