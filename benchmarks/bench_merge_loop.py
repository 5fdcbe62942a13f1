"""The merge loop alone: counted words in, merges out.

On real text at 32,000 tokens (if CS336_DATA has it), and on word counts of the size and profile
of OpenWebText. For hostile input see `hostile.py`.
"""

import tempfile
import time
import warnings
from functools import cache

import numpy as np
import pytest
from corpora import EOT, data_directory
from machine import peak_memory

from cs336_basics import TRAINERS
from cs336_basics.data.datasets import sample_documents
from cs336_basics.pretokenization import Splitter, count_words
from cs336_basics.pretokenization.counting.word_counts import WordCounts

VOCAB_SIZE = 32_000
CORPORA = ("blogs", "multi_zh_wiki", "multi_ja_aozora", "code_python", "tinystories_ru")
WEB_WORDS = 6_600_000
"""Distinct words of OpenWebText, 11.9 GB."""
LONGEST = 24

learned_by_memoryview = {}  # corpus -> merges

pytestmark = pytest.mark.filterwarnings("ignore:no pair was left")


def web_word_counts(num_words, seed=0):
    """Return distinct words whose letters, lengths and counts resemble those of web text.

    Letters follow each other as in the embedded sample (pairs of letters decide the next), so that
    there is something to merge; then there are capitals, numbers and joined words. Counts fall as
    Zipf's law says, 1 / rank, for ten thousand words, and faster after them, so that about half of
    the words occur once (Zipf 1949; the two regimes: Ferrer i Cancho and Sole 2001).
    """
    rng = np.random.default_rng(seed)
    hashes = np.zeros(0, np.uint64)
    rows = np.zeros((0, LONGEST), np.uint8)
    times = np.zeros(0, np.int64)
    while len(rows) < num_words:
        drawn = draw_words(rng, num_words)
        hashes = np.concatenate([hashes, hash_rows(drawn)])
        rows = np.concatenate([rows, drawn])
        times = np.concatenate([times, np.ones(len(drawn), np.int64)])
        hashes, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        rows = rows[first]
        times = np.bincount(inverse, times).astype(np.int64)
    # A word that was drawn more often is more frequent.
    rows = rows[np.argsort(-times, kind="stable")[:num_words]]
    ranks = np.arange(1, num_words + 1)
    zipf = 2e8 / (ranks + 2.7)
    tail = 2e4 * (1e4 / ranks) ** (np.log(2e4) / np.log(num_words / 2e4))
    counts = np.maximum(1, np.where(ranks < 1e4, zipf, tail)).astype(np.int64)
    order = rng.permutation(num_words)  # words come in the order of their first occurrence
    rows, counts = rows[order], counts[order]
    lengths = (rows > 0).sum(1)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return WordCounts(rows[rows > 0], offsets, counts)


@cache
def next_letters():
    """[letter before, letter, random byte] -> next letter; 1-26, and 0 for the edge of a word."""
    seen = np.zeros((27, 27, 27)) + 0.02
    documents = sample_documents(seed=0)
    for _, document in zip(range(300), documents, strict=False):
        for word in document.lower().split():
            if word.isascii() and word.isalpha():
                codes = [0, 0, *(ord(c) - 96 for c in word), 0]
                for triple in zip(codes, codes[1:], codes[2:], strict=False):
                    seen[triple] += 1
    seen[0, 0, 0] = 0
    shares = np.cumsum(seen, axis=2) / seen.sum(2, keepdims=True)
    random_bytes = (np.arange(256) + 0.5) / 256
    return (random_bytes[None, None, :, None] > shares[:, :, None, :]).sum(3).astype(np.uint8)


