"""The trace records the amount of work for each merge."""

import random

import pytest

from cs336_basics import TRAINERS
from cs336_basics.bpe.trace import Work
from tests.bpe.trainers import WORKED_EXAMPLE, every_trainer, traced


def work_of(name, word_counts, num_merges):
    return [merge.work for merge in traced(name, word_counts, num_merges)[1]]


# The work of the third merge, which joins "o" and "w" in "low" and "lower".
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # All 4 words are read. They have 3 + 5 + 4 + 4 symbols and 12 pairs, 10 of them distinct.
        ("naive", Work(2, 4, 16, 10, 12, 0)),
        # 2 words with 8 symbols are read. 6 pairs are removed, and 4 are added.
        ("incremental", Work(2, 2, 8, 10, 10, 0)),
        ("heap", Work(2, 2, 8, 0, 10, 3 + 2)),
    ],
)
def test_the_work_of_a_merge_of_the_example(name, expected):
    assert work_of(name, WORKED_EXAMPLE, 3)[2] == expected


@pytest.mark.parametrize("name", ["heap", "memoryview"])
def test_the_heap_pops_stale_entries_and_pushes_new_pairs(name):
    # First, (s, t) is popped and (e, st) pushed. Then (e, st) is popped, and (w, est) and (d, est)
    # are pushed. Finally, the stale entries (e, s) and (w, e) are popped before (o, w), and (l, ow)
    # and (ow, e) are pushed.
    entries = [work.heap_entries for work in work_of(name, WORKED_EXAMPLE, 3)]
    assert entries[1:] == [1 + 2, 3 + 2]


@every_trainer
def test_columns_that_do_not_apply_are_zero(name, words):
    work = work_of(name, words, 250)
    units = TRAINERS[name].work_units
    searches = units.get("finding the maximum") == "pairs"
    assert all((w.pairs_searched > 0) == searches for w in work)
    assert not (searches and any(w.heap_entries for w in work))
    for column in ("words", "heap_entries"):
        assert len({getattr(w, column) > 0 for w in work}) == 1
    assert all(0 < w.occurrences <= w.positions for w in work)
    assert all(w.occurrences >= w.words or units.get("updating") == "words" for w in work)


@every_trainer
def test_positions_have_the_unit_of_the_trainer(name):
    (work,) = work_of(name, {b"abcdefgh": 1}, 1)
    assert work.positions == {"symbol": 8, "occurrence": 1}[TRAINERS[name].read_unit]


def test_trainers_with_the_same_algorithm_report_the_same_work(words):
    works = {name: work_of(name, words, 250) for name in TRAINERS}
    of_words = [w.words for w in works["incremental"]]
    assert of_words == [w.words for w in works["heap"]] == [w.words for w in works["memoryview"]]
    assert all(w.words == len(words) for w in works["naive"])
    # Both heaps pop and push about the same number of entries.
    popped = [w.heap_entries for w in works["heap"]]
    assert sum(popped) == pytest.approx(sum(w.heap_entries for w in works["memoryview"]), rel=0.1)


@pytest.mark.parametrize("name", ["memoryview", "native"])
@pytest.mark.parametrize("letters", ["a", "ab", "abcdefgh"])
def test_a_ten_times_longer_word_is_ten_times_the_work(name, letters):
    chooser = random.Random(0)
    long = "".join(chooser.choices(letters, k=20_000)).encode()
    works = [work_of(name, {word: 1}, 100) for word in (long[:2_000], long)]
    few, many = (sum(work.positions + work.pairs_updated for work in found) for found in works)
    assert many < 12 * few
