"""Comparisons with other libraries: a run in a process of its own, and what is timed of it."""

import sys

import peer_run
import peers
import pytest

from cs336_basics import train_bpe

TEXT = "the cat sat on the mat <|endoftext|>the hat of the cat" * 20


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_a_run_reports_times_and_memory_and_writes_the_tokens(text_file, tmp_path):
    result = peers.run("ours", text_file, 270, 1, tmp_path)
    assert 0 < result["seconds"] < result["whole"]
    assert result["peak"] > 1_000_000
    _, merges = train_bpe(text_file, 270, [peer_run.EOT])
    expected = [(left + right).hex() for left, right in merges]
    assert (tmp_path / "ours").read_text().split("\n") == expected


def test_a_library_that_cannot_be_imported_is_an_error_of_its_row(text_file, tmp_path, monkeypatch):
    (tmp_path / "gigabpe.py").write_text("raise ImportError('gigabpe is not for this machine')")
    monkeypatch.setattr(peers, "ROOT", tmp_path)  # the first folder where modules are searched for
    rows = peers.compare(text_file, 270, 1, 2, ["gigabpe"])
    assert rows == [{"trainer": "gigabpe", "error": "ImportError: gigabpe is not for this machine"}]


def test_the_run_that_compiles_modules_is_not_counted(text_file, monkeypatch):
    runs = []

    def recorded(name, path, *arguments):
        runs.append(path)
        return run(name, path, *arguments)

    run = peers.run
    monkeypatch.setattr(peers, "run", recorded)
    (row,) = peers.compare(text_file, 270, 1, 2, ["ours"])
    assert len(runs) == 3
    assert text_file != runs[0]
    assert len(row["rounds"]) == 2


def test_only_the_library_is_imported_before_the_clock_starts():
    # The package, and what makes tokens of a result, would be in the time of other libraries.
    code = "import sys; sys.argv = ['x']; import peer_run; print(*sorted(sys.modules))"
    modules = peers.subprocess.run(
        [sys.executable, "-c", code],
        cwd=peers.ROOT / "benchmarks",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "peer_run" in modules
    assert not {"cs336_basics", "numpy", "machine"} & set(modules)
