"""Plots of measurements, a summary and one for each comparison: SVG without dates and random ids.

Panels stand one below the other and text is large, so that a plot can be read on a narrow screen.
"""

from pathlib import Path

from tables import (
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

RESULTS = Path(__file__).parent / "results"
NAMES = ("summary", "merging", "end-to-end", "counting", "encoding", "ablations", "growth")
WIDTH = 7.0  # inches
COLOURS = dict(zip(STAGES, ("C3", "C1", "C8", "C0", "C2"), strict=False))
PEER_COLOURS = ("C4", "C5", "C6", "C7", "C9", "black")
MARKERS = dict(zip(STAGES, "osD^v", strict=False))


def pyplot():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "cs336_basics", "font.size": 12, "hatch.linewidth": 0.6})
    return plt


def plot_all(rows, directory=RESULTS):
    """Draw the plot of every comparison that has measurements; return the names of the files."""
    plots = {
        "merging": lambda r, path: bars(r, whole_tasks(r), path, in_seconds=True),
        "end-to-end": lambda r, path: bars(r, whole_tasks(r), path, in_seconds=True),
        "counting": lambda r, path: bars(r, largest_tasks(r), path, in_seconds=False),
        "encoding": lambda r, path: bars(r, largest_tasks(r), path, in_seconds=False),
        "ablations": lambda r, path: bars(r, tasks(r), path, in_seconds=True),
    }
    written = []
    if training := of_comparison(rows, "end-to-end"):
        summary(training, directory / "summary.svg")
        written.append("summary.svg")
    for comparison, draw in plots.items():
        found = of_comparison(rows, comparison)
        if found:
            draw(found, directory / f"{comparison}.svg")
            written.append(f"{comparison}.svg")
    merging = of_comparison(rows, "merging")
    if any(len(growth_series(merging, row.corpus, row.stage)[0]) > 2 for row in merging):
        growth(merging, directory / "growth.svg")
        memory(merging, directory / "memory.svg")
        written += ["growth.svg", "memory.svg"]
    return written


def save(plt, figure, path):
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def bars(rows, wanted, path, in_seconds):
    """Draw a panel for each task: a bar for each stage, a line for each peer."""
    if not wanted:
        return
    plt = pyplot()
    columns = [at(rows, task) for task in wanted]
    heights = [1.2 + 0.32 * sum(not row.is_peer for row in column.values()) for column in columns]
    has_peers = any(row.is_peer for column in columns for row in column.values())
    figure, panels = plt.subplots(
        len(wanted), figsize=(WIDTH, sum(heights) + 0.9 * has_peers), layout="constrained",
        height_ratios=heights, squeeze=False,
    )  # fmt: skip
    peers = sorted({row.stage for column in columns for row in column.values() if row.is_peer})
    values = [value_of(row, in_seconds) for column in columns for row in column.values()]
    for axes, task, column in zip(panels[:, 0], wanted, columns, strict=True):
        panel(axes, column, peers, in_seconds)
        axes.set_xlim(min(values) / 3, max(values) * 8)
        tokens = f", {task[2]:,} tokens" if task[2] else ""
        axes.set_title(text_name(task[0], task[1]) + tokens, loc="left", fontsize=12)
    panels[-1, 0].set_xlabel(
        "seconds (logarithmic scale)" if in_seconds else "MB/s (logarithmic scale)"
    )
    if has_peers:
        lines = {line.get_label(): line for axes in panels[:, 0] for line in axes.get_lines()}
        figure.legend(
            [lines[name] for name in peers], peers, loc="outside lower center", ncols=3,
            title="other libraries", fontsize=11, title_fontsize=11,
        )  # fmt: skip
    save(plt, figure, path)


