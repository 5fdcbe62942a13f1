"""The compiled encoder in threads and processes, the memory of its cache, the lifetime of ids."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.tokenizer.examples import TRAINING_TEXT, small_tokenizer

pytest.importorskip(
    "cs336_basics.tokenizer.encoders._encoder", reason="the compiled encoder is not built"
)

NO_THREADS = """
import resource, sys
from tests.tokenizer.examples import small_tokenizer
from cs336_basics.tokenizer import encode_file
tokenizer = small_tokenizer()
# There is no room for the stack of a thread.
resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
calls = {
    "array": lambda: tokenizer.encode_array("a b " * (1 << 20), num_workers=2),
    "file": lambda: encode_file(tokenizer, sys.argv[1], sys.argv[1] + ".npy", num_workers=2),
}
for call in calls.values():
    try:
        call()
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_the_error_says_when_no_thread_can_be_started(tmp_path):
    import resource

    stack, most = 1 << 33, resource.getrlimit(resource.RLIMIT_STACK)[1]
    if 0 <= most < stack:
        pytest.skip("the stack of a thread cannot be made larger than the memory")
    (tmp_path / "a.txt").write_text("some text")
    run = subprocess.run(
        [sys.executable, "-c", NO_THREADS, str(tmp_path / "a.txt")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (stack, most)),
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.count("no thread could be started: ") == 2
    assert os.listdir(tmp_path) == ["a.txt"]


def encoding_of(tokenizer, path, block_size):
    return tokenizer.encoder.encode_files(
        [str(path)], [path.stat().st_size], block_size=block_size, num_workers=1,
        errors="replace", separator=None,
    )  # fmt: skip


def test_the_ids_of_a_block_stay_valid_after_the_next_one(tmp_path):
    tokenizer = small_tokenizer()
    (tmp_path / "a.txt").write_text("some words " * 100)
    encoding = encoding_of(tokenizer, tmp_path / "a.txt", 200)
    with pytest.raises(BufferError, match="no block"):
        memoryview(encoding)
    for _ in range(3):
        ids, _, _ = next(encoding)
    expected = ids.tolist()
    encoding.close()
    del encoding
    # (These would reuse freed memory.)
    others = [np.full(ids.nbytes + extra, 255, np.uint8) for extra in range(0, 2000, 8)]
    assert ids.tolist() == expected
    assert not ids.flags.writeable
    assert len(others) == 250


def test_a_file_encoding_closed_by_another_thread_ends(tmp_path):
    # A word that takes longer to encode than this test runs.
    (tmp_path / "a.txt").write_bytes(bytes(random.Random(5).choices(b"!.<|>", k=1 << 20)) * 60)
    encoding = encoding_of(small_tokenizer(), tmp_path / "a.txt", 1 << 20)
    found = []
    thread = threading.Thread(target=lambda: found.append(list(encoding)), daemon=True)
    thread.start()
    thread.join(0.2)
    encoding.close()
    thread.join(30)
    assert found == [[]]


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")
def test_the_cache_keeps_to_its_limit():
    program = """
import sys
from cs336_basics import Tokenizer
def peak():
    # (The ru_maxrss of a new process begins with that of the one that started it.)
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
# All digits can be joined, so that a number is not cut into segments, which would be few.
merges = [(b"%d" % i, b"%d" % j) for i in range(10) for j in range(10)]
tokens = [bytes([i]) for i in range(256)] + [left + right for left, right in merges]
tokenizer = Tokenizer(dict(enumerate(tokens)), merges, cache_size=int(sys.argv[1]))
tokenizer.encode_array("a")
before = peak()
for start in range(0, 1_200_000, 20_000):
    tokenizer.encode_array(" ".join(f"{n:020}" for n in range(start, start + 20_000)))
print(peak() - before)
"""
    grown = {}
    for limit in (1 << 20, 1 << 30):
        run = subprocess.run(
            [sys.executable, "-c", program, str(limit)], capture_output=True, text=True, check=True
        )
        grown[limit] = int(run.stdout)
    # A million numbers of 20 digits take well above 100 MB, if all are cached.
    assert grown[1 << 30] > 90_000_000
    assert grown[1 << 20] < 20_000_000


def test_threads_share_one_tokenizer():
    tokenizer = small_tokenizer(cache_size=20_000)
    texts = [TRAINING_TEXT[start:] * 5 for start in range(60)]
    expected = [small_tokenizer().encode(text) for text in texts]
    found: dict[int, list[list[int]]] = {}

    def work(number: int) -> None:
        found[number] = [tokenizer.encode(text) for text in texts]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == expected for number in range(4))


def _encode_in_child(tokenizer, text, queue):
    queue.put(tokenizer.encode_array(text, num_workers=2).tolist())


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_tokenizer_is_sent_to_other_processes(start):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {start}")
    tokenizer = small_tokenizer()
    text = TRAINING_TEXT * 1000
    expected = tokenizer.encode_array(text, num_workers=2).tolist()
    context = multiprocessing.get_context(start)
    queue = context.Queue()
    with warnings.catch_warnings():
        # Python 3.12 warns at a fork if other tests have left threads running.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = context.Process(target=_encode_in_child, args=(tokenizer, text, queue))
        child.start()
    assert queue.get(timeout=60) == expected
    child.join(60)
    assert child.exitcode == 0
