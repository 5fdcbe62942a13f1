"""Trainers x corpora: the merge loop alone, and training from the file to the vocabulary.

Every result is compared with the reference before it is timed: with as many merges as `naive`
learns in a few seconds, and with as many as `incremental` does.
"""

import time
import warnings
from functools import cache

import pytest
from corpora import EOT
from machine import peak_memory

from cs336_basics import TRAINERS

VOCAB_SIZES = (1_000, 10_000)

pytestmark = pytest.mark.filterwarnings("ignore:no pair was left")


def learn_merges(trainer, corpus, num_merges):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = TRAINERS[trainer]()
        return learner.train_from_counts(corpus.word_counts, 257 + num_merges, [EOT])[1]


merges_of = cache(learn_merges)


@cache
def seconds_per_merge(trainer, corpus):
    """Return the seconds per merge, measured on as many of the first merges as outweigh noise.

    Later merges are cheaper, because their pairs are rarer: for them this is an upper bound.
    """

    def seconds(num_merges):
        start = time.perf_counter()
        learn_merges(trainer, corpus, num_merges)
        return time.perf_counter() - start

    corpus.word_counts  # noqa: B018 - counted on demand; this must not be timed
    done, before = 0, seconds(0)
    for num_merges in (12, 100, 1_000, 10_000):
        after = seconds(num_merges)
        per_merge = max(after - before, 0.0) / (num_merges - done)
        if after > 0.3:
            break
        done, before = num_merges, after
    return per_merge


def predicted_seconds(trainer, corpus, vocab_size):
    return seconds_per_merge(trainer, corpus) * (vocab_size - 257)


def skip_if_too_slow(trainer, corpus, vocab_size, max_seconds):
    seconds = predicted_seconds(trainer, corpus, vocab_size)
    if seconds > max_seconds:
        pytest.skip(
            f"{trainer} would need about {seconds:,.0f} s for {vocab_size:,} tokens of {corpus}, "
            f"more than --max-seconds {max_seconds:g}"
        )


def check(trainer, merges, corpus, vocab_size, max_seconds):
    """Compare merges with those of slower trainers, as many as they learn in the time given."""
    for reference in ("naive", "incremental"):
        if reference == trainer:
            continue
        per_merge = max(seconds_per_merge(reference, corpus), 1e-3)
        number = min(vocab_size - 257, int(max_seconds / 5 / per_merge))
        expected = merges_of(reference, corpus, number)
        assert merges[: len(expected)] == expected, f"{trainer} differs from {reference}"


@pytest.mark.parametrize("vocab_size", VOCAB_SIZES)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_merge_loop(benchmark, corpus, trainer, vocab_size, max_seconds):
    skip_if_too_slow(trainer, corpus, vocab_size, max_seconds)
    word_counts = corpus.word_counts
    check(trainer, merges_of(trainer, corpus, vocab_size - 257), corpus, vocab_size, max_seconds)

    learner = TRAINERS[trainer]()
    benchmark.group = f"merge loop, {corpus}, {vocab_size:,} tokens"
    slow = predicted_seconds(trainer, corpus, vocab_size) > 1
    _, merges = benchmark.pedantic(
        learner.train_from_counts,
        args=(word_counts, vocab_size, [EOT]),
        rounds=1 if slow else 5,
    )
    benchmark.extra_info.update(
        bytes=corpus.num_bytes,
        unique_words=len(word_counts),
        merges=len(merges),
        merges_per_second=len(merges) / benchmark.stats.stats.median,
        timings=learner.timings,
    )


@pytest.mark.parametrize("vocab_size", VOCAB_SIZES)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_end_to_end(benchmark, corpus, trainer, vocab_size, max_seconds):
    skip_if_too_slow(trainer, corpus, vocab_size, max_seconds)
    learner = TRAINERS[trainer]()
    _, merges = learner.train(corpus.path, vocab_size, [EOT])
    check(trainer, merges, corpus, vocab_size, max_seconds)

    benchmark.group = f"end to end, {corpus}, {vocab_size:,} tokens"
    slow = predicted_seconds(trainer, corpus, vocab_size) > 1
    benchmark.pedantic(
        learner.train, args=(corpus.path, vocab_size, [EOT]), rounds=1 if slow else 3
    )
    seconds = benchmark.stats.stats.median
    benchmark.extra_info.update(
        bytes=corpus.num_bytes,
        unique_words=len(corpus.word_counts),
        megabytes_per_second=corpus.num_bytes / 1e6 / seconds,
        timings=learner.timings,
    )
    if not slow:
        benchmark.extra_info["peak_memory"] = peak_memory(
            "import warnings; warnings.simplefilter('ignore')\n"
            "from cs336_basics import train_bpe\n"
            f"train_bpe({str(corpus.path)!r}, {vocab_size}, [{EOT!r}], trainer={trainer!r})"
        )
