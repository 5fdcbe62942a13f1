"""Plots of measurements: SVG whose text is text, without dates and random ids.

Panels stand one below the other and text is large, so that a plot can be read on a narrow screen;
they are white, so that they can be read on a dark page.
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
    tasks,
    text_name,
    three_digits,
    time_text,
    whole_tasks,
)

WIDTH = 7.0  # inches
COLOURS = dict(zip(STAGES, ("C3", "C1", "C8", "C0", "C2"), strict=False))
PEER_COLOURS = ("C4", "C5", "C6", "C7", "C9", "black")
MARKERS = dict(zip(STAGES, "osD^v", strict=False))


def pyplot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # Text stays text: letters as curves are most of a file.
    plt.rcParams.update({
        "svg.hashsalt": "cs336_basics", "svg.fonttype": "none", "font.size": 12,
        "font.sans-serif": ["DejaVu Sans"], "hatch.linewidth": 0.6,
    })  # fmt: skip
    return plt


def plot_all(rows, directory=RESULTS):
    """Draw every plot that has measurements; return the names of the files."""
    drawn = []
    for name, draw in PLOTS.items():
        if draw(rows, directory / f"{name}.svg"):
            drawn.append(f"{name}.svg")
    return drawn


def save(plt, figure, path):
    """Write a figure without what nobody sees: small digits, comments, names, indentation."""
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    text = re.sub(r"(?<=[\s\"(])(-?\d+\.\d\d)\d+", r"\1", path.read_text(encoding="utf-8"))
    text = re.sub(r"<!-- .*? -->|(?<=<g) id=\".*?\"| transform=\"rotate\(-0 .*?\"", "", text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    path.write_text(text, encoding="utf-8")
    return True


def bars(comparison, tasks_of, in_seconds):
    """Return a function that draws a panel for each task: a bar for each stage, a line for each
    peer."""

    def draw(rows, path):
        rows = of_comparison(rows, comparison)
        wanted = tasks_of(rows)
        if not wanted:
            return False
        plt = pyplot()
        columns = [at(rows, task) for task in wanted]
        peers = sorted({row.stage for column in columns for row in column.values() if row.is_peer})
        heights = [1.2 + 0.32 * sum(not r.is_peer for r in column.values()) for column in columns]
        figure, panels = plt.subplots(
            len(wanted), figsize=(WIDTH, sum(heights) + 0.9 * bool(peers)), layout="constrained",
            height_ratios=heights, squeeze=False,
        )  # fmt: skip
        values = [value_of(row, in_seconds) for column in columns for row in column.values()]
        for axes, task, column in zip(panels[:, 0], wanted, columns, strict=True):
            panel(axes, column, peers, in_seconds)
            axes.set_xlim(min(values) / 3, max(values) * 8)
            tokens = f", {task[2]:,} tokens" if task[2] else ""
            axes.set_title(text_name(task[0], task[1]) + tokens, loc="left", fontsize=12)
        unit = "seconds" if in_seconds else "MB/s"
        panels[-1, 0].set_xlabel(f"{unit} (logarithmic scale)")
        if peers:
            lines = {line.get_label(): line for axes in panels[:, 0] for line in axes.get_lines()}
            figure.legend(
                [lines[name] for name in peers], peers, loc="outside lower center", ncols=3,
                title="other libraries", fontsize=11, title_fontsize=11,
            )  # fmt: skip
        return save(plt, figure, path)

    return draw


def panel(axes, column, peers, in_seconds):
    ours = [row for row in column.values() if not row.is_peer]
    for y, row in enumerate(ours):
        value = value_of(row, in_seconds)
        text = time_text(value) if in_seconds else three_digits(value)
        bar(axes, y, row, value, text, COLOURS.get(row.stage, "C0"))
    for row in column.values():
        if row.is_peer:
            axes.axvline(
                value_of(row, in_seconds), linestyle="--", linewidth=1.4, label=row.stage,
                color=PEER_COLOURS[peers.index(row.stage) % len(PEER_COLOURS)], zorder=3, alpha=0.8,
            )  # fmt: skip
    axes.set_yticks(range(len(ours)), [row.stage for row in ours])
    finish_bars(axes)


def summary(rows, path):
    """Draw one task, the last: a bar for each stage and for each other library."""
    rows = of_comparison(rows, "end-to-end")
    if not rows:
        return False
    plt = pyplot()
    corpus, num_bytes, vocab_size = task = (whole_tasks(rows) or tasks(rows))[-1]
    column = at(rows, task)
    figure, axes = plt.subplots(figsize=(WIDTH, 1.1 + 0.3 * len(column)), layout="constrained")
    for y, row in enumerate(column.values()):
        colour = "0.7" if row.is_peer else COLOURS.get(row.stage, "C0")
        bar(axes, y, row, row.median, time_text(row.median), colour)
    axes.set_yticks(range(len(column)), column)
    values = [row.median for row in column.values()]
    axes.set_xlim(min(values) / 3, max(values) * 8)
    axes.set_title(
        f"{text_name(corpus, num_bytes)}, to {vocab_size:,} tokens", loc="left", fontsize=12
    )
    axes.set_xlabel("seconds (logarithmic scale); grey: other libraries")
    finish_bars(axes)
    return save(plt, figure, path)


def value_of(row, in_seconds):
    return row.median if in_seconds else row.rate


def light(colour):
    """Return a colour half way to white; transparent bars differ between viewers."""
    from matplotlib.colors import to_rgb

    return tuple(0.5 + part / 2 for part in to_rgb(colour))


def bar(axes, y, row, value, text, colour):
    """Draw the bar of a row and write its value beside it; what was extrapolated is hatched."""
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
    """Draw time against corpus size and against merges, for each corpus."""
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
    """Return the values that are at least so many times the one before."""
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
    axes.set_ylabel("seconds of the merge loop")
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
    "summary": summary,
    "merging": bars("merging", whole_tasks, in_seconds=True),
    "counting": bars("counting", largest_tasks, in_seconds=False),
    "encoding": bars("encoding", largest_tasks, in_seconds=False),
    "growth": growth,
}
