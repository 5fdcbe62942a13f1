"""Tables and plots: ratios, extrapolated figures, and rows that a partial run replaces."""

import re

import pytest

from benchmarks.machine import PAGES
from benchmarks.report import measurements, pages, plots, tables
from benchmarks.report.measurements import Measurement
from benchmarks.stages.extrapolation import UNITS
from cs336_basics import TRAINERS

PHASES = TRAINERS["naive"].work_units
OWT = {"corpus": "owt", "bytes": 7_659_106}


def merging(stage, seconds, work=9_743, **options):
    return Measurement(
        "merging", vocab_size=10_000, stage=stage, seconds=seconds, work=work, unit="merges",
        phases={phase: [s / 3 for s in seconds] for phase in PHASES}, **OWT, **options,
    )  # fmt: skip


def encoding(stage, seconds, megabytes, **options):
    return Measurement(
        "encoding", vocab_size=10_000, stage=stage, seconds=[seconds], work=megabytes, unit="MB",
        **OWT, **options,
    )  # fmt: skip


def cell(lines, stage):
    """Return the cells of a stage's row."""
    return next(line for line in lines if line.startswith(f"| {stage} |")).split(" | ")


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_the_pages_show_the_measurements(document):
    text = document.read_text(encoding="utf-8")
    rows = measurements.read()
    assert "<!-- table: " in text
    assert tables.fill(text, rows) == text, "run `python -m benchmarks.report.pages`"


def test_a_ratio_divides_rates_of_unequal_texts():
    slow = encoding("every merge", 0.72, 0.002)  # 2,000 characters
    fast = encoding("compiled", 0.0111, 3.0)  # three million
    assert measurements.faster(fast, slow) == pytest.approx(3.0 / 0.0111 * 0.72 / 0.002)
    assert "×97,297" in cell(tables.lines_of("encoding", [slow, fast]), "compiled")[1]
    with pytest.raises(ValueError, match="rates"):
        measurements.faster(merging("heap", [1.0]), slow)


@pytest.mark.parametrize("table", ["merging", "merging-phases", "stage: heap"])
def test_every_ratio_of_a_training_table_divides_rates(table):
    rows = [merging("incremental", [8.0], work=1_000), merging("heap", [2.0, 1.0, 3.0])]
    text = "\n".join(tables.lines_of(table, rows))
    ratios = set(re.findall("×([0-9.]+)", text)) - {"1.00"}  # the first stage compared with itself
    assert ratios == {tables.three_digits((9_743 / 2) / (1_000 / 8))}


@pytest.mark.parametrize("table", ["merging", "merging-phases", "stage: naive"])
def test_extrapolated_figures_are_marked(table):
    whole = tables.lines_of(table, [merging("naive", [300.0])])
    marked = tables.lines_of(table, [merging("naive", [300.0], measured=2_000)])
    assert "≈" not in "".join(whole)
    assert "≈ 5.00 min" in "".join(marked)


def test_the_error_of_an_extrapolation_is_shown():
    """The second half of the merges costs twice as much as the first."""
    checkpoints = []
    for merges in (32, 256, 512, 1_024):
        share = (merges + max(0, merges - 512)) / 1_536
        phases = dict.fromkeys(PHASES, 15.0 * share / 3)
        checkpoints.append([merges, phases, dict.fromkeys(UNITS, merges)])
    row = merging("naive", [15.0], work=1_024, checkpoints=checkpoints)
    for _, _, predicted in tables.checked_extrapolations([row]):
        assert predicted == pytest.approx(10.0)  # 1,024 merges at the cost of the first 512
    lines = tables.lines_of("extrapolated", [row])
    assert cell(lines, "naive")[1:4] == ["1 in 32", "1", "-33%"]


def test_peers_follow_the_stages_and_have_no_stage_before_them():
    rows = [encoding("tiktoken", 0.1, 3.0, is_peer=True), encoding("ranks", 9.0, 3.0)]
    lines = tables.lines_of("encoding", rows)
    assert [line.split(" |")[0] for line in lines[2:4]] == ["| ranks", "| tiktoken (peer)"]
    assert "×" not in "".join(lines)


def test_growth_has_the_exponent_of_each_stage(tmp_path):
    rows = [
        Measurement(
            "merging", "owt", size, 2_000, "naive", [size**0.6], 1_743, "merges",
            words=size // 100, peak_memory=size, phases={"updating": [size**0.6]},
            checkpoints=[[m, {"updating": float(m)}, {}] for m in (16, 64, 256, 1_743)],
        )
        for size in (250_000, 500_000, 1_000_000)
    ]  # fmt: skip
    line = cell(tables.lines_of("growth", rows), "OpenWebText, naive")
    assert line[1:3] == ["bytes^0.60", "words^0.60"]
    assert "growth.svg" in plots.plot_all(rows, tmp_path)


def test_blocks_are_filled_and_the_text_around_them_stays():
    document = "before\n<!-- table: merging -->\nold\n<!-- /table -->\nafter\n"
    filled = tables.fill(document, [merging("heap", [3.0])])
    assert filled.startswith("before\n<!-- table: merging -->\n")
    assert filled.endswith("<!-- /table -->\nafter\n")
    assert "| heap | 3.00 s (1 round) |" in filled
    assert "old" not in filled
    assert tables.fill(filled, [merging("heap", [3.0])]) == filled
    with pytest.raises(ValueError, match="mergin"):
        tables.fill(document.replace("merging", "mergin"), [])


def test_a_partial_run_replaces_its_own_rows_and_plots(tmp_path):
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    file = results / "measurements.json"
    rows = [merging("naive", [300.0]), merging("heap", [3.0]), encoding("ranks", 9.0, 3.0)]
    measurements.record(rows, "make stages", file)
    pages.write_all(tmp_path)
    before = {path.name: path.read_bytes() for path in results.glob("*.svg")}
    assert set(before) == {"merging.svg", "encoding.svg"}
    attached = {"measurements": [vars(encoding("ranks", 1.0, 3.0))]}
    measurements.record(pages.rows_of([attached]), "pytest", file)
    pages.write_all(tmp_path)
    after = {path.name: path.read_bytes() for path in results.glob("*.svg")}
    assert after["merging.svg"] == before["merging.svg"]
    assert after["encoding.svg"] != before["encoding.svg"]
    commands = [(row.stage, row.command) for row in measurements.read(file)]
    assert commands == [("naive", "make stages"), ("heap", "make stages"), ("ranks", "pytest")]


def test_an_extrapolated_row_does_not_replace_one_that_was_measured_further(tmp_path):
    path = tmp_path / "measurements.json"
    measurements.record([merging("naive", [310.0], measured=5_000)], "make stages", path)
    measurements.record([merging("naive", [900.0], measured=90)], "pytest", path)
    assert measurements.read(path)[0].measured == 5_000
    measurements.record([merging("naive", [300.0])], "make stages", path)
    measurements.record([merging("naive", [310.0], measured=5_000)], "pytest", path)
    assert not measurements.read(path)[0].is_extrapolated
