"""v5: falling thresholds, wide token ids, time slices and threads."""

import random
import signal
from collections import Counter

import numpy as np
import pytest

from cs336_basics import TRAINERS
from cs336_basics.bpe.recorder import Recorder
from cs336_basics.bpe.rules import Rules
from cs336_basics.counting import WordCounts
from tests.bpe.trainers import traced, train
from tests.errors import rejects
from tests.faults import alarm

if not TRAINERS["native"].is_built:
    pytest.skip("the native trainer is not built", allow_module_level=True)


def merges_of(name, word_counts, num_merges, **options):
    return train(name, word_counts, num_merges, **options)[1]


def zipf_counts(seed, num_words, letters, longest, exponent=1.2, scale=1.0):
    """Return distinct random words with counts that follow a power law."""
    rng = random.Random(seed)
    words = {
        "".join(rng.choices(letters, k=rng.randint(2, longest))).encode(): None
        for _ in range(num_words)
    }
    return {
        word: max(1, int(scale * num_words / (rank + 1) ** exponent))
        for rank, word in enumerate(words)
    }


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.2, 3.0])
@pytest.mark.parametrize("scale", [1.0, 1e9])
# Training until no pair is left lowers the threshold to 1. With few merges, it stays high, so most
# pairs are never stored.
@pytest.mark.parametrize(("num_words", "num_merges"), [(1500, 10**9), (20_000, 30)])
def test_falling_thresholds_equal_memoryview(exponent, scale, num_words, num_merges):
    counts = zipf_counts(7, num_words, "etaoinsh", 12, exponent, scale)
    assert merges_of("native", counts, num_merges) == merges_of("memoryview", counts, num_merges)


def test_more_than_65536_merges():
    letters = [chr(c) for c in range(33, 126)]
    counts = Counter(zipf_counts(9, 60_000, letters, 6, 0.3))
    merges = merges_of("native", counts, 80_000)
    assert len(merges) > 65_536
    assert merges == merges_of("memoryview", counts, 80_000)


HOSTILE = {
    "one letter": lambda n: {b"a" * n: 1},
    "ab": lambda n: {b"ab" * (n // 2): 1},
    "random letters": lambda n: {random.Random(1).randbytes(n).translate(LETTERS): 1},
    "two random letters": lambda n: {random.Random(2).randbytes(n).translate(TWO_LETTERS): 1},
    "many distinct words": lambda n: {b"%07d" % i: 1 for i in range(n // 10)},
    "all tied": lambda n: {bytes([i >> 8 & 255, i & 255]) * 2: 5 for i in range(min(n, 65_536))},
    "one heavy word": lambda n: {b"xy": 2**55} | {b"%07d" % i: 1 for i in range(n // 20)},
}
LETTERS = bytes(97 + i % 26 for i in range(256))
TWO_LETTERS = bytes(97 + i % 2 for i in range(256))


@pytest.mark.parametrize("size", [30_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", HOSTILE)
def test_hostile_input_equals_memoryview(shape, size):
    counts = HOSTILE[shape](size)
    assert merges_of("native", counts, 5000) == merges_of("memoryview", counts, 5000)


@pytest.mark.parametrize("longest", [0, 700_000])
def test_the_number_of_threads_changes_no_merge(longest):
    counts = {b"%x" % (i * 2_654_435_761 % 2**40): (i % 5) ** 6 for i in range(150_000)}
    if longest:  # one thread processes a very long word
        counts[random.Random(5).randbytes(longest).translate(LETTERS)] = 3
    merges = merges_of("memoryview", counts, 300)
    works = []
    for num_workers in (1, 2, 3, 64):
        found, trace = traced("native", counts, 300, num_workers=num_workers)
        assert found == merges
        works.append([(row.pair_count, row.work) for row in trace])
    assert works == [works[0]] * 4


@pytest.mark.parametrize("step_seconds", [0, 0.1])
def test_progress_and_interrupts_between_steps(step_seconds, monkeypatch):
    monkeypatch.setattr(TRAINERS["native"], "step_seconds", step_seconds)
    trainer, recorder, steps = TRAINERS["native"](), Recorder(), []
    recorder.advance = steps.append
    letters = random.Random(3).randbytes(30_000).translate(LETTERS)
    counts = WordCounts.from_mapping({letters: 1})
    merges, _ = trainer.learn_merges(counts, Rules(500), recorder)
    assert len(merges) == sum(steps) == 500
    # If step_seconds is 0, the loop returns after every merge and every time it indexes the pairs.
    if step_seconds == 0:
        assert set(steps) == {0, 1}

    def interrupt(num_merges):
        raise KeyboardInterrupt

    recorder.advance = interrupt
    with pytest.raises(KeyboardInterrupt):
        trainer.learn_merges(counts, Rules(500), recorder)


@pytest.mark.parametrize("seconds", [0.02, 0.3])
def test_an_exception_in_a_signal_handler_ends_the_merge_loop(seconds):
    # Setting up ten words of up to 3 MB takes longer than the shorter of the two timers.
    word = random.Random(4).randbytes(3_000_000).translate(LETTERS)
    counts = WordCounts.from_mapping({word[i:]: 1 for i in range(10)})
    with alarm(signal.default_int_handler, seconds), pytest.raises(KeyboardInterrupt):
        TRAINERS["native"]().learn_merges(counts, Rules(10**6), Recorder())


def test_words_of_4_gib_or_more_are_rejected():
    arrays = np.zeros(1, np.uint8), np.array([0, 2**32], np.int64), np.ones(1, np.int64)
    with rejects(None, "4 GiB"):
        TRAINERS["native"]().learn_merges(WordCounts.of_buffers(arrays), Rules(1), Recorder())


@pytest.mark.parametrize("name", ["memoryview", "native"])
def test_word_counts_are_used_without_an_object_per_word(name):
    counts = zipf_counts(10, 3000, "abcdef", 9)
    word_counts = WordCounts.from_mapping(counts)
    assert merges_of(name, word_counts, 100) == merges_of("heap", counts, 100)
    assert word_counts._dict is None
    assert merges_of(name, WordCounts.from_mapping({}), 5) == []