def summary(rows, path):
    """Draw one task, the last: a bar for each stage and for each other library."""
    wanted = whole_tasks(rows) or tasks(rows)
    plt = pyplot()
    column = at(rows, wanted[-1])
    figure, axes = plt.subplots(figsize=(WIDTH, 1.1 + 0.3 * len(column)), layout="constrained")
    for y, row in enumerate(column.values()):
        colour = "0.7" if row.is_peer else COLOURS.get(row.stage, "C0")
        bar(axes, y, row, row.median, time_text(row.median), colour)
    axes.set_yticks(range(len(column)), column)
    values = [row.median for row in column.values()]
    axes.set_xlim(min(values) / 3, max(values) * 8)
    corpus, num_bytes, vocab_size = wanted[-1]
    axes.set_title(
        f"{text_name(corpus, num_bytes)}, to {vocab_size:,} tokens", loc="left", fontsize=12
    )
    axes.set_xlabel("seconds (logarithmic scale); grey: other libraries")
    finish_bars(axes)
    save(plt, figure, path)


def value_of(row, in_seconds):
    return row.median if in_seconds else row.rate


def light(colour):
    """Return a colour half way to white; transparent bars differ between viewers."""
    from matplotlib.colors import to_rgb

    return tuple((1 + part) / 2 for part in to_rgb(colour))


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
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.spines[["top", "right"]].set_visible(False)


def growth(rows, path):
    """Draw time against corpus size and against merges, for each corpus."""
    plt = pyplot()
    corpora = [c for c in dict.fromkeys(t[0] for t in tasks(rows)) if has_growth(rows, c)]
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
            curve(by_merges, [p for p in merges if p[0] >= 10], stage,
                  exponent_text("merges", merges))  # fmt: skip
            measured |= {b / 1e6 for b, _ in sizes}
        by_size.set_title(f"{name}, {COMMON_VOCAB_SIZE:,} tokens", loc="left", fontsize=12)
        by_merges.set_title(f"{name}, whole corpus", loc="left", fontsize=12)
        finish(by_size, "MB of text", "seconds of the merge loop", spaced(measured))
        finish(by_merges, "merges", "seconds of the merge loop")
    save(plt, figure, path)


def has_growth(rows, corpus):
    return any(len(growth_series(rows, corpus, stage)[0]) > 2 for stage in STAGES)


def curve(axes, points, stage, label):
    if not points:
        return
    axes.plot(
        *zip(*points, strict=True), marker=MARKERS[stage], markersize=4, color=COLOURS[stage],
        label=f"{stage}: {superscript(label)}" if label else stage,
    )  # fmt: skip


def spaced(values):
    """Return the values that are at least 1.5 times the one before, for labels that stay apart."""
    kept = []
    for value in sorted(values):
        if not kept or value >= 1.5 * kept[-1]:
            kept.append(value)
    return kept


def superscript(label):
    base, power = label.split("^")
    return f"{base}$^{{{power}}}$"


def finish(axes, xlabel, ylabel, xticks=None, yscale="log"):
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_yscale(yscale)
    if yscale == "linear":
        axes.set_ylim(bottom=0)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    if xticks:
        axes.set_xticks(xticks, [three_digits(x) for x in xticks])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        fontsize=11, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, frameon=False,
        columnspacing=1.2, handlelength=1.6,
    )  # fmt: skip


def memory(rows, path):
    """Draw the peak memory of each stage against the size of the text."""
    plt = pyplot()
    corpora = [c for c in dict.fromkeys(t[0] for t in tasks(rows)) if has_growth(rows, c)]
    figure, panels = plt.subplots(
        len(corpora), figsize=(WIDTH, 4.2 * len(corpora)), layout="constrained", squeeze=False
    )
    for axes, corpus in zip(panels[:, 0], corpora, strict=True):
        measured = set()
        for stage in STAGES:
            points = sorted(
                (row.bytes / 1e6, row.peak_memory / 1e6) for row in rows
                if (row.corpus, row.stage, row.vocab_size) == (corpus, stage, COMMON_VOCAB_SIZE)
                and row.peak_memory
            )  # fmt: skip
            curve(axes, points, stage, "")
            measured |= {megabytes for megabytes, _ in points}
        axes.set_title(
            f"{TEXTS.get(corpus, corpus)}, {COMMON_VOCAB_SIZE:,} tokens", loc="left", fontsize=12
        )
        finish(axes, "MB of text", "peak MB of the process", spaced(measured), "linear")
    save(plt, figure, path)
