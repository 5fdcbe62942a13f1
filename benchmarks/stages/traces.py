"""Draw docs/work_per_merge.svg, which shows how the work per merge falls during training.

    python -m benchmarks.stages.traces

Every stage learns the same merges from the same text and records a trace. The upper plot shows the
number of symbols that each merge reads, and the lower plot shows how long the merge takes. Each
point is the median over a group of consecutive merges.
"""

import itertools
import warnings

import numpy as np

from benchmarks.corpora import EOT, find_corpora
from benchmarks.machine import ROOT
from benchmarks.report import plots
from benchmarks.report.tables import text_name
from cs336_basics import TRAINERS
from cs336_basics.reports.charts import chart, line_color

PLOT = ROOT / "docs" / "work_per_merge.svg"
VOCAB_SIZE = 2_000
CORPUS_BYTES = 250_000
POINTS = 24


def main():
    corpus = find_corpora(CORPUS_BYTES)[-1]
    word_counts = dict(corpus.word_counts)
    traces = {}
    for name, trainer in TRAINERS.items():
        traces[name] = trace = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            trainer(trace=trace.append).train_from_counts(word_counts, VOCAB_SIZE, [EOT])
        print(f"{name}: {sum(merge.seconds for merge in trace):.3f} s", flush=True)
    pairs = {tuple((merge.left, merge.right) for merge in trace) for trace in traces.values()}
    if len(pairs) > 1:
        raise AssertionError("the stages learn different merges")
    draw(traces, corpus)


def draw(traces, corpus):
    reads, times = {}, {}
    for name, trace in traces.items():
        # The first and the last time also include the work before and after the merges.
        reads[name] = binned([merge.work.positions for merge in trace], 1)
        times[name] = binned([merge.seconds * 1e6 for merge in trace[1:-1]], 2)
    panels = []
    for what, lines in (("symbols read per merge", reads), ("microseconds per merge", times)):
        title = f"{text_name(corpus.name, corpus.num_bytes)}: {what}"
        svg = chart(lines, title=title, x="merge", y="", log="xy")
        # Stages that read as many symbols share a line. A dashed line keeps the line below it
        # visible.
        for index, name in enumerate(reads):
            if reads[name] in list(reads.values())[:index]:
                color = f'stroke="{line_color(index)}"'
                svg = svg.replace(color, f'{color} stroke-dasharray="9 6"')
        panels.append((title, svg))
    plots.save(panels, PLOT)


def binned(values, first):
    """Return a point for each bin, its middle and median. Bin sizes grow by a constant factor.

    Args:
        values: One value for each merge.
        first: Number of the first merge.
    """
    edges = np.unique(np.geomspace(first, first + len(values), POINTS).astype(int))
    return [
        (float(np.sqrt(start * (end - 1))), float(np.median(values[start - first : end - first])))
        for start, end in itertools.pairwise(edges)
    ]


if __name__ == "__main__":
    main()
