"""A slice of every row, the runner, the promises, and the report."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections import Counter

import pytest

from tests.campaign import report
from tests.campaign.__main__ import main
from tests.campaign.promises import PAGE, PROOFS, key_of, promises, proving_tests
from tests.campaign.row import Case, Row, all_rows
from tests.campaign.runner import MOST_FAILURES, Result, run_row

ROWS = all_rows()


def test_every_row_has_a_title():
    assert all(row.title for row in ROWS.values())


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.in_normal_run])
def test_a_slice_of_a_row_passes(name):
    row = ROWS[name]
    checked, notes = row.run(0, 0)
    assert checked > 0 or notes


def test_a_case_depends_on_the_row_the_seed_and_its_number_only():
    def check(case):
        seen.append((case.value, case.chooser.random()))
        return 1

    seen = []
    row = Row("a", check, "numbers", lambda: list(range(50)))
    for seed in (1, 1, 2):
        for number in range(50):
            row.run(seed, number)
    first, again, other = seen[:50], seen[50:100], seen[100:]
    assert first == again
    assert first != other
    assert sorted(value for value, _ in other) == list(range(50))


def misbehave(case: Case) -> int:
    """Fails, crashes, hangs, is skipped, or passes."""
    kind = case.value
    if kind == "fails":
        raise AssertionError("one is not two")
    if kind == "crashes":
        os.write(2, b"what the crash has printed")
        os._exit(3)
    if kind == "hangs":
        time.sleep(60)
    if kind == "skipped":
        pytest.skip("no such machine")
    case.notes["passes"] += 1
    return 10


KINDS = ["passes", "fails", "skipped", "passes", "crashes", "hangs", "passes"]


def bad_rows() -> dict[str, Row]:
    return {"bad": Row("bad", misbehave, "things", lambda: KINDS, seconds=1.5)}


@pytest.fixture(scope="module")
def result():
    return run_row(bad_rows()["bad"], 1, 60, bad_rows)


def test_failures_crashes_and_hangs_are_failures_of_their_cases(result):
    assert (result.cases, result.checked, result.planned) == (3, 30, 7)
    assert result.notes == Counter(passes=3)
    assert result.skipped == {"no such machine": 1}
    assert len(result.failures) == 3
    assert not result.is_complete
    assert {m.split()[0] for _, m in result.failures} == {"Traceback", "what", "the"}
    for case, message in result.failures:
        row = bad_rows()["bad"]
        if "one is not two" in message:
            with pytest.raises(AssertionError, match="one is not two"):
                row.run(1, case)
        else:
            assert "printed\nthe process ended with exit status 3" in message or (
                "longer than" in message
            )


def always_fails(case: Case) -> int:
    """Nothing is right."""
    raise AssertionError("never")


def failing_rows() -> dict[str, Row]:
    return {"failing": Row("failing", always_fails, "things")}


def test_a_row_ends_after_a_few_failures():
    result = run_row(failing_rows()["failing"], 1, 60, failing_rows)
    assert [case for case, _ in result.failures] == list(range(MOST_FAILURES))


@pytest.fixture
def ran(monkeypatch):
    """Let campaigns have the result of every row at once."""
    results = {
        "good": Result("good", 5, cases=9, checked=90, notes=Counter({"odd ones": 2})),
        "bad": Result("bad", 5, 1, 7, 10, failures=[(4, "Traceback\n  x\nValueError: <b>|")]),
    }
    monkeypatch.setattr(
        "tests.campaign.__main__.run_row", lambda row, seed, seconds, stop: results[row.name]
    )
    return {name: Row(name, misbehave, "things") for name in results}


def test_a_failure_prints_its_command_and_sets_the_status(ran, tmp_path, capsys):
    page = tmp_path / "page.md"
    assert main(["--seed", "5", "--report", str(page)], ran) == 1
    out = capsys.readouterr().out
    assert "seed 5;" in out
    assert "  python -m tests.campaign bad --seed 5 --case 4\n" in out
    text = page.read_text()
    assert "`python -m tests.campaign bad --seed 5 --case 4`" in text
    assert "90 things in 9 cases, no failure" in text
    assert "10 things in 1 of 7 cases, 1 failed" in text
    assert "<b>" not in text
    assert os.listdir(tmp_path) == ["page.md"]
    assert main(["--seed", "5", "good"], ran) == 0
    assert "no failures" in capsys.readouterr().out


def test_one_case_is_repeated_with_its_traceback(capsys):
    rows = {"bad": Row("bad", misbehave, "things", lambda: ["fails"])}
    with pytest.raises(AssertionError, match="one is not two"):
        main(["bad", "--seed", "1", "--case", "0"], rows)
    rows = {"bad": Row("bad", misbehave, "things", lambda: ["passes"])}
    assert main(["bad", "--seed", "1", "--case", "0"], rows) == 0
    assert "case 0 passed: 10 things" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["no-such-row"], rows)
    assert "no such row: no-such-row" in capsys.readouterr().err


def test_ctrl_c_stops_without_a_report(ran, tmp_path, monkeypatch, capsys):
    def interrupted(row, seed, seconds, stop):
        raise KeyboardInterrupt

    monkeypatch.setattr("tests.campaign.__main__.run_row", interrupted)
    assert main(["--report", str(tmp_path / "page.md")], ran) == 130
    assert "stopped; no report" in capsys.readouterr().out
    assert not os.listdir(tmp_path)


def test_every_promise_is_proved():
    keys = [key_of(promise) for promise in promises()]
    unproved = [p.sentence for p, key in zip(promises(), keys, strict=True) if key is None]
    assert not unproved, "add them to PROOFS"
    assert set(keys) == set(PROOFS), f"{PAGE.name} has no longer: {set(PROOFS) - set(keys)}"
    assert [key for key, proofs in PROOFS.items() if not proofs] == ["SECURITY.md"]
    used = {proof for proofs in PROOFS.values() for proof in proofs if "/" not in proof}
    assert used <= set(ROWS)


def test_the_tests_that_prove_a_promise_exist():
    for test in proving_tests():
        file, _, name = test.partition("::")
        text = (report.ROOT / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"^ *def {name}\(", text, re.MULTILINE), test


def test_the_report_has_every_promise_and_every_row():
    results = {name: Result(name, 1, cases=3, checked=3) for name in ROWS}
    results["ray"] = Result("ray", 1, planned=3, skipped=Counter({"ray is not installed": 3}))
    text = report.text_of(ROWS, results, 1, 60.0)
    for promise in promises():
        assert f"\n| {promise.sentence.replace('|', chr(92) + '|')} | " in text
    for name in ROWS:
        assert f"\n| {name} | " in text
    assert "ray: skipped" in text
    assert "\n- ray: ray is not installed\n" in text
    assert "**nothing**" not in text


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/home/me/project/tests/a.py: error", "a.py: error"),
        ("cannot read '/tmp/campaign-1x/a.txt.gz'", "cannot read 'a.txt.gz'"),
        (r"cannot read C:\Users\me\a.txt", "cannot read a.txt"),
        (f"g++ -I{report.ROOT}/tests a.cpp", "g++ -Itests a.cpp"),
        (f"no file://{tempfile.gettempdir()}/a.txt", "no file://a.txt"),
        (f"{tempfile.gettempdir()}: no space", ": no space"),
        ("in tests/native/a.cpp, 1/2 or and/or", "in tests/native/a.cpp, 1/2 or and/or"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
    ],
)
def test_the_report_has_no_directories_of_the_machine(message, shown):
    results = {
        "kill": Result("kill", 1, failures=[(0, message)]),
        "page": Result("page", 1, cases=1, notes=Counter({message: 1})),
        "ray": Result("ray", 1, planned=1, skipped=Counter({message: 1})),
    }
    text = report.text_of(ROWS, results, 1, 60.0).replace("\\", "")
    assert f"- kill: {shown}. To repeat" in text
    assert f"- page: 1 {shown}\n" in text
    assert f"- ray: {shown}\n" in text
