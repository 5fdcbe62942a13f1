"""`count_words` handles chunks, URLs and processes."""

import gzip
import subprocess
import sys
import textwrap

import pytest

from cs336_basics.counting import count_words
from cs336_basics.execution.executors import ProcessExecutor, SerialExecutor
from cs336_basics.execution.ray_executor import RayExecutor
from cs336_basics.splitting import Splitter
from tests.counting.hostile import HOSTILE, SPLITTER, expected_counts

TEXT = HOSTILE.decode("utf-8", "replace")


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+"])
def test_text_without_special_tokens_is_counted_in_chunks(tmp_path, pattern):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8", newline="")
    whole = expected_counts(TEXT.encode(), (), pattern)
    for chunk_size in (5, 500, 1 << 20):
        assert count_words(path, Splitter(pattern), num_workers=1, chunk_size=chunk_size) == whole


def test_urls_are_counted(hostile_file):
    pytest.importorskip("fsspec")
    counts = count_words([f"file://{hostile_file}", hostile_file], SPLITTER, num_workers=1)
    once = count_words(hostile_file, SPLITTER)
    assert counts == {word: 2 * count for word, count in once.items()}


def test_no_processes_are_started_for_small_files(tmp_path, monkeypatch):
    def refuse(*args):
        raise AssertionError

    monkeypatch.setattr(ProcessExecutor, "_run", refuse)
    for name in ("a.txt.gz", "b.txt.gz"):
        (tmp_path / name).write_bytes(gzip.compress(HOSTILE))
    for splitting in ("compiled", "regex"):
        once = count_words(tmp_path / "a.txt.gz", SPLITTER, splitting=splitting)
        both = count_words(tmp_path / "*.gz", SPLITTER, splitting=splitting)
        assert both == {word: 2 * count for word, count in once.items()}
    with pytest.raises(AssertionError):
        count_words(tmp_path / "*.gz", SPLITTER, execution="processes", num_workers=2)


def test_ray_tasks_which_run_elsewhere_get_absolute_paths(tmp_path, monkeypatch):
    paths = []

    def reduce(self, job, pieces, done):
        paths.extend(piece.source.path for piece in pieces)
        return SerialExecutor().reduce(job, pieces, done)

    monkeypatch.setattr(RayExecutor, "reduce", reduce)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_bytes(HOSTILE)
    assert count_words("a.txt", SPLITTER, execution="ray") == count_words("a.txt", SPLITTER)
    assert paths == [str(tmp_path / "a.txt")]


def test_a_script_needs_no_main_guard(tmp_path, hostile_file):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        from cs336_basics.counting import count_words
        print(sum(count_words({str(hostile_file)!r}, num_workers=2, chunk_size=500).values()))
        """)
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    expected = count_words(hostile_file, num_workers=1)
    assert run.stdout.split() == [str(sum(expected.values()))]
