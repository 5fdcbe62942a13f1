"""The counting stages. All return the same counts.

Each stage is a function that takes a path and returns the counts. It uses one backend of
`count_words`, with one or several workers or at one SIMD level.
"""

from functools import partial

from benchmarks.corpora import EOT
from cs336_basics.pretokenization import Splitter, count_words
from cs336_basics.pretokenization._scanner import simd_levels
from cs336_basics.pretokenization.counting._counting import count_files
from cs336_basics.pretokenization.counting.count_words import DEFAULT_BLOCK_SIZE
from cs336_basics.pretokenization.counting.parallel import resolve_num_workers
from cs336_basics.pretokenization.counting.word_counts import WordCounts

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
"""Stages in Python, which count only the first part of a large text."""
