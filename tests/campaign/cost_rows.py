"""Rows about costs: the time and the memory that hostile and large inputs take."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.campaign.row import Case, row

ROOT = Path(__file__).parents[2]

MOST = 12
"""Maximum ratio of the CPU times for ten times the text."""
MOST_MEMORY = 20
"""Maximum ratio of the memory. An array that doubles takes 16 times as much for ten times the
elements if they are 10^7, and the memory that a shorter text left is used again."""
MOST_OF_TWICE = 2.3
"""Maximum ratio of the CPU times or the instructions for twice the text: 2.1 for sorting, 4 for all
pairs. Ten times the text can take another way, such as in blocks, which is up to twice as slow."""
MOST_OF_LONG_WORDS = 10.5
"""Maximum ratio of the instructions for words of ten times the length."""
CLOCK = 0.02
"""Seconds. Shorter times are those of caches and of the clock."""
LONGEST = 3.0
"""Seconds. A text that would take longer is left out."""
PAGES = 30_000_000
"""Bytes. Smaller peaks are those of caches, huge pages and modules."""


def _keep_memory() -> None:
    """Let malloc keep the memory that is freed.

    By default, glibc keeps small blocks and returns large ones to the system, so only the calls
    with the longest texts would pay for pages that are cleared anew, two to three microseconds for
    each. The row limits the number of these pages, too, as the peak of the memory.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(-4, 0)  # M_MMAP_MAX
        mallopt(-1, -1)  # M_TRIM_THRESHOLD


def _shortest_times(work: Callable[[str], object], texts: Sequence[str]) -> list[float]:
    """Return the shortest CPU time of each text in three rounds, in seconds.

    Other programs may have taken the CPU's caches.
    """
    rounds = [[_time_of(work, text, 1) for text in texts] for _ in range(3)]
    return [min(times) for times in zip(*rounds, strict=True)]


