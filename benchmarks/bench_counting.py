"""The counting ladder: every local backend, with one worker and with one for each core."""

import pytest
from corpora import EOT

from cs336_basics.pretokenization import Splitter, count_words
from cs336_basics.pretokenization.parallel import resolve_num_workers

ALL_CORES = resolve_num_workers(None)
RUNGS = [("serial", 1), ("processes", ALL_CORES), ("native", 1), ("native", ALL_CORES)]


@pytest.mark.parametrize(("backend", "num_workers"), sorted(set(RUNGS), key=RUNGS.index))
def test_counting(benchmark, corpus, backend, num_workers):
    splitter = Splitter(special_tokens=[EOT])
    # Small chunks, so that even a small corpus has work for every process.
    chunk_size = None
    if backend != "native":
        chunk_size = max(1 << 16, corpus.num_bytes // (4 * num_workers))

    def count():
        return count_words(
            corpus.path, splitter, backend=backend, num_workers=num_workers, chunk_size=chunk_size
        )

    assert count() == corpus.word_counts

    benchmark.group = f"counting, {corpus}"
    benchmark.pedantic(count, rounds=3)
    benchmark.extra_info.update(
        bytes=corpus.num_bytes,
        unique_words=len(corpus.word_counts),
        megabytes_per_second=corpus.num_bytes / 1e6 / benchmark.stats.stats.median,
    )
