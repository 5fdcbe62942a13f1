"""Tables that `pytest benchmarks --benchmark-only` prints at the end."""

import textwrap

from benchmarks.report.tables import (
    PEER,
    at,
    median_text,
    of_comparison,
    phase_table,
    task_name,
    tasks,
)

WIDTH = 100
SHOWN = ("shipped", "merging", "counting", "encoding", "decoding")
TITLES = {"shipped": "training"}
SHORT = {"stage": "", "× previous": "×before", "× first": "×first", "peak MB": "MB"}


def lines_of(rows):
    """Return the lines of all tables, each at most WIDTH characters long."""
    lines = []
    for comparison in SHOWN:
        title = TITLES.get(comparison, comparison)
        found = of_comparison(rows, comparison)
        for task in tasks(found):
            lines += ["", f" {title}, {task_name(task)} ".center(WIDTH, "-")]
            lines += table(at(found, task))
    return lines


def table(found):
    """Return the lines of a task's table, with aligned columns, and the stages with one round."""
    header, body = phase_table(found, time_of=median_text)
    cells = [[SHORT.get(heading, heading) for heading in header], *body]
    cells = [[cell.removesuffix(PEER).replace("≈ ×", "≈×") for cell in line] for line in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else " "
    columns = gap.join(f"{{:{'>' if n else '<'}{width}}}" for n, width in enumerate(widths))
    once = ", ".join(stage for stage, row in found.items() if len(row.seconds) == 1)
    return [
        *(columns.format(*line).rstrip() for line in cells),
        *textwrap.wrap(f"1 round: {once}" if once else "", WIDTH),
    ]
