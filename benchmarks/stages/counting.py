"""The counting stages, and how long each trainer's counting takes. All return the same counts.

Each stage is a function that takes a path and returns the counts. It is named after the two options
of `count_words`, splitting and execution, or after the SIMD level at which one thread splits.
"""

import time
from functools import partial

from benchmarks.corpora import EOT, head_of
from benchmarks.machine import spawned
from cs336_basics.counting import count_words
from cs336_basics.counting._counting import count_files
from cs336_basics.counting.count_words import FILE_BLOCK_SIZE
from cs336_basics.counting.word_counts import WordCounts
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.splitting import Splitter
from cs336_basics.splitting._scanner import simd_levels

SPLITTER = Splitter(special_tokens=[EOT])
CORES = resolve_num_workers(None)


def by_options(splitting, execution, path):
    return count_words(path, SPLITTER, splitting=splitting, execution=execution)


def at_simd_level(level, path):
    """Count with compiled code in one thread, at one SIMD level."""
    size = path.stat().st_size
    buffers, _ = count_files(
        [path], [size], [EOT], "gpt2", 1, "replace", FILE_BLOCK_SIZE, simd_level=level
    )
    return WordCounts.of_buffers(buffers, "gpt2", [EOT])


STAGES = {
    "regex, serial": partial(by_options, "regex", "serial"),
    "regex, processes": partial(by_options, "regex", "processes"),
    "compiled, serial": partial(by_options, "compiled", "serial"),
    "compiled, processes": partial(by_options, "compiled", "processes"),
    **{f"compiled, 1 thread, {level}": partial(at_simd_level, level) for level in simd_levels()},
    "compiled, threads": partial(by_options, "compiled", "threads"),
}
"""Stage name -> function of a path, from the simplest to the fastest."""

SLOW = ("regex, serial", "regex, processes")
"""Stages that count only the first SLOW_BYTES bytes of a text."""

SLOW_BYTES = 100_000_000
"""The rate of `regex` hardly depends on the size."""

ORIGINAL = {
    "naive": "regex, serial",
    "incremental": "regex, processes",
    "heap": "regex, processes",
    "memoryview": "compiled, processes",
    "native": "compiled, threads",
}
"""Trainer stage -> the counting stage from the same period. Later stages count as SHIPPED."""

SHIPPED = "compiled, threads"
"""The default counting stage for every trainer."""


def counting_times(stage, path, rounds):
    """Return a trainer's counting times in each round, as dicts from a comparison to seconds.

    "end-to-end" counts as when the stage was new, "shipped" as all trainers do by default. Each
    round runs in a new process. A slow stage counts only the first part of the text; its time is
    scaled in proportion.
    """
    original = ORIGINAL.get(stage, SHIPPED)
    head = head_of(path, SLOW_BYTES) if original in SLOW else path
    scale = path.stat().st_size / head.stat().st_size
    found = [spawned(times_of_a_round, original, head) for _ in range(rounds)]
    return [{comparison: scale * seconds for comparison, seconds in r.items()} for r in found]


def warm_up(path):
    """Count the start of a text first, so that neither late imports nor new memory are timed."""
    for name in ("regex, serial", "compiled, serial", SHIPPED):
        STAGES[name](head_of(path, 1_000))


def times_of_a_round(original, path):
    warm_up(path)
    # The default comes first in every process, because a second count is faster.
    shipped = seconds_to_count(SHIPPED, path)
    counted = shipped if original == SHIPPED else seconds_to_count(original, path)
    return {"end-to-end": counted, "shipped": shipped}


def seconds_to_count(name, path):
    start = time.perf_counter()
    WordCounts.from_mapping(STAGES[name](path))
    return time.perf_counter() - start