def _time_of(work: Callable[[str], object], text: str, times: int) -> float:
    """Return the shortest CPU time of some calls, in seconds."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work(text)
        found.append(time.process_time() - start)
    return min(found)


def _status(name: str) -> int:
    """Return a number of bytes from /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def _costs_of(work: Callable[[str], object], text: str) -> tuple[float, int]:
    """Return the CPU time of a call in seconds, and the growth of the resident memory in bytes.

    The call that is timed uses the memory of the one before it.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = _status("VmRSS")
    except (OSError, AttributeError):  # another system
        return _time_of(work, text, 2), 0
    work(text)
    memory = _status("VmHWM") - before
    return _time_of(work, text, 1), memory


def _timed() -> list[tuple[str, str]]:
    from tests.campaign.hostile_texts import SHAPES, WORKS

    return [(work, shape) for work in WORKS for shape in SHAPES]


@row("inputs", cases=_timed, in_normal_run=False, seconds=1200, share=16)
def time_of_hostile_texts(case: Case) -> int:
    """Ten times the text takes at most 12 times the CPU time, or grows linearly."""
    from cs336_basics import TRAINERS
    from tests.campaign.hostile_texts import SHAPES, WORKS

    if not TRAINERS["native"].is_built:
        pytest.skip("the extensions are not built")
    _keep_memory()
    name, shape = case.value
    work = WORKS[name]
    checked, before, memory_before = 0, 0.0, 0
    for exponent in range(3, 8):
        if 10 * before > LONGEST:
            break
        text = SHAPES[shape](10**exponent)
        seconds, memory = _costs_of(work, text)
        told = f"{name}, {shape}, 10^{exponent}"
        if before > CLOCK and seconds > MOST * before:
            before, seconds = _shortest_times(work, [SHAPES[shape](10 ** (exponent - 1)), text])
            if seconds > MOST * before:
                _check_twice(case, exponent, f"{told}: {seconds / before:.1f} times")
        if memory_before > PAGES:
            both = f"{memory_before / 1e6:,.0f} MB, then {memory / 1e6:,.0f} MB"
            assert memory <= MOST_MEMORY * memory_before, f"{told}: {both}"
        before, memory_before = seconds, memory
        checked += 1
    case.notes[f"cases whose longest text has 10^{exponent if checked == 5 else exponent - 1}"] += 1
    return checked


def _check_twice(case: Case, exponent: int, told: str) -> None:
    """Check that a work grows linearly, although ten times the text took more than 12 times.

    The longer text may not fit into the CPU's caches, or it may be divided. Twice the longer text
    then takes twice the CPU time. If it seems to take more, instructions are counted, which other
    programs do not change, but which takes fifty times as long.

    Args:
        case: The case.
        exponent: Decimal logarithm of the length of the longer text.
        told: What has taken how many times the CPU time, for the message.
    """
    from tests.campaign.hostile_texts import SHAPES, WORKS

    name, shape = case.value
    lengths = 10**exponent, 2 * 10**exponent
    first, second = _shortest_times(WORKS[name], [SHAPES[shape](length) for length in lengths])
    unit = "CPU time"
    if second > MOST_OF_TWICE * first:
        first, second = _instructions(case, lengths, told)
        unit = "instructions"
    both = f"{told}; twice the text: {second / first:.1f} times the {unit}"
    assert second <= MOST_OF_TWICE * first, both
    case.notes[both] += 1


def _instructions(case: Case, lengths: Sequence[int], told: str) -> list[int]:
    """Return how many instructions texts of these lengths take."""
    assert shutil.which("valgrind"), f"{told} (to count instructions, install valgrind)"
    words = [sys.executable, "-m", "tests.campaign.hostile_texts", *case.value]
    # A child for each length continues after the start, which takes most of the time.
    output = _under_callgrind([*words, *map(str, [100, *lengths])], case.folder)
    start, *counts = (_total(case.folder, int(pid)) for pid in output.split())
    return [count - start for count in counts]


def _under_callgrind(command: list[str], folder: Path) -> str:
    """Run a command and its forks under callgrind. Return what it prints."""
    output = f"--callgrind-out-file={folder}/callgrind.%p"
    return subprocess.run(
        ["valgrind", "--tool=callgrind", output, *command], cwd=ROOT, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "CS336_SIMD": "avx2", "PYTHONHASHSEED": "0"},  # it has no AVX-512
    ).stdout  # fmt: skip


def _total(folder: Path, pid: int | str) -> int:
    """Return how many instructions a process under callgrind has taken."""
    (file,) = folder.glob(f"callgrind.{pid}")
    return int(file.read_text().rpartition("\ntotals: ")[2].split()[0])


@functools.cache
def _long_words() -> tuple[Any, str]:
    """Compile tests/native/long_words.cpp, once in a process."""
    from tests.native.compiler import compiler

    folder = tempfile.TemporaryDirectory(prefix="campaign-")
    program = f"{folder.name}/long_words"
    source = ROOT / "tests" / "native" / "long_words.cpp"
    subprocess.run([*compiler(), "-O2", source, "-o", program], check=True)
    return folder, program


UNITS = [
    "a",
    "ab",
    "\"'",
    "aab",
    "'s'",
    "👩\u200d👩\u200d👧",
    "猫は鼠",
    "e\u0301\u0323",
    "1234567890",
]


@row(
    "counts",
    cases=lambda: list(itertools.product(["train", "merge", "merge with dropout"], UNITS)),
    in_normal_run=False,
    share=3,
)
def instructions_of_long_words(case: Case) -> int:
    """Training on a word and merging it take at most 10.5 times the instructions for 10 times."""
    if not shutil.which("valgrind"):
        pytest.skip("needs valgrind")
    _, program = _long_words()
    lengths = (10**4, 10**5, 10**6)
    counts = []
    for length in lengths:
        folder = case.folder / str(length)
        folder.mkdir()
        _under_callgrind([program, *case.value, str(length)], folder)
        counts.append(_total(folder, "*"))
    # The differences do not include the start of the program.
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    assert second <= MOST_OF_LONG_WORDS * first, (case.value, counts)
    return len(counts)
