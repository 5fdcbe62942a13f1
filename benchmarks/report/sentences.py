"""Check figures and comparisons on the pages against the measurements.

`tests/benchmarks/test_sentences.py` fails if the measurements contradict a sentence.
"""

import itertools
import math
import re
from statistics import median

from benchmarks.machine import PAGES
from benchmarks.report import measurements
from benchmarks.report.tables import WHOLE_SIZES

ROWS = measurements.read()
CORPORA = ("tinystories", "owt")
TOLERANCE = 0.15
"""The largest relative difference between a rounded figure and its measurement."""


def row(comparison, stage, corpus="tinystories", vocab_size=None):
    """Return a stage's row for the whole corpus."""
    found = [
        row
        for row in ROWS
        if (row.comparison, row.corpus, row.stage) == (comparison, corpus, stage)
        and (vocab_size is None or row.vocab_size == vocab_size)
    ]
    return max(found, key=lambda row: row.bytes)


def gains(stage, than, corpora=CORPORA):
    """Return how many times as fast one variant is as another, for each text, slowest first."""
    rows = [[row("ablations", name, corpus) for name in (stage, than)] for corpus in corpora]
    return sorted(measurements.faster(*pair) for pair in rows)


def shares(stage, phase):
    """Return a phase's share of the merge loop, for each text and vocabulary."""
    found = []
    for corpus, size in itertools.product(CORPORA, WHOLE_SIZES):
        phases = row("merging", stage, corpus, size).phases
        seconds = {name: median(values) for name, values in phases.items()}
        found.append(seconds[phase] / sum(seconds.values()))
    return found


def parts_of_native():
    """Return the gains from the threshold, the order of words and prefetching."""
    names = ("native, nothing else", "native, threshold", "native, threshold, sorted words")
    return [gain for than, name in zip(names, (*names[1:], "native"), strict=True)
            for gain in gains(name, than)]  # fmt: skip


def counted_and_merged():
    """Return how many milliseconds `native` takes to count and merge TinyStories."""
    counting = row("end-to-end", "native", vocab_size=10_000).phases["reading and counting"]
    return 1e3 * median(counting), 1e3 * row("merging", "native", vocab_size=10_000).median


# A sentence as a regular expression, and the measured values of its groups. For a sentence without
# figures, the value tells whether it is true.
SENTENCES = {
    r"until `max` takes nearly all of the time": lambda: (
        min(shares("incremental", "finding the maximum")) > 0.9
    ),
    r"Compiling `heap` as it is\*\* gains (\d+) to (\d+) %": lambda: [
        100 * (gain - 1) for gain in gains("heap, compiled", "heap")
    ],
    r"Types and C\+\+ containers\*\* make `heap` (\d+) to (\d+) times as fast": lambda: gains(
        "heap, typed", "heap, compiled"
    ),
    r"Flat arrays\*\* gain another factor of (\d+) to (\d+)": lambda: gains(
        "memoryview, words rescanned", "heap, typed"
    ),
    r"a factor of ([\d.]+) to ([\d.]+) on ordinary text, and (\d+) on a text of one word": lambda: (
        gains("memoryview", "memoryview, words rescanned", [*CORPORA, "one word"])
    ),
    r"order of words\*\* together gain a factor of ([\d.]+) to (\d+)\.": lambda: gains(
        "native", "memoryview"
    ),
    r"these steps take ([\d.]+) seconds for the 10\.7 MB of TinyStories, (\d+) times as": lambda: [
        row("counting", "regex, serial").median,
        row("counting", "regex, serial").median
        / row("merging", "native", vocab_size=10_000).median,
    ],
    r"from ([\d.]+) MB/s on one core to ([\d,]+) MB/s on two\.": lambda: [
        row("counting", stage).rate for stage in ("regex, serial", "compiled, threads")
    ],
    r"from ([\d.]+) MB/s to over ([\d,]+) MB/s\. \[Counting": lambda: [
        row("encoding", stage, vocab_size=10_000).rate for stage in ("every merge", "compiled")
    ],
    r"`native` takes about (\d+) ms to count and (\d+) ms to merge\.": counted_and_merged,
    r"Updates take most of the time": lambda: min(shares("heap", "updating")) > 0.5,
    r"\*\*Flat arrays\*\* gain more than types do": lambda: (
        gains("memoryview, words rescanned", "heap, typed")[0]
        > gains("heap, typed", "heap, compiled")[-1]
    ),
    r"prefetching\*\* gain between nothing and a factor of ([\d.]+) here": lambda: [
        max(parts_of_native())
    ],
}


def contradictions():
    """Return a line for each sentence that is missing or that the measurements contradict."""
    pages = " ".join(" ".join(path.read_text(encoding="utf-8").split()) for path in PAGES)
    found = []
    for sentence, measured in SENTENCES.items():
        match = re.search(sentence, pages)
        if not match:
            found.append(f"no page has a sentence {sentence!r}: correct it in sentences.py")
        elif not agree([float(group.replace(",", "")) for group in match.groups()], measured()):
            found.append(f"the measurements contradict {match[0]!r}")
    return found


def agree(figures, measured):
    """Return whether the figures in a sentence are close to the measured values."""
    if isinstance(measured, bool):
        return measured
    pairs = zip(figures, measured, strict=True)
    return all(math.isclose(*pair, rel_tol=TOLERANCE) for pair in pairs)
