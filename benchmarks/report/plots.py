"""Draw measurements as SVG files, in the light or dark colors of the library's pages."""

import html
import math
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
from cs336_basics.reports.charts import chart, line_color
from cs336_basics.reports.page import COLORS

STYLE = f"""<style>{COLORS}
svg {{ font: 15px system-ui, sans-serif; }} text {{ fill: var(--text); }}
.back {{ fill: var(--back); }} .grid {{ stroke: var(--line); }}
.line {{ fill: none; stroke-width: 2.5; }}
</style>"""
WIDTH, LEFT, LONGEST, ROW = 680, 190, 390, 27


def plot_all(rows, directory=RESULTS):
    """Draw every plot that has measurements, and return the names of the files."""
    drawn = []
    for name, panels_of in PLOTS.items():
        if panels := panels_of(rows):
            save(panels, directory / f"{name}.svg")
            drawn.append(f"{name}.svg")
    return drawn


def save(panels, path):
    """Write a file with the panels, pairs of a title and an SVG element, below each other."""
    parts, top = [], 10
    for title, svg in panels:
        height = int(re.search(rf'viewBox="0 0 {WIDTH} (\d+)"', svg)[1])
        parts.append(f'<text x="10" y="{top + 18}">{html.escape(title)}</text>')
        parts.append(svg.replace("<svg", f'<svg y="{top + 30}" height="{height}"', 1))
        top += height + 50
    size = f'viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{STYLE}'
    back = '<rect class="back" width="100%" height="100%"/>'
    path.write_text("\n".join([head, back, *parts, "</svg>\n"]), encoding="utf-8")


def bars(comparison, tasks_of, unit):
    """Return a function that draws a panel per task, with bars for stages and other libraries."""

    def panels(rows):
        rows = of_comparison(rows, comparison)
        columns = {task_name(task): at(rows, task).values() for task in tasks_of(rows)}
        values = [value_of(row, unit) for column in columns.values() for row in column]
        scale = f": {unit} (logarithmic)" + "; gray: other libraries" * any(r.is_peer for r in rows)
        return [
            (name + scale, bar_chart(column, unit, min(values) / 3, max(values)))
            for name, column in columns.items()
        ]

    return panels


def value_of(row, unit):
    return row.median if unit == "seconds" else row.rate


def bar_chart(rows, unit, low, high):
    """Return an SVG element with a bar per row, pale if its value is extrapolated."""
    parts = []
    for number, row in enumerate(rows):
        value = value_of(row, unit)
        length = LONGEST * math.log(value / low) / math.log(high / low)
        index = STAGES.index(row.stage) if row.stage in STAGES else 0
        color, y = "var(--dim)" if row.is_peer else line_color(index), ROW * number
        pale = ' fill-opacity="0.5"' if row.is_extrapolated else ""
        text = time_text(value) if unit == "seconds" else three_digits(value)
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">{html.escape(row.stage)}</text>'
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 6}" '
            f'fill="{color}"{pale}/><text x="{LEFT + length + 6:.1f}" y="{y + 16}">'
            f"{'≈ ' if row.is_extrapolated else ''}{text}</text>"
        )
    return f'<svg viewBox="0 0 {WIDTH} {ROW * len(parts)}">\n' + "\n".join(parts) + "</svg>"


def last_task(rows):
    return (whole_tasks(rows) or tasks(rows))[-1:]


def growth(rows):
    """For each corpus, draw time against corpus size and against the number of merges."""
    rows = of_comparison(rows, "merging")
    panels = []
    for corpus in dict.fromkeys(task[0] for task in tasks(rows)):
        series = {stage: growth_series(rows, corpus, stage) for stage in STAGES}
        if all(len(sizes) < 3 for sizes, _, _ in series.values()):
            continue
        by_size, by_merges = {}, {}
        for stage, (sizes, _, merges) in series.items():
            by_size[f"{stage}: {exponent_text('size', sizes)}"] = [(b / 1e6, s) for b, s in sizes]
            later = [(number, seconds) for number, seconds in merges if number >= 10]
            by_merges[f"{stage}: {exponent_text('merges', merges)}"] = later
        for title, lines, x in (
            (f"{COMMON_VOCAB_SIZE:,} tokens", by_size, "MB of text"),
            ("whole corpus", by_merges, "merges"),
        ):
            title = f"{TEXTS.get(corpus, corpus)}, {title}"
            svg = chart(lines, title=title, x=x, y="merge loop, in seconds", log="xy")
            panels.append((title, svg))
    return panels


PLOTS = {
    "summary": bars("shipped", last_task, "seconds"),
    "merging": bars("merging", whole_tasks, "seconds"),
    "counting": bars("counting", largest_tasks, "MB/s"),
    "encoding": bars("encoding", largest_tasks, "MB/s"),
    "growth": growth,
}
