"""Counting on a local Ray cluster with two workers."""

import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from cs336_basics.pretokenization import Corpus, Splitter, count_text, count_words

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")
from cs336_basics.pretokenization.counting.ray_counting import count_words_ray  # noqa: E402

ROOT = Path(__file__).parents[3]
EOT = "<|endoftext|>"
SPLITTER = Splitter(special_tokens=[EOT])
TEXT = (f"It's the dogs' bone, isn't it? 好的 é 12,345.67\n{EOT}\n" * 400).encode()


@pytest.fixture(scope="module")
def local_ray():
    # Workers must be able to import the package even if it is not installed.
    environment = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield
    ray.shutdown()


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT + b"\xff tail")
    return path


@pytest.mark.parametrize("chunk_size", [pytest.param(500, marks=pytest.mark.slow), 3000, None])
def test_counts_equal_those_of_one_process(local_ray, text_file, chunk_size):
    counts = count_words_ray(text_file, SPLITTER, chunk_size=chunk_size)
    assert counts == count_words(text_file, SPLITTER, backend="serial")


def test_files_of_every_kind_are_counted_together(local_ray, text_file, tmp_path):
    (tmp_path / "more.txt.gz").write_bytes(gzip.compress(TEXT))
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": "ab cd"}) + "\n" for _ in range(50)))
    expected = Counter({b"ab": 50, b" cd": 50})
    for _ in range(2):
        expected.update(count_words(text_file, SPLITTER, backend="serial"))
    expected.update(count_text(TEXT.decode(), SPLITTER))
    files = [text_file, str(tmp_path / "more*.gz"), rows, f"file://{text_file}"]
    corpus = Corpus(files, field="text")
    counts = count_words_ray(corpus, SPLITTER, chunk_size=700)
    assert counts == expected


@pytest.mark.parametrize("times", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_errors_of_tasks_reach_the_caller(local_ray, text_file, times):
    # Cancelling the other tasks used to abort this process if a task was about to end.
    for _ in range(times):
        with pytest.raises(ValueError, match=r"text\.txt: byte 0xff at offset 26,000 "):
            count_words_ray(Corpus(text_file, errors="strict"), SPLITTER, chunk_size=1000)
    assert count_words_ray(text_file, SPLITTER) == count_words(
        text_file, SPLITTER, backend="serial"
    )


def test_missing_and_empty_files_are_rejected(local_ray, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
        count_words_ray(tmp_path / "missing.txt")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match=r"empty\.txt"):
        count_words_ray(tmp_path / "empty.txt")


def test_a_killed_worker_costs_a_retry(local_ray, tmp_path):
    # The pattern cannot be compiled, so counting is slow and leaves time to kill the worker.
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT * 20)
    splitter = Splitter(r"\w+\b|[^\w\s]+|\s+", [EOT])
    expected = count_words(path, splitter, backend="serial")
    killed = []

    def kill_one():
        deadline = time.monotonic() + 60
        while not killed and time.monotonic() < deadline:
            for process in psutil.Process().children(recursive=True):
                try:
                    if "ray::_count_chunk" in " ".join(process.cmdline()):
                        process.kill()
                        killed.append(process.pid)
                        return
                except psutil.Error:
                    continue
            time.sleep(0.005)

    killer = threading.Thread(target=kill_one)
    killer.start()
    counts = count_words_ray(path, splitter, chunk_size=60_000)
    killer.join()
    assert killed, "found no worker running a task"
    assert counts == expected


def test_the_error_without_ray_includes_the_install_command():
    code = """
import sys
sys.modules["ray"] = None
from cs336_basics.pretokenization.counting.ray_counting import count_words_ray
try:
    count_words_ray(sys.executable)
except ImportError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "pip install 'cs336-basics[ray]'" in run.stdout, run.stderr
