"""The counting stages, and how long each trainer's counting takes. All return the same counts.

Each stage is a function that takes a path and returns the counts. It uses one backend of
`count_words`, with one or several workers or at one SIMD level.
"""

import time
from functools import partial

from benchmarks.corpora import EOT, head_of
from benchmarks.machine import spawned
from cs336_basics.counting import count_words
from cs336_basics.counting._counting import count_files
from cs336_basics.counting.count_words import DEFAULT_BLOCK_SIZE
from cs336_basics.counting.word_counts import WordCounts
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.splitting import Splitter
from cs336_basics.splitting._scanner import simd_levels

SPLITTER = Splitter(special_tokens=[EOT])
CORES = resolve_num_workers(None)


def by_backend(backend, num_workers, path):
    return count_words(path, SPLITTER, backend=backend, num_workers=num_workers)


def at_simd_level(level, path):
    """Count natively in one thread, at one SIMD level."""
    size = path.stat().st_size
    buffers, _ = count_files(
        [path], [size], [EOT], "gpt2", 1, "replace", DEFAULT_BLOCK_SIZE, simd_level=level
    )
    return WordCounts.of_buffers(buffers, "gpt2", [EOT])


STAGES = {
    "regex": partial(by_backend, "regex", 1),
    "regex, processes": partial(by_backend, "regex", CORES),
    "serial": partial(by_backend, "serial", 1),
    "processes": partial(by_backend, "processes", CORES),
    **{f"native, 1 thread, {level}": partial(at_simd_level, level) for level in simd_levels()},
    "native, threads": partial(by_backend, "native", CORES),
}
"""Stage name -> function of a path, from the simplest to the fastest."""

SLOW = ("regex", "regex, processes", "serial", "processes")
"""Stages in Python, which count only the first SLOW_BYTES bytes of a text."""

SLOW_BYTES = 100_000_000
"""The rate of the stages in Python hardly depends on the size."""

ORIGINAL = {
    "naive": "regex",
    "incremental": "regex, processes",
    "heap": "regex, processes",
    "memoryview": "processes",
    "native": "native, threads",
}
"""Trainer stage -> the counting stage from the same period."""

SHIPPED = "native, threads"
"""The default counting stage for every trainer."""


def counting_times(stage, path, rounds):
    """Return a trainer's counting times in each round, as dicts from a comparison to seconds.

    "end-to-end" counts as when the stage was new, "shipped" as all trainers do by default. Each
    round runs in a new process. The time of a slow stage is that of the first part of the text,
    in proportion.
    """
    head = head_of(path, SLOW_BYTES) if ORIGINAL[stage] in SLOW else path
    scale = path.stat().st_size / head.stat().st_size
    found = [spawned(times_of_a_round, ORIGINAL[stage], head) for _ in range(rounds)]
    return [{comparison: scale * seconds for comparison, seconds in r.items()} for r in found]


def warm_up(path):
    """Count the start of a text first, so that neither late imports nor new memory are timed."""
    for name in ("regex", "serial", SHIPPED):
        STAGES[name](head_of(path, 1_000))


def times_of_a_round(original, path):
    warm_up(path)
    # Native counting comes first in every process, because a second count is faster.
    shipped = seconds_to_count(SHIPPED, path)
    counted = shipped if original == SHIPPED else seconds_to_count(original, path)
    return {"end-to-end": counted, "shipped": shipped}


def seconds_to_count(name, path):
    start = time.perf_counter()
    WordCounts.from_mapping(STAGES[name](path))
    return time.perf_counter() - start
