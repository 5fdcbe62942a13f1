"""Write text with the size and word distribution of a corpus, without downloading the corpus.

    python -m benchmarks.stages.generated_text owt_sized.txt
    python -m benchmarks.stages.generated_text tinystories_sized.txt --like tinystories

Words are drawn letter by letter and resemble the words of English stories. For web text, some are
joined, capitalized or replaced by numbers. The word counts are distributed as in the corpus. The
words are in random order, with commas, full stops and line endings, and `<|endoftext|>` after every
document. With the same version of NumPy, the same options give the same file.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmarks.corpora import EOT
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.progress import byte_bar
from cs336_basics.data.datasets import sample_documents

BATCH = 900 * 2_000
LONGEST = 24


def web_counts(num_words):
    """Return descending counts, distributed as in web text.

    They follow Zipf's law, 1 / rank, for the first ten thousand words, then fall faster, so that
    about half of the words occur once (Zipf 1949; Ferrer i Cancho and Sole 2001 for the two
    regimes).
    """
    ranks = np.arange(1, num_words + 1)
    zipf = 2e8 / (ranks + 2.7)
    tail = 2e4 * (1e4 / ranks) ** (np.log(2e4) / np.log(num_words / 2e4))
    return np.where(ranks < 1e4, zipf, tail)


def story_counts(num_words):
    """Return descending counts, distributed as in TinyStories.

    The logarithm of a word's share is interpolated between the ranks below. The shares come from
    10.7 MB of TinyStories. The last word occurs once.
    """
    ranks = (1, 10, 100, 1_000, 3_000, 10_000, num_words)
    shares = (0.077, 0.0092, 0.0016, 7.4e-5, 1.2e-5, 4e-7, 2e-9)
    every = np.arange(1, num_words + 1)
    return np.exp(np.interp(np.log(every), np.log(ranks), np.log(shares))) / shares[-1]


@dataclass(frozen=True)
class Profile:
    """The size of a corpus and the distribution of its words."""

    num_bytes: int
    num_words: int  # distinct
    words_per_document: int
    counts: Callable
    joined: float  # share of the words that consist of two words, such as names or addresses
    capitals: float
    shouting: float  # share of the words that are all capitals
    numbers: float
    bare: float  # share of the words without a space before them


PROFILES = {
    "owt": Profile(11_900_000_000, 6_600_000, 900, web_counts, 0.2, 0.25, 0.06, 0.1, 0.3),
    # In the 10.7 MB sample, the number of distinct words grows as the text size to the power 0.31.
    "tinystories": Profile(2_230_000_000, 60_000, 170, story_counts, 0, 0.2, 0.01, 0.005, 0.05),
}


def drawn_words(profile):
    """Return distinct words as rows of bytes padded with zeros, and their descending counts.

    Each letter depends on the two letters before it, as in the embedded sample, so that some pairs
    are frequent.
    """
    num_words = profile.num_words
    rng = np.random.default_rng(0)
    hashes = np.zeros(0, np.uint64)
    rows = np.zeros((0, LONGEST), np.uint8)
    times = np.zeros(0, np.int64)
    while len(rows) < num_words:
        drawn = draw_words(rng, num_words, profile)
        hashes = np.concatenate([hashes, hash_rows(drawn)])
        rows = np.concatenate([rows, drawn])
        times = np.concatenate([times, np.ones(len(drawn), np.int64)])
        hashes, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        rows = rows[first]
        times = np.bincount(inverse, times).astype(np.int64)
    # The more often a word was drawn, the higher its count.
    rows = rows[np.argsort(-times, kind="stable")[:num_words]]
    return rows, np.maximum(1, profile.counts(num_words)).astype(np.int64)


@cache
def next_letters():
    """Return a table: [previous letter, letter, random byte] -> next letter, or 0 to end a word."""
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


def draw_words(rng, number, profile):
    table = next_letters()
    rows = np.zeros((number, LONGEST), np.uint8)
    rows[:, 0] = 32  # most words start with a space
    before = np.zeros(number, np.uint8)
    letter = np.zeros(number, np.uint8)
    ended = np.zeros(number, bool)
    joined = rng.random(number) < profile.joined
    for column in range(1, LONGEST):
        following = table[before, letter, rng.integers(0, 256, number, np.uint8)]
        again = (following == 0) & joined & ~ended
        following[again] = 5  # an "e" joins the words
        joined &= ~again
        ended |= following == 0
        rows[:, column] = np.where(ended, 0, following + 96)
        before, letter = letter, following
    kind = rng.random(number)
    rows[kind < profile.capitals, 1] &= 0xDF
    shouting = kind < profile.shouting
    rows[shouting, 1:] &= 0xDF
    numbers = kind > 1 - profile.numbers
    digits = rng.integers(48, 58, (int(numbers.sum()), LONGEST - 1)).astype(np.uint8)
    rows[numbers, 1:] = np.where(rows[numbers, 1:] > 0, digits, 0)
    bare = rng.random(number) < profile.bare
    rows[bare] = np.roll(rows[bare], -1, axis=1)
    rows[bare, -1] = 0
    return rows[(rows > 0).sum(1) > 1]


def hash_rows(rows):
    mixed = np.zeros(len(rows), np.uint64)
    for column in rows.view(np.uint64).T:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def word_table(profile):
    """Return the words as written, with the document separator last, and cumulative counts."""
    words, counts = drawn_words(profile)
    rows = np.zeros((len(words) + 1, LONGEST + 2), np.uint8)
    # Words without a leading space start a line, so that they do not join the previous word.
    begins_line = words[:, 0] != ord(" ")
    rows[:-1, :LONGEST] = words
    rows[:-1][begins_line, 1 : LONGEST + 1] = words[begins_line]
    rows[:-1][begins_line, 0] = ord("\n")
    rows[-1, : len(EOT)] = np.frombuffer(EOT.encode(), np.uint8)
    return rows, np.cumsum(counts)


def batch_of_text(rng, rows, sums, words_per_document):
    """Return about ten million bytes of documents."""
    ids = np.searchsorted(sums, rng.integers(sums[-1], size=BATCH), side="right")
    ids[words_per_document - 1 :: words_per_document] = len(rows) - 1
    words = rows[ids]
    marks = rng.random(BATCH)
    words[:, -1] = np.where(marks < 0.06, ord(","), np.where(marks < 0.11, ord("."), 0))
    words[ids == len(rows) - 1, -1] = ord("\n")
    return words[words > 0]


def write_text(path, profile):
    """Write a file of `profile.num_bytes` bytes."""
    rows, sums = word_table(profile)
    rng = np.random.default_rng(0)
    left = profile.num_bytes
    with atomic_writer(path) as file, byte_bar(True, left, "writing") as bar:
        while left:
            text = batch_of_text(rng, rows, sums, profile.words_per_document)[:left]
            file.write(text)
            left -= len(text)
            bar.update(len(text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--like", choices=PROFILES, default="owt")
    parser.add_argument("--bytes", type=int, help="default: the size of the corpus")
    parser.add_argument("--words", type=int, help="distinct words (default: as in the corpus)")
    options = parser.parse_args()
    profile = PROFILES[options.like]
    profile = replace(
        profile,
        num_bytes=options.bytes or profile.num_bytes,
        num_words=options.words or profile.num_words,
    )
    write_text(options.output, profile)


if __name__ == "__main__":
    main()
