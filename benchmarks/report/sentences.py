"""Check figures and comparisons on the pages against the measurements.

    python -m benchmarks.report.sentences

This command prints the sentences that the measurements contradict.
"""

import re
from statistics import median

from benchmarks.machine import ROOT
from benchmarks.report import measurements

ROWS = measurements.read()
CORPORA = ("tinystories", "owt")
SIZES = (10_000, 32_000)


def row(comparison, corpus, stage, vocab_size=None):
    """Return a stage's row for the whole corpus."""
    found = [
        row
        for row in ROWS
        if (row.comparison, row.corpus, row.stage) == (comparison, corpus, stage)
        and (vocab_size is None or row.vocab_size == vocab_size)
    ]
    return max(found, key=lambda row: row.bytes)


def gains(comparison, stage, than, corpora=CORPORA, vocab_sizes=(None,)):
    """Return how many times as fast one stage is as another, for each text and vocabulary."""
    return [
        measurements.faster(
            row(comparison, corpus, stage, size), row(comparison, corpus, than, size)
        )
        for corpus in corpora
        for size in vocab_sizes
    ]


def shares(stage, phase):
    """Return a phase's share of the merge loop, for each text and vocabulary."""
    found = []
    for corpus in CORPORA:
        for size in SIZES:
            phases = row("merging", corpus, stage, size).phases
            seconds = {name: median(values) for name, values in phases.items()}
            found.append(seconds[phase] / sum(seconds.values()))
    return found


def about(number, values, tolerance=0.1):
    """Return whether a number is within `tolerance`, a fraction, of one of the values."""
    number = float(str(number).replace(",", ""))
    return any(abs(number - value) <= tolerance * value for value in values)


def between(low, high, values):
    """Return whether two rounded numbers are close to the minimum and maximum of the values."""
    return about(low, [min(values)], 0.25) and about(high, [max(values)], 0.25)


def milliseconds(comparison, corpus, stage, vocab_size=None):
    return [1e3 * row(comparison, corpus, stage, vocab_size).median]


# Page, a sentence as a regular expression, and a condition on its groups.
SENTENCES = [
    (
        "stages.md",
        r"until `max` takes nearly all of the time",
        lambda: min(shares("incremental", "finding the maximum")) > 0.9,
    ),
    (
        "stages.md",
        r"Compiling `heap` as it is\*\* gains (\d+) to (\d+) %",
        lambda low, high: between(
            1 + int(low) / 100, 1 + int(high) / 100, gains("ablations", "heap, compiled", "heap")
        ),
    ),
    (
        "stages.md",
        r"Types and C\+\+ containers\*\* make `heap` (\d+) to (\d+) times as fast",
        lambda low, high: between(low, high, gains("ablations", "heap, typed", "heap, compiled")),
    ),
    (
        "stages.md",
        r"Flat arrays\*\* gain another factor of (\d+) to (\d+)",
        lambda low, high: between(
            low, high, gains("ablations", "memoryview, words rescanned", "heap, typed")
        ),
    ),
    (
        "stages.md",
        r"a factor of ([\d.]+) to ([\d.]+) on ordinary text, and (\d+) on a text of one word",
        lambda low, high, one: (
            between(low, high, gains("ablations", "memoryview", "memoryview, words rescanned"))
            and about(
                one,
                gains("ablations", "memoryview", "memoryview, words rescanned", ["one word"]),
            )
        ),
    ),
    (
        "stages.md",
        r"order of words\*\* together gain a factor of ([\d.]+) to ([\d.]+)",
        lambda low, high: between(low, high, gains("ablations", "native", "memoryview")),
    ),
    (
        "stages.md",
        r"these steps take ([\d.]+) seconds for the 10\.7 MB of TinyStories, (\d+) times as",
        lambda seconds, times: (
            about(seconds, [row("counting", "tinystories", "regex").median])
            and about(
                times,
                [
                    row("counting", "tinystories", "regex").median
                    / row("merging", "tinystories", "native", 10_000).median
                ],
                0.25,
            )
        ),
    ),
    (
        "stages.md",
        r"from ([\d.]+) MB/s on one core to ([\d,]+) MB/s on two\.",
        lambda low, high: (
            about(low, [row("counting", "tinystories", "regex").rate])
            and about(high, [row("counting", "tinystories", "native, threads").rate])
        ),
    ),
    (
        "stages.md",
        r"from ([\d.]+) MB/s to over ([\d,]+) MB/s\. \[Counting",
        lambda low, high: (
            about(low, [row("encoding", "tinystories", "every merge", 10_000).rate], 0.25)
            and about(high, [row("encoding", "tinystories", "compiled", 10_000).rate])
        ),
    ),
    (
        "counting-and-encoding.md",
        r"`native` takes about (\d+) ms to count and (\d+) ms to merge\.",
        lambda count, merge: (
            about(
                count,
                [
                    1e3
                    * median(
                        row("end-to-end", "tinystories", "native", 10_000).phases[
                            "reading and counting"
                        ]
                    )
                ],
            )
            and about(merge, milliseconds("merging", "tinystories", "native", 10_000))
        ),
    ),
    (
        "profiling.md",
        r"Updates take most of the time",
        lambda: min(shares("heap", "updating")) > 0.5,
    ),
    (
        "benchmarks.md",
        r"\*\*Flat arrays\*\* gain more than types do",
        lambda: (
            min(gains("ablations", "memoryview, words rescanned", "heap, typed"))
            > max(gains("ablations", "heap, typed", "heap, compiled"))
        ),
    ),
    (
        "benchmarks.md",
        r"prefetching\*\* gain between nothing and a factor of ([\d.]+) here",
        lambda most: about(
            most,
            [
                max(
                    gain
                    for stage, than in (
                        ("native, threshold", "native, nothing else"),
                        ("native, threshold, sorted words", "native, threshold"),
                        ("native", "native, threshold, sorted words"),
                    )
                    for gain in gains("ablations", stage, than)
                )
            ],
        ),
    ),
]


def contradictions():
    """Return a line for each sentence that is missing or that the measurements contradict."""
    found = []
    for page, sentence, is_true in SENTENCES:
        text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
        match = re.search(sentence, text)
        if not match:
            found.append(f"docs/{page} has no sentence {sentence!r}: correct it in sentences.py")
        elif not is_true(*match.groups()):
            found.append(f"docs/{page}: the measurements contradict {match[0]!r}")
    return found


if __name__ == "__main__":
    print("\n".join(contradictions()) or f"{len(SENTENCES)} sentences agree")
