"""Tables that `pytest benchmarks --benchmark-only` prints at the end."""

import textwrap

from benchmarks.report import tables
from benchmarks.report.tables import at, before, median_text, of_comparison, plain, three_digits

WIDTH = 100


def lines_of(rows):
    """Return the lines of all tables, each at most WIDTH characters long."""
    lines = []
    trained = of_comparison(rows, "shipped")
    for task in tables.tasks(trained):
        corpus, num_bytes, vocab_size = task
        name = f"{tables.text_name(corpus, num_bytes)}, {vocab_size:,} tokens"
        lines += section(f"training, {name}")
        merging = at(of_comparison(rows, "merging"), task)
        lines += training(at(trained, task), merging)
    for comparison in ("counting", "encoding", "decoding"):
        found = of_comparison(rows, comparison)
        for task in tables.tasks(found):
            corpus, num_bytes, vocab_size = task
            tokens = f", {vocab_size:,} tokens" if vocab_size else ""
            lines += section(f"{comparison}, {tables.text_name(corpus, num_bytes)}{tokens}")
            lines += rates(at(found, task))
    return lines


def section(title):
    return ["", f" {title} ".center(WIDTH, "-")]


def training(found, merging):
    """Return a task's lines: times, rates, gains, phases and memory. Other libraries come last.

    Args:
        found: Stage -> row from file to vocabulary, with words counted natively.
        merging: Stage -> row of the merge loop.
    """
    first = next(iter(found.values()))
    header = ["", "time", "merges/s", "×before", "×first", *tables.PHASES.values(), "MB"]
    body, rounds = [], {}
    for stage, row in found.items():
        cells = [stage, median_text(row), "", "", ""]
        if not row.is_peer:
            cells[2:] = [
                three_digits(merging[stage].rate),
                tables.times_text(row, before(found, stage)).replace(" ", ""),
                tables.times_text(row, first).replace(" ", ""),
            ]
        body.append([*cells, *tables.shares_texts(row, tables.PHASES), tables.megabytes(row)])
        rounds.setdefault(len(row.seconds), []).append(stage)
    rounds = [f"{n} round{'s' * (n > 1)}: {', '.join(names)}" for n, names in rounds.items()]
    return plain(header, body) + textwrap.wrap("; ".join(rounds), WIDTH)


def rates(found):
    """Return a task's lines: times, rates and gains. Other libraries come last."""
    first = next(iter(found.values()))
    body = []
    for stage, row in found.items():
        gains = ["", ""]
        if not row.is_peer:
            gains = [
                tables.times_text(row, before(found, stage)), tables.times_text(row, first)
            ]  # fmt: skip
        body.append([stage, median_text(row), f"{three_digits(row.rate)} {row.unit}/s", *gains])
    return plain(["", "time", "rate", "×before", "×first"], body)
