"""A sixth trainer is a class and an entry in TRAINERS: everything else follows."""

import re
from functools import partial
from itertools import pairwise

import pytest

from cs336_basics import TRAINERS, BPE_Trainer, train_bpe
from cs336_basics.bpe.explain import draw, explain
from cs336_basics.bpe.reference import merge_pair
from cs336_basics.bpe.trace import Work
from tests.bpe.test_base import check_against_the_specification
from tests.bpe.trainers import WORKED_EXAMPLE, WORKED_MERGES, traced

if not all(trainer.is_built for trainer in TRAINERS.values()):
    pytest.skip("the compiled trainers are not built", allow_module_level=True)

from benchmarks.corpora import find_corpora, sample_file
from benchmarks.report import plots
from benchmarks.report.measurements import Measurement
from benchmarks.stages import traces, trainer_run, training_rows
from cs336_basics.data.datasets import write_sample
from cs336_basics.playground.learning import race, stages, watch
from cs336_basics.reports.page import NUM_COLORS

pytestmark = pytest.mark.filterwarnings("ignore:no pair was left:UserWarning")


class SortingTrainer(BPE_Trainer):
    """Sorts all occurrences of pairs, and takes the longest run of equal pairs."""

    name = "sorting"

    def learn(self, words, counts, rules, step):
        ties = rules.ties()
        while True:
            with step("counting pairs"):
                found = sorted(
                    (pair, count)
                    for symbols, count in zip(words, counts, strict=True)
                    for pair in rules.pairs(symbols)
                )
            with step("finding the maximum"):
                sums = {}
                for pair, count in found:
                    sums[pair] = sums.get(pair, 0) + count
                best = max(sums, key=lambda pair: (sums[pair], ties.key(pair)), default=None)
            if best is None or sums[best] < rules.min_frequency:
                return
            if rules.refuse(best, sums[best]):
                continue
            with step("updating"):
                work = partial(Work.of, words, best, rules, pairs_searched=len(sums))
                words = [merge_pair(symbols, best) for symbols in words]
                ties.add(best)
            yield best, sums[best], work


@pytest.fixture(autouse=True)
def sixth(monkeypatch):
    monkeypatch.setitem(TRAINERS, SortingTrainer.name, SortingTrainer)


@pytest.mark.parametrize(
    "options",
    [{}, {"min_frequency": 3}, {"max_token_length": 3}, {"tie_break": "huggingface"}],
    ids=repr,
)
def test_it_learns_the_specified_merges(options, tmp_path):
    check_against_the_specification("sorting", WORKED_EXAMPLE, options, 9, None)
    check_against_the_specification("sorting", WORKED_EXAMPLE, options, 9, ({b"lowest": 2}, 3))
    path = tmp_path / "text.txt"
    path.write_text("low lower lowest " * 9)
    assert train_bpe(path, 262, [], trainer="sorting") == train_bpe(path, 262, [])


def test_it_is_explained_and_traced():
    words = [word for word, count in WORKED_EXAMPLE.items() for _ in range(count)]
    assert explain(words).endswith(f"\n\nsorting\n\n{draw('naive', WORKED_EXAMPLE, 2)}")
    merges, trace = traced("sorting", WORKED_EXAMPLE, 6)
    assert merges == [(row.left, row.right) for row in trace] == WORKED_MERGES[:6]
    assert all(a.work.positions > b.work.positions for a, b in pairwise(trace))
    assert all(row.seconds_finding > 0 for row in trace)


def test_it_runs_in_the_playground():
    rows = []
    race({"text": "low lower newest widest " * 50, "merges": 9, "seconds": 30}, rows.append)
    last = {row["stage"]: row for row in rows if row["ended"]}
    assert list(last) == [*stages()] == list(TRAINERS)
    assert last["sorting"]["same"]
    assert watch({"text": "low lower", "stage": "sorting", "step": 1})["work"]["positions"] > 0


def test_the_benchmark_has_its_rows(tmp_path):
    path = tmp_path / "text.txt"
    write_sample(path, 30_000)
    counts = trainer_run.words_of(path)
    targets = (40, 80)
    checkpoints, merges = trainer_run.learn("sorting", counts, targets, 1e9)
    answer = {"checkpoints": checkpoints, "words": len(counts), "peak_memory": 1, "merges": merges}
    training_rows.check("sorting", path, [answer])
    for target in targets:
        (row,) = training_rows.rows("sorting", "sample", path, [answer], target)
        assert (row.stage, row.work, row.is_extrapolated) == ("sorting", target, False)
    part, _ = trainer_run.learn("sorting", counts, (2000,), max_seconds=0.01)
    (row,) = training_rows.rows("sorting", "sample", path, [answer | {"checkpoints": part}], 2000)
    assert row.is_extrapolated


def colors_of(svg, attribute, element):
    """Return the colors of elements in order, after a check that the file defines all colors."""
    used, defined = re.findall(r"var\((--\w+)\)", svg), re.findall(r"(--\w+):", svg)
    assert set(used) <= set(defined)
    return re.findall(rf'<{element} [^>]*{attribute}="([^"]+)"', svg)


def test_the_plots_show_it_in_the_next_color(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "STAGES", tuple(TRAINERS))
    num_colors = min(len(TRAINERS), NUM_COLORS)
    rows = [
        Measurement("merging", "sample", 30_000, 10_000, stage, [10.0**-number], 9_743, "merges")
        for number, stage in enumerate(TRAINERS)
    ]
    assert plots.plot_all(rows, tmp_path) == ["merging.svg"]
    bars = colors_of((tmp_path / "merging.svg").read_text(), "fill", "rect")
    assert len(bars) == len(TRAINERS)
    assert len(set(bars)) == num_colors
    monkeypatch.setattr(traces, "PLOT", tmp_path / "traces.svg")
    (corpus,) = find_corpora(1_000, sample_file())
    traces.draw({stage: traced(stage, WORKED_EXAMPLE, 12)[1] for stage in TRAINERS}, corpus)
    lines = colors_of((tmp_path / "traces.svg").read_text(), "stroke", "polyline")
    assert len(set(lines)) == num_colors
