"""The tables and plots of the benchmarks: what they divide, and what a partial run replaces."""

import json
import re

import measurements
import plots
import pytest
import report
import tables
import work_profile
from measurements import Measurement

OWT = {"corpus": "owt", "bytes": 7_659_106}


def merging(stage, seconds, work=9_743, **options):
    return Measurement(
        "merging", vocab_size=10_000, stage=stage, seconds=seconds, work=work, unit="merges",
        phases={phase: [s / 3 for s in seconds] for phase in tables.PHASES[1:]}, **OWT, **options,
    )  # fmt: skip


def encoding(stage, seconds, megabytes, **options):
    return Measurement(
        "encoding", vocab_size=10_000, stage=stage, seconds=[seconds], work=megabytes, unit="MB",
        **OWT, **options,
    )  # fmt: skip


def cell(lines, stage):
    """The cells of the line of a stage."""
    return next(line for line in lines if line.startswith(f"| {stage} |")).split(" | ")


def test_ratio_divides_rates_of_unequal_texts():
    slow = encoding("every merge", 0.72, 0.002)  # 2,000 characters
    fast = encoding("compiled", 0.0111, 3.0)  # three million
    assert measurements.faster(fast, slow) == pytest.approx(3.0 / 0.0111 * 0.72 / 0.002)
    assert "×97,297" in cell(tables.lines_of("encoding", [slow, fast]), "compiled")[1]


def test_ratio_of_different_units_is_refused():
    with pytest.raises(ValueError, match="only rates of the same work can be compared"):
        measurements.faster(merging("heap", [1.0]), encoding("ranks", 1.0, 1.0))


@pytest.mark.parametrize("table", ["merging", "merging-phases", "stage: heap"])
def test_every_ratio_of_a_training_table_divides_rates(table):
    rows = [merging("incremental", [8.0], work=1_000), merging("heap", [2.0, 1.0, 3.0])]
    text = "\n".join(tables.lines_of(table, rows))
    assert re.findall("×([0-9.]+)", text) == [tables.three_digits((9_743 / 2) / (1_000 / 8))]


def test_phases_are_shown_with_the_smallest_and_largest_round():
    lines = tables.lines_of("merging-phases", [merging("heap", [3.0, 6.0, 12.0])])
    assert cell(lines, "heap")[1] == "6.00 s (3.00 s - 12.0 s)"
    assert cell(lines, "heap")[4] == "2.00 s (1.00 s - 4.00 s)"


@pytest.mark.parametrize("table", ["merging", "merging-phases", "stage: naive"])
def test_extrapolated_figures_are_marked(table):
    whole = tables.lines_of(table, [merging("naive", [300.0])])
    marked = tables.lines_of(table, [merging("naive", [300.0], measured=2_000)])
    assert "≈" not in "".join(whole)
    assert "≈ 5.00 min" in "".join(marked)


def run_to_its_end(seconds, work=1_024):
    """A run of which the last half of the merges cost twice as much as the first."""
    checkpoints = []
    for merges in (32, 256, 512, 1_024):
        share = (merges + max(0, merges - 512)) / 1_536
        phases = dict.fromkeys(tables.PHASES[1:], seconds * share / 3)
        checkpoints.append([merges, phases, dict.fromkeys(work_profile.UNITS, merges)])
    return merging("naive", [seconds], work=work, checkpoints=checkpoints)


def test_extrapolated_table_has_the_errors_of_each_stage():
    row = run_to_its_end(15.0)
    runs = list(tables.checked_extrapolations([row]))
    assert [(share, merges) for _, share, (merges, _, _), _ in runs] == [(1 / 32, 32), (1 / 4, 256)]
    for *_, predicted in runs:  # 1,024 merges at the cost of the first ones
        assert predicted == pytest.approx(10.0)
    lines = tables.lines_of("extrapolated", [row])
    assert cell(lines, "naive")[1:4] == ["1 in 32", "1", "-33%"]
    listed = tables.lines_of("extrapolated-runs", [row])
    assert sum("| naive |" in line and "-33%" in line for line in listed) == 2