def draw_words(rng, number):
    table = next_letters()
    rows = np.zeros((number, LONGEST), np.uint8)
    rows[:, 0] = 32  # a space, as most words have
    before = np.zeros(number, np.uint8)
    letter = np.zeros(number, np.uint8)
    ended = np.zeros(number, bool)
    joined = rng.random(number) < 0.2  # two words in one, or a name, or an address
    for column in range(1, LONGEST):
        following = table[before, letter, rng.integers(0, 256, number, np.uint8)]
        again = (following == 0) & joined & ~ended
        following[again] = 5  # "e" glues
        joined &= ~again
        ended |= following == 0
        rows[:, column] = np.where(ended, 0, following + 96)
        before, letter = letter, following
    kind = rng.random(number)
    rows[kind < 0.25, 1] &= 0xDF  # Capitals
    shouting = kind < 0.06
    rows[shouting, 1:] &= 0xDF
    numbers = kind > 0.9
    digits = rng.integers(48, 58, (int(numbers.sum()), LONGEST - 1)).astype(np.uint8)
    rows[numbers, 1:] = np.where(rows[numbers, 1:] > 0, digits, 0)
    bare = rng.random(number) < 0.3  # no space before it
    rows[bare] = np.roll(rows[bare], -1, axis=1)
    rows[bare, -1] = 0
    return rows[(rows > 0).sum(1) > 1]


def hash_rows(rows):
    mixed = np.zeros(len(rows), np.uint64)
    for column in rows.view(np.uint64).T:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


@cache
def corpus_counts(name):
    path = data_directory() / f"{name}.txt"
    return dict(count_words(path, Splitter(special_tokens=[EOT]))) if path.exists() else None


def learn(benchmark, trainer, word_counts, vocab_size, rounds):
    learner = TRAINERS[trainer]()
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, merges = benchmark.pedantic(
            learner.train_from_counts, args=(word_counts, vocab_size, [EOT]), rounds=rounds
        )
    loop = sum(learner.timings[p] for p in ("counting pairs", "finding the maximum", "updating"))
    benchmark.extra_info.update(
        merges=len(merges),
        merge_loop_seconds=loop,
        processor_seconds=(time.process_time() - start) / rounds,
        timings=learner.timings,
    )
    return merges


@pytest.mark.slow
@pytest.mark.parametrize("text", CORPORA)
@pytest.mark.parametrize("trainer", ["memoryview", "native"])
def test_real_text(benchmark, trainer, text):
    word_counts = corpus_counts(text)
    if word_counts is None:
        pytest.skip(f"set CS336_DATA to a directory that holds {text}.txt")
    benchmark.group = f"merge loop, {text}, {VOCAB_SIZE:,} tokens"
    merges = learn(benchmark, trainer, word_counts, VOCAB_SIZE, 3 if trainer == "native" else 1)
    if trainer == "memoryview":
        learned_by_memoryview[text] = merges
    elif text not in learned_by_memoryview:
        memoryview = TRAINERS["memoryview"]()
        _, expected = memoryview.train_from_counts(word_counts, VOCAB_SIZE, [EOT])
        learned_by_memoryview[text] = expected
    # (Not the lists themselves: pytest would take hours to show the difference of long ones.)
    assert hash(tuple(merges)) == hash(tuple(learned_by_memoryview[text]))


@pytest.mark.slow
def test_web_sized(benchmark):
    counts = web_word_counts(WEB_WORDS)
    benchmark.group = f"merge loop, {WEB_WORDS:,} distinct words, {VOCAB_SIZE:,} tokens"
    learn(benchmark, "native", counts, VOCAB_SIZE, 1)
    arrays = counts.data.nbytes + counts.offsets.nbytes + counts.counts.nbytes
    benchmark.extra_info.update(word_arrays_bytes=arrays, peak_memory=web_sized_peak_memory(counts))


def web_sized_peak_memory(counts):
    """Peak memory of a process that reads the arrays and trains."""
    with tempfile.TemporaryDirectory() as directory:
        counts.save(f"{directory}/counts.npz")
        return peak_memory(
            "from cs336_basics import TRAINERS\n"
            "from cs336_basics.pretokenization.counting.word_counts import WordCounts\n"
            f"counts = WordCounts.load('{directory}/counts.npz')\n"
            f"TRAINERS['native']().train_from_counts(counts, {VOCAB_SIZE}, [{EOT!r}])"
        )
