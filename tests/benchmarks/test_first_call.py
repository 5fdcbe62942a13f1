"""The benchmark of the first call times processes and leaves out libraries with other ids."""

from __future__ import annotations

import sys

import pytest

from benchmarks.encoding import first_call
from tests.tokenizer.examples import small_tokenizer


def test_libraries_with_other_ids_are_left_out(tmp_path, monkeypatch, capsys):
    ours = first_call.PROGRAMS["ours"]
    wrong, broken = "\nimport sys\nprint([1])\n", "\nimport nothing_here\n"
    programs = {"ours": ours, "wrong": wrong, "broken": broken}
    monkeypatch.setattr(first_call, "PROGRAMS", programs)
    tokenizer = small_tokenizer()
    tokenizer.save(tmp_path)
    arguments = [str(tmp_path / "tokenizer.json"), "", "{}", "gpt2", first_call.LINE]
    environment = first_call.environment_of(str(tmp_path / "bytecode"))
    first_call.compare_libraries(tokenizer, arguments, 1, environment)
    out = capsys.readouterr().out
    assert "wrong is left out: other ids" in out
    assert "broken is left out: exit status 1" in out
    rows = [line for line in out.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[1:]] == ["| ours"]
    assert list((tmp_path / "bytecode").rglob("tokenizer.cpython-*.pyc"))


def test_a_failed_process_is_an_error(tmp_path):
    environment = first_call.environment_of(str(tmp_path))
    milliseconds, printed = first_call.cpu_time([sys.executable, "-c", "print(3)"], environment)
    assert milliseconds > 0
    assert printed == "3\n"
    with pytest.raises(RuntimeError, match="exit status 5"):
        first_call.cpu_time([sys.executable, "-c", "raise SystemExit(5)"], environment)
