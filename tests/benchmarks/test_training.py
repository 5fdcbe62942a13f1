"""The comparison with other libraries: its results, and the operations that it times."""

import pytest

from benchmarks.peers import training
from benchmarks.peers.training_run import EOT
from cs336_basics import train_bpe
from tests.processes import run_python


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat <|endoftext|>the hat of the cat" * 20)
    return path


def test_a_run_reports_times_memory_and_tokens(text_file, tmp_path):
    result = training.run("ours", text_file, 270, 1, tmp_path)
    assert 0 < result["seconds"] < result["whole"]
    assert result["peak"] > 1_000_000
    _, merges = train_bpe(text_file, 270, [EOT])
    expected = [(left + right).hex() for left, right in merges]
    assert result["tokens"] == expected


def test_only_the_library_is_imported_before_the_clock_starts():
    # Other imports would count towards the times of other libraries.
    code = "import sys, benchmarks.peers.training_run; print(*sorted(sys.modules))"
    modules = set(run_python(code).stdout.split())
    assert "benchmarks.peers.training_run" in modules
    assert not {"cs336_basics", "numpy", "benchmarks.machine"} & modules
