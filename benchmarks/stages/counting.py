"""Stages of counting: the same words, counted by one idea after the other.

Every stage is a function of a path that returns the counts. The first two use the split pattern as
it is written, with the `regex` module; the others are the backends of `count_words`.
"""

from collections import Counter
from functools import partial

from benchmarks.corpora import EOT
from cs336_basics.pretokenization import Corpus, Splitter, count_words
from cs336_basics.pretokenization._scanner import simd_levels
from cs336_basics.pretokenization.counting._counting import count_files
from cs336_basics.pretokenization.counting.count_words import DEFAULT_BLOCK_SIZE, PLAIN_CHUNK_SIZE
from cs336_basics.pretokenization.counting.parallel import map_ordered, resolve_num_workers
from cs336_basics.pretokenization.counting.word_counts import WordCounts
from cs336_basics.pretokenization.reading.readers import texts_of_chunk
from cs336_basics.pretokenization.reference import pretokenize

SPLITTER = Splitter(special_tokens=[EOT])
CORES = resolve_num_workers(None)


def count_chunk_by_regex(chunk):
    counts = Counter()
    for _, text, _ in texts_of_chunk(chunk, SPLITTER.safe_cuts):
        for document in text.decode().split(EOT):
            counts.update(pretokenize(document))
    return Counter({word.encode(): count for word, count in counts.items()})


def by_regex(path, num_workers=1):
    """Count with the `regex` module, chunk by chunk; in worker processes if there are several."""
    chunks = Corpus(path).chunks(chunk_size_for(path, num_workers))
    total = Counter()
    for counts in map_ordered(count_chunk_by_regex, zip(chunks), num_workers):
        total.update(counts)
    return total


def by_backend(backend, num_workers, path):
    size = None if backend == "native" else chunk_size_for(path, num_workers)
    return count_words(path, SPLITTER, backend=backend, num_workers=num_workers, chunk_size=size)


def at_simd_level(level, path):
    """Count natively in one thread, at one SIMD level."""
    size = path.stat().st_size
    buffers = count_files(
        [path], [size], [EOT], "gpt2", 1, "replace", DEFAULT_BLOCK_SIZE, simd_level=level
    )
    return WordCounts.of_buffers(buffers, "gpt2", [EOT])


def chunk_size_for(path, num_workers):
    """Return a chunk size that gives every process work, even of a small text."""
    return min(PLAIN_CHUNK_SIZE, max(1 << 16, path.stat().st_size // (4 * num_workers)))


STAGES = {
    "regex": by_regex,
    "regex, processes": partial(by_regex, num_workers=CORES),
    "serial": partial(by_backend, "serial", 1),
    "processes": partial(by_backend, "processes", CORES),
    **{f"native, 1 thread, {level}": partial(at_simd_level, level) for level in simd_levels()},
    "native, threads": partial(by_backend, "native", CORES),
}
"""Name -> function of a path, from the simplest to the fastest."""

SLOW = ("regex", "regex, processes", "serial", "processes")
"""Stages in Python: of a text of gigabytes, they count only the beginning."""
