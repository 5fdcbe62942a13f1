"""Write a file of the size and word profile of OpenWebText, for measuring without downloading it.

    python -m benchmarks.stages.web_text owt_sized.txt --bytes 11900000000

The words are drawn letter by letter from English
stories, joined, capitalized and numbered, with frequencies that fall as those of web text do. They
are in random order, with commas, full stops, line ends, and a `<|endoftext|>` after every 900
words (about five thousand bytes). The same seed gives the same file with the same NumPy.
"""

import argparse
from functools import cache

import numpy as np
from tqdm import tqdm

from benchmarks.corpora import EOT
from cs336_basics._support.files import atomic_writer
from cs336_basics.data.datasets import sample_documents

OWT_BYTES = 11_900_000_000
OWT_WORDS = 6_600_000
WORDS_PER_DOCUMENT = 900
BATCH = 900 * 2_000
LONGEST = 24


def web_words(num_words, seed=0):
    """Return distinct words, as rows of bytes padded with zeros, and their counts, descending.

    Their letters, lengths and counts resemble those of web text.

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
    return rows, counts


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


def word_table(num_words, seed):
    """Return the words as they stand in a text, the end of a document last, and summed counts."""
    words, counts = web_words(num_words, seed)
    rows = np.zeros((num_words + 1, LONGEST + 2), np.uint8)
    # A word without a leading space begins a line; otherwise it would join the word before.
    begins_line = words[:, 0] != ord(" ")
    rows[:-1, :LONGEST] = words
    rows[:-1][begins_line, 1 : LONGEST + 1] = words[begins_line]
    rows[:-1][begins_line, 0] = ord("\n")
    rows[-1, : len(EOT)] = np.frombuffer(EOT.encode(), np.uint8)
    return rows, np.cumsum(counts)


def batch_of_text(rng, rows, sums):
    """Return about ten million bytes of documents."""
    ids = np.searchsorted(sums, rng.integers(sums[-1], size=BATCH), side="right")
    ids[WORDS_PER_DOCUMENT - 1 :: WORDS_PER_DOCUMENT] = len(rows) - 1
    words = rows[ids]
    marks = rng.random(BATCH)
    words[:, -1] = np.where(marks < 0.06, ord(","), np.where(marks < 0.11, ord("."), 0))
    words[ids == len(rows) - 1, -1] = ord("\n")
    return words[words > 0]


def write_web_text(path, num_bytes=OWT_BYTES, num_words=OWT_WORDS, seed=0):
    rows, sums = word_table(num_words, seed)
    rng = np.random.default_rng(seed)
    written = 0
    with (
        atomic_writer(path) as file,
        tqdm(total=num_bytes, unit="B", unit_scale=True, disable=None) as bar,
    ):
        while written < num_bytes:
            text = batch_of_text(rng, rows, sums)[: num_bytes - written]
            file.write(text)
            written += len(text)
            bar.update(len(text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--bytes", type=int, default=OWT_BYTES)
    parser.add_argument("--words", type=int, default=OWT_WORDS, help="distinct words to draw from")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    write_web_text(options.output, options.bytes, options.words, options.seed)


if __name__ == "__main__":
    main()