def test_counting_stages_stand_in_their_order_on_every_cpu():
    rows = [
        Measurement(
            "counting", vocab_size=None, stage=stage, seconds=[seconds], work=10, unit="MB", **OWT
        )
        for stage, seconds in (
            ("regex", 8.0),
            ("native, threads", 1.0),  # from a CPU without AVX-512
            ("native, 1 thread, avx512", 2.0),
            ("native, 1 thread, avx2", 4.0),
        )
    ]
    lines = tables.lines_of("counting", rows)
    order = [
        "regex",
        *(f"native, {how}" for how in ("1 thread, avx2", "1 thread, avx512", "threads")),
    ]
    assert [line.split(" |")[0] for line in lines[2:6]] == [f"| {stage}" for stage in order]
    for stage in order[1:]:
        assert "**×2.00**" in cell(lines, stage)[1]


def test_peers_follow_the_stages_and_have_no_stage_before_them():
    rows = [encoding("tiktoken", 0.1, 3.0, is_peer=True), encoding("ranks", 9.0, 3.0)]
    lines = tables.lines_of("encoding", rows)
    assert [line.split(" |")[0] for line in lines[2:4]] == ["| ranks", "| tiktoken (peer)"]
    assert "×" not in "".join(lines)


def test_blocks_are_filled_and_the_text_around_them_stays():
    document = "before\n<!-- table: merging -->\nold\n<!-- /table -->\nafter\n"
    filled = tables.fill(document, [merging("heap", [3.0])])
    assert filled.startswith("before\n<!-- table: merging -->\n")
    assert filled.endswith("<!-- /table -->\nafter\n")
    assert "| heap | 3.00 s |" in filled
    assert "old" not in filled
    assert tables.fill(filled, [merging("heap", [3.0])]) == filled


@pytest.mark.parametrize("name", ["mergin", "stage: quick"])
def test_unknown_table_is_refused(name):
    with pytest.raises(ValueError, match="it must be one of"):
        tables.fill(f"<!-- table: {name} -->\n<!-- /table -->", [])


@pytest.mark.parametrize("name", [*tables.TABLES, "stage: naive"])
def test_table_without_measurements_says_so(name):
    assert name == "machine" or "Not measured yet" in "".join(tables.lines_of(name, []))


def training(corpus, stage, seconds, vocab_size=10_000, **options):
    return Measurement(
        "end-to-end", corpus, 10_000_000, vocab_size, stage, [seconds], 10, "MB", **options
    )


def test_summary_has_every_stage_and_library_where_all_were_run_to_their_end():
    rows = [
        training("tinystories", "naive", 200.0),
        training("tinystories", "heap", 2.0),
        training("tinystories", "native", 0.04),
        training("tinystories", "tokenizers", 1.6, is_peer=True),
        training("owt", "naive", 300.0),
        training("owt", "native", 0.05),
        training("owt", "naive", 3000.0, 32_000, measured=5),
        training("owt", "native", 0.06, 32_000),
        encoding("every merge", 100.0, 1.0),
        encoding("compiled", 0.01, 1.0),
        encoding("tiktoken", 0.05, 1.0, is_peer=True),
    ]
    lines = tables.lines_of("summary", rows)
    assert lines[0].count("train: ") == 2
    assert lines[0].count("encode: ") == 1
    assert "32,000" not in lines[0]
    naive, native = "naive, the definition in Python", "**native, the default**"
    assert [line.split(" |")[0] for line in lines[2:-1]] == [
        f"| {name}" for name in (naive, "heap", native, "tokenizers", "tiktoken")
    ]
    assert cell(lines, naive)[1:] == ["3.33 min", "5.00 min", "0.01 MB/s |"]
    assert cell(lines, "heap")[1:] == ["2.00 s", "", " |"]
    assert cell(lines, native)[1:] == ["40.0 ms", "50.0 ms", "100 MB/s |"]
    assert cell(lines, "tiktoken")[1:] == ["", "", "20.0 MB/s |"]


def test_summary_plot_shows_the_last_task(tmp_path):
    rows = [training("tinystories", "naive", 2.0), training("owt", "native", 0.04, 32_000)]
    assert "summary.svg" in plots.plot_all(rows, tmp_path)
    drawn = (tmp_path / "summary.svg").read_text()
    assert "OpenWebText, 10.0 MB, to 32,000 tokens" in drawn
    assert "<!-- native -->" in drawn
    assert "<!-- naive -->" not in drawn


