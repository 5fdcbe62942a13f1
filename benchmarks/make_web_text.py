"""Write a file of the size and word profile of OpenWebText, for measuring without downloading it.

    python benchmarks/make_web_text.py owt_sized.txt --bytes 11900000000

The words are those of `bench_merge_loop.web_word_counts`: drawn letter by letter from English
stories, joined, capitalized and numbered, with frequencies that fall as those of web text do. They
are in random order, with commas, full stops, line ends, and a `<|endoftext|>` after every 900
words (about five thousand bytes). The same seed gives the same file with the same NumPy.
"""

import argparse

import numpy as np
from bench_merge_loop import LONGEST, web_word_counts
from corpora import EOT
from tqdm import tqdm

from cs336_basics._support.files import atomic_writer

OWT_BYTES = 11_900_000_000
OWT_WORDS = 6_600_000
WORDS_PER_DOCUMENT = 900
BATCH = 900 * 2_000


def word_table(num_words, seed):
    """Return the words as rows of bytes, padded with zeros, and their cumulative shares."""
    counts = web_word_counts(num_words, seed)
    lengths = np.diff(counts.offsets)
    rows = np.zeros((num_words + 1, LONGEST + 2), np.uint8)
    columns = np.arange(LONGEST + 2)
    # A word without a leading space begins a line; otherwise it would join the word before.
    begins_line = counts.data[counts.offsets[:-1]] != ord(" ")
    starts = begins_line.astype(np.int64)
    mask = (columns >= starts[:, None]) & (columns < (starts + lengths)[:, None])
    rows[:-1][mask] = counts.data
    rows[:-1, 0][begins_line] = ord("\n")
    rows[-1, : len(EOT)] = np.frombuffer(EOT.encode(), np.uint8)
    return rows, counts.counts


class AliasTable:
    """Draws from a distribution in constant time for each draw (Walker 1977, Vose 1991)."""

    def __init__(self, weights):
        number = len(weights)
        share = weights / weights.sum() * number
        self.keep = np.ones(number)
        self.other = np.arange(number)
        small = list(np.flatnonzero(share < 1))
        large = list(np.flatnonzero(share >= 1))
        while small and large:
            low, high = small.pop(), large[-1]
            self.keep[low], self.other[low] = share[low], high
            share[high] -= 1 - share[low]
            if share[high] < 1:
                small.append(large.pop())

    def draw(self, rng, number):
        index = rng.integers(0, len(self.keep), number)
        return np.where(rng.random(number) < self.keep[index], index, self.other[index])


def batch_of_text(rng, rows, table):
    """Return about ten million bytes of documents."""
    ids = table.draw(rng, BATCH)
    ids[WORDS_PER_DOCUMENT - 1 :: WORDS_PER_DOCUMENT] = len(rows) - 1
    words = rows[ids]
    marks = rng.random(BATCH)
    words[:, -1] = np.where(marks < 0.06, ord(","), np.where(marks < 0.11, ord("."), 0))
    words[ids == len(rows) - 1, -1] = ord("\n")
    return words[words > 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--bytes", type=int, default=OWT_BYTES)
    parser.add_argument("--words", type=int, default=OWT_WORDS, help="distinct words to draw from")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows, counts = word_table(options.words, options.seed)
    table = AliasTable(counts.astype(np.float64))
    rng = np.random.default_rng(options.seed)
    written = 0
    with (
        atomic_writer(options.output) as file,
        tqdm(total=options.bytes, unit="B", unit_scale=True, disable=None) as bar,
    ):
        while written < options.bytes:
            text = batch_of_text(rng, rows, table)[: options.bytes - written]
            file.write(text)
            written += len(text)
            bar.update(len(text))


if __name__ == "__main__":
    main()
