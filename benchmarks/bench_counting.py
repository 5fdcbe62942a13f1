"""The counting ladder: one process, then one for each core; the same counts either way."""

import pytest
from corpora import EOT

from cs336_basics.pretokenization import Splitter, count_words
from cs336_basics.pretokenization.parallel import resolve_num_workers


@pytest.mark.parametrize("num_workers", sorted({1, 2, resolve_num_workers(None)}))
def test_counting(benchmark, corpus, num_workers):
    # Small chunks, so that even a small corpus has work for every process.
    chunk_size = max(1 << 16, corpus.num_bytes // (4 * num_workers))

    splitter = Splitter(special_tokens=[EOT])

    def count():
        return count_words(corpus.path, splitter, num_workers=num_workers, chunk_size=chunk_size)

    assert count() == corpus.word_counts

    benchmark.group = f"counting, {corpus}"
    benchmark.pedantic(count, rounds=3)
    benchmark.extra_info.update(
        bytes=corpus.num_bytes,
        unique_words=len(corpus.word_counts),
        megabytes_per_second=corpus.num_bytes / 1e6 / benchmark.stats.stats.median,
    )
