"""A CountJob counts pieces independently; partial counts can be combined in any grouping."""

import pickle

import pytest

from cs336_basics.counting import count_words
from cs336_basics.counting.count_job import CountJob
from cs336_basics.splitting import SPLITTINGS
from cs336_basics.text import Corpus
from tests.counting.hostile import SPLITTER


@pytest.mark.parametrize("splitting", SPLITTINGS)
def test_partial_counts_are_combined_in_any_grouping(hostile_file, splitting):
    job = CountJob(SPLITTER, splitting)
    assert pickle.loads(pickle.dumps(job)) == job
    pieces = Corpus(hostile_file).pieces(100)
    partials = [job.run(piece) for piece in pieces]
    assert len(partials) > 20  # more than are kept in memory before they are added up
    counts, changes = job.combine(partials)
    assert counts == count_words(hostile_file, SPLITTER)
    assert changes.num_bytes == hostile_file.stat().st_size
    for size in (1, 3, 8):
        groups = [partials[start : start + size] for start in range(0, len(partials), size)]
        again, found = job.combine(map(job.combine, groups))
        assert again == counts
        assert found == changes
    assert job.combine([])[0] == {}
