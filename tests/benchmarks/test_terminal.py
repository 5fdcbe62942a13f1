"""The output of a benchmark run: every stage with its phases, no wider than a terminal."""

from benchmarks.report import tables, terminal
from benchmarks.report.measurements import Measurement
from cs336_basics import TRAINERS

TASK = ("owt", 7_659_106, 32_000)


def row(comparison, stage, seconds, work=31_743, unit="merges", **options):
    return Measurement(comparison, *TASK, stage, seconds, work, unit, **options)


def test_a_training_is_one_table_with_peers_below():
    rows = []
    for index, stage in enumerate(TRAINERS):
        seconds = [1.23e4 / 20**index] * (1 if index < 3 else 3)
        phases = {phase: [s / 6 for s in seconds] for phase in tables.PHASES}
        options = {"peak_memory": 1_510_000_000, "measured": 900 if index < 3 else None}
        rows.append(row("merging", stage, seconds, **options))
        rows.append(row("shipped", stage, seconds, 7.7, "MB", phases=phases, **options))
    rows.append(row("shipped", "tokenizers", [1.8] * 3, 7.7, "MB", is_peer=True))
    rows.append(Measurement("counting", *TASK[:2], None, "regex", [0.6], 7.7, "MB"))
    lines = terminal.lines_of(rows)
    assert max(map(len, lines)) <= terminal.WIDTH
    first = lines.index(next(line for line in lines if line.startswith(tables.STAGES[0])))
    names = [line.split()[0] for line in lines[first : first + len(TRAINERS) + 1]]
    assert names == [*TRAINERS, "tokenizers"]
    assert "≈×20.0" in lines[first + 1]
    assert lines[first + 2].split()[-7:-1] == ["17%"] * len(tables.PHASES)
    assert any(line.startswith(f"1 round: {', '.join([*TRAINERS][:3])}") for line in lines)
    assert any(line.startswith("regex") for line in lines)


def test_without_measurements_nothing_is_printed():
    assert terminal.lines_of([]) == []
