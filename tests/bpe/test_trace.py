"""trace_file writes one row per merge, and the file is either complete or absent."""

import ast
import csv

import pytest

from cs336_basics import train_bpe
from cs336_basics._support.errors import OutputExistsError
from cs336_basics.bpe.trace import COLUMNS, MergeTrace, Work, trace_file
from tests.errors import rejects


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
    merge = MergeTrace(0, b"a", b"b", 1, 0.0, 0.0, 0.0, 0.0, 0.0, Work())

    def write_and_fail():
        with trace_file(path) as write:
            write(merge)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []
    path.write_text("kept")
    with rejects(None, "trace.csv", kind=OutputExistsError):
        trace_file(path).__enter__()
    assert path.read_text() == "kept"
    with trace_file(path, overwrite=True) as write:
        write(merge)
    row = "0,b'a',b'b',1" + 5 * ",0.000000000" + 6 * ",0"
    assert path.read_text() == ",".join(COLUMNS) + f"\n{row}\n"