@pytest.fixture
def root(tmp_path):
    """A project with measurements of two comparisons, and all that is written from them."""
    results = tmp_path / "benchmarks" / "results"
    rows = [merging("naive", [300.0]), merging("heap", [3.0]), encoding("ranks", 9.0, 3.0)]
    measurements.record(rows, "make stages", results.parent / "measurements.json")
    results.mkdir()
    (results.parent / "measurements.json").rename(results / "measurements.json")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "benchmarks.md").write_text(
        "<!-- table: merging -->\n<!-- /table -->\n<!-- table: encoding -->\n<!-- /table -->\n"
    )
    report.write_all(tmp_path)
    return tmp_path


def test_partial_run_updates_its_own_rows_and_leaves_all_others(root):
    results = root / "benchmarks" / "results"
    before = {path.name: path.read_bytes() for path in results.glob("*.svg")}
    assert set(before) == {"merging.svg", "encoding.svg"}
    run = {
        "benchmarks": [
            {"group": "encode", "name": "test_encode", "params": None, "stats": {},
             "extra_info": {"measurements": [vars(encoding("ranks", 1.0, 3.0))]}}
        ]
    }  # fmt: skip
    page = root / "docs" / "benchmarks.md"
    text = page.read_text()
    measurements.record(report.rows_of(run), "pytest", results / "measurements.json")
    report.write_all(root)

    after = {path.name: path.read_bytes() for path in results.glob("*.svg")}
    assert after["merging.svg"] == before["merging.svg"]
    assert after["encoding.svg"] != before["encoding.svg"]
    merging_before, encoding_before = text.split("<!-- /table -->\n", 1)
    merging_after, encoding_after = page.read_text().split("<!-- /table -->\n", 1)
    assert merging_after == merging_before
    assert encoding_after == encoding_before.replace("0.33 MB/s", "3.00 MB/s")
    rows = measurements.read(results / "measurements.json")
    assert [row.stage for row in rows] == ["naive", "heap", "ranks"]
    assert [row.command for row in rows] == ["make stages", "make stages", "pytest"]


def test_every_table_of_the_pages_is_filled_by_the_report():
    for document in report.DOCUMENTS:
        assert "<!-- table: " in document.read_text(encoding="utf-8")
    pages = [report.ROOT / "README.md", *(report.ROOT / "docs").glob("*.md")]
    # The tables of answers.md are computed by tests/test_answers.py.
    filled = {p for p in pages if "<!-- /table -->" in p.read_text(encoding="utf-8")}
    assert filled == set(report.DOCUMENTS)


def test_the_pages_show_the_measurements():
    rows = measurements.read(measurements.FILE)
    for document in report.DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        assert tables.fill(text, rows) == text, "run `python benchmarks/report.py`"


def test_extrapolated_row_does_not_replace_one_measured_further(tmp_path):
    path = tmp_path / "measurements.json"
    measurements.record([merging("naive", [310.0], measured=5_000)], "make stages", path)
    measurements.record([merging("naive", [900.0], measured=90)], "pytest", path)
    assert measurements.read(path)[0].measured == 5_000
    measurements.record([merging("naive", [300.0])], "make stages", path)
    measurements.record([merging("naive", [310.0], measured=5_000)], "pytest", path)
    assert not measurements.read(path)[0].is_extrapolated


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": []}, "must be positive"),
        ({"seconds": [0.0]}, "must be positive"),
        ({"unit": "words"}, "unit is 'words'"),
        ({"comparison": "merge"}, "comparison is 'merge'"),
        ({"seconds": [1.0, 2.0]}, "has 1 rounds of 2"),
    ],
)
def test_bad_measurement_is_refused(options, message):
    values = {**vars(merging("heap", [3.0])), **options}
    with pytest.raises(ValueError, match=message):
        Measurement(**values)


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
    assert {"growth.svg", "memory.svg"} <= set(plots.plot_all(rows, tmp_path))


def test_benchmark_outside_the_comparisons_keeps_its_group(tmp_path):
    run = {
        "benchmarks": [
            {"group": "one word", "name": f"test[{size}]", "params": {"size": size},
             "stats": {"median": size / 1e6}, "extra_info": {"bytes": 2 * size}}
            for size in (1_000, 10_000)
        ]
    }  # fmt: skip
    rows = report.rows_of(json.loads(json.dumps(run)))
    assert [row.rate for row in rows] == pytest.approx([2, 2])
    assert "×1.00" in "".join(tables.lines_of("other", rows))
