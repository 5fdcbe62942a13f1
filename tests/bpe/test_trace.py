"""Traces: the same columns from every trainer, equal to the result, and what each stage reads."""

import ast
import csv
import warnings
from itertools import pairwise

import pytest

from cs336_basics import TRAINERS, train_bpe
from cs336_basics.bpe.trace import COLUMNS, MergeTrace, Work, trace_file
from cs336_basics.pretokenization import count_text
from tests.texts import long_text

WORKED_EXAMPLE = {b"low": 5, b"lower": 2, b"widest": 3, b"newest": 6}

every_trainer = pytest.mark.parametrize("name", TRAINERS)


def traced(name, word_counts, num_merges, **options):
    """Return the merges of a training, its trace, and its timings."""
    trace = []
    trainer = TRAINERS[name](trace=trace.append, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no pair was left")
        merges = trainer.train_from_counts(word_counts, 256 + num_merges)[1]
    return merges, trace, trainer.timings


def counted_from_scratch(word_counts, merges):
    """Return for each merge the count of its pair and its occurrences in the distinct words."""
    words = [([bytes([byte]) for byte in word], count) for word, count in word_counts.items()]
    found = []
    for left, right in merges:
        occurrences = 0
        count_of_pair = sum(
            count * (symbols[i : i + 2] == [left, right])
            for symbols, count in words
            for i in range(len(symbols) - 1)
        )
        for symbols, _ in words:
            i = 0
            while i < len(symbols) - 1:
                if symbols[i : i + 2] == [left, right]:
                    symbols[i : i + 2] = [left + right]
                    occurrences += 1
                i += 1
        found.append((count_of_pair, occurrences))
    return found


@pytest.fixture(scope="module")
def words():
    return count_text(long_text(7, 6_000))


@every_trainer
def test_the_trace_of_the_example_of_the_course(name):
    merges, trace, _ = traced(name, WORKED_EXAMPLE, 4)
    assert [(t.merge, t.left, t.right, t.pair_count) for t in trace] == [
        (0, b"s", b"t", 9),
        (1, b"e", b"st", 9),
        (2, b"o", b"w", 7),
        (3, b"l", b"ow", 7),
    ]
    assert [t.work.occurrences for t in trace] == [2, 2, 2, 2]
    assert [(t.left, t.right) for t in trace] == merges


# What the third merge, of "o" and "w", reads and changes: it is in "low" and "lower".
EXPECTED = {
    # All 4 words, of 3 + 5 + 4 + 4 symbols with 12 pairs, of which 10 are different.
    "naive": Work(2, 4, 16, 10, 12, 0),
    # The 2 words, of 8 symbols: 6 pairs are removed, 4 added.
    "incremental": Work(2, 2, 8, 10, 10, 0),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_work_of_a_merge_of_the_example(name):
    assert traced(name, WORKED_EXAMPLE, 3)[1][2].work == EXPECTED[name]


def test_the_heap_pops_stale_entries_and_pushes_new_pairs():
    work = [t.work for t in traced("heap", WORKED_EXAMPLE, 3)[1]]
    incremental = [t.work for t in traced("incremental", WORKED_EXAMPLE, 3)[1]]
    assert [w._replace(heap_entries=0) for w in work] == [
        w._replace(pairs_searched=0) for w in incremental
    ]
    # (s, t) is on top, and makes (e, st); this one makes (w, est) and (d, est). Then (e, s) and
    # (w, e) are popped with the counts that they had, and (o, w) makes (l, ow) and (ow, e).
    assert [w.heap_entries for w in work] == [1 + 1, 1 + 2, 3 + 2]


@every_trainer
def test_the_trace_equals_the_result(name, words):
    merges, trace, _ = traced(name, words, 250)
    assert [(t.left, t.right) for t in trace] == merges
    assert [t.merge for t in trace] == list(range(len(merges)))
    assert all(before.pair_count >= after.pair_count for before, after in pairwise(trace))
    found = [(t.pair_count, t.work.occurrences) for t in trace]
    assert found == counted_from_scratch(words, merges)


@every_trainer
def test_merges_are_the_same_with_a_trace(name, words):
    merges, _, _ = traced(name, words, 250)
    assert merges == TRAINERS[name]().train_from_counts(words, 506)[1]


@every_trainer
def test_runs_are_traced(name):
    counts = {b"a" * 9: 2, b"aab" * 3: 1}
    trace = traced(name, counts, 50)[1]
    naive = traced("naive", counts, 50)[1]
    assert [t.work.occurrences for t in trace] == [t.work.occurrences for t in naive]
    assert [t.pair_count for t in trace] == [t.pair_count for t in naive]


@every_trainer
def test_the_seconds_add_up_to_the_timings(name, words):
    _, trace, timings = traced(name, words, 250)
    assert all(min(t.seconds_counting, t.seconds_finding, t.seconds_updating) >= 0 for t in trace)
    assert all(t.seconds > 0 for t in trace)
    slack = 1e-6
    assert sum(t.seconds_counting for t in trace) <= timings["counting pairs"] + slack
    assert sum(t.seconds_finding for t in trace) <= timings["finding the maximum"] + slack
    updating = sum(t.seconds_updating for t in trace)
    assert updating == pytest.approx(timings["updating"], rel=1e-3, abs=1e-5)


@every_trainer
def test_columns_that_a_stage_does_not_have_are_zero(name, words):
    work = [t.work for t in traced(name, words, 250)[1]]
    searches = name in ("naive", "incremental")
    assert all((w.pairs_searched > 0) == searches for w in work)
    assert all((w.heap_entries > 0) == (not searches) for w in work)
    assert all((w.words > 0) == (name != "native") for w in work)
    assert all(0 < w.occurrences <= w.positions for w in work)
    assert all(w.occurrences >= w.words or name == "naive" for w in work)


def test_trainers_with_the_same_algorithm_report_the_same_work(words):
    works = {name: [t.work for t in traced(name, words, 250)[1]] for name in TRAINERS}
    of_words = [w.words for w in works["incremental"]]
    assert of_words == [w.words for w in works["heap"]] == [w.words for w in works["memoryview"]]
    assert all(w.words == len([x for x in words if len(x) > 1]) for w in works["naive"])
    # Both heaps pop and push the same entries, though one is in Python.
    popped = [w.heap_entries for w in works["heap"]]
    assert sum(popped) == pytest.approx(sum(w.heap_entries for w in works["memoryview"]), rel=0.1)


@every_trainer
def test_options_of_the_merge_loop_hold_in_a_trace(name, words):
    options = {"min_frequency": 20, "max_token_length": 4, "tie_break": "huggingface"}
    merges, trace, _ = traced(name, words, 5000, **options)
    assert [(t.left, t.right) for t in trace] == merges
    assert min(t.pair_count for t in trace) >= 20
    assert max(len(t.left + t.right) for t in trace) <= 4
    naive = traced("naive", words, 5000, **options)[1]
    assert [t.work.occurrences for t in trace] == [t.work.occurrences for t in naive]


@every_trainer
def test_an_error_of_the_trace_ends_the_training(name):
    def full(merge):
        raise OSError("the disk is full")

    trainer = TRAINERS[name](trace=full)
    with pytest.raises(OSError, match="the disk is full"):
        trainer.train_from_counts(WORKED_EXAMPLE, 260)


def test_a_trace_file_has_a_row_for_each_merge(tmp_path):
    path = tmp_path / "new" / "trace.csv"
    text = tmp_path / "text.txt"
    text.write_text('low "low", lower é\n' * 9, encoding="utf-8")
    kept = []
    with trace_file(path) as write:
        merges = train_bpe(text, 262, [], trace=lambda merge: (write(merge), kept.append(merge)))[1]
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    tokens = [(ast.literal_eval(row["left"]), ast.literal_eval(row["right"])) for row in rows]
    assert tokens == merges
    for row, merge in zip(rows, kept, strict=True):
        assert int(row["pair_count"]) == merge.pair_count
        assert float(row["seconds_updating"]) == pytest.approx(merge.seconds_updating, abs=1e-9)
        assert [int(row[column]) for column in Work._fields] == list(merge.work)


def test_a_trace_file_is_complete_or_absent(tmp_path):
    path = tmp_path / "trace.csv"
    merge = MergeTrace(0, b"a", b"b", 1, 0.0, 0.0, 0.0, Work())

    def write_and_fail():
        with trace_file(path) as write:
            write(merge)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []
    path.write_text("kept")
    with pytest.raises(FileExistsError, match=r"trace\.csv exists: .* pass overwrite=True"):
        trace_file(path).__enter__()
    assert path.read_text() == "kept"
    with trace_file(path, overwrite=True) as write:
        write(merge)
    row = "0,b'a',b'b',1,0.000000000,0.000000000,0.000000000,0,0,0,0,0,0"
    assert path.read_text() == ",".join(COLUMNS) + f"\n{row}\n"
