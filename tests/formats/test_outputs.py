"""An export that fails or is killed leaves all of the old files or all of the new ones."""

from __future__ import annotations

import contextlib
import os

import pytest

from cs336_basics._support.journal import complete_change
from cs336_basics.formats.outputs import write_directory
from tests.faults import FaultyCalls, disk_is_full

OLD = {"b.json": "old", "a.bin": b"old"}
NEW = {"a.bin": b"new", "b.json": "new", "c.txt": "new"}


def contents(directory):
    names = [name for name in sorted(os.listdir(directory)) if not name.startswith(".")]
    return {name: (directory / name).read_bytes() for name in names}


def test_a_failure_at_any_call_leaves_one_whole_export(tmp_path, monkeypatch):
    whole = (
        {"a.bin": b"old", "b.json": b"old", "gone": b"old"},
        {"a.bin": b"new", "b.json": b"new", "c.txt": b"new"},
    )
    seen = set()
    for step in range(1, 1000):
        directory = tmp_path / str(step)
        write_directory(directory, OLD)
        (directory / "gone").write_text("old")
        with monkeypatch.context() as patch:
            calls = FaultyCalls(patch, step, disk_is_full)
            with contextlib.suppress(OSError):
                write_directory(directory, NEW, ["gone"])
        if len(calls.names) < step:
            break
        complete_change(directory)  # as the next writer does
        assert contents(directory) in whole, step
        seen.add(whole.index(contents(directory)))
    assert seen == {0, 1}
    assert step > 20


def test_a_directory_that_was_created_is_removed_after_a_failure(tmp_path):
    class Unwritable(dict):
        def items(self):
            yield "a", "text"
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_directory(tmp_path / "new" / "folder", Unwritable())
    assert list(tmp_path.iterdir()) == []
