"""Files that change together: a reader finds all of the old ones or all of the new ones."""

from __future__ import annotations

import itertools
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cs336_basics._support.files import atomic_writer
from cs336_basics._support.journal import (
    JOURNAL,
    LOCK,
    changing_together,
    complete_change,
    opened,
    opened_together,
)
from tests.faults import FaultyCalls, disk_is_full, killed_at, run_alone

ROOT = Path(__file__).parents[2]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
posix_only = pytest.mark.skipif(os.name != "posix", reason="links and FIFOs are those of POSIX")

NAMES = ["a.txt", "b.txt", "c.txt"]


def write(directory, content, names=NAMES, removed=()):
    with changing_together(directory) as change:
        for name in removed:
            change.remove(name)
        for name in names:
            file = change.open(name, "w")
            file.write(content)


def read(directory, names=NAMES):
    with opened_together(directory, names) as files:
        return {name: file.read().decode() for name, file in files.items()}


def same(content, names=NAMES):
    return dict.fromkeys(names, content)


def test_files_are_written_and_read(tmp_path):
    assert read(tmp_path) == {}
    write(tmp_path / "new" / "folder", "one")
    assert read(tmp_path / "new" / "folder") == same("one")
    write(tmp_path / "new" / "folder", "two", NAMES[:2], removed=["c.txt", "absent"])
    assert read(tmp_path / "new" / "folder") == same("two", NAMES[:2])
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == NAMES[:2]
    with opened(tmp_path / "new" / "folder" / "a.txt") as file:
        assert file.read() == b"two"
    with pytest.raises(FileNotFoundError), opened(tmp_path / "new" / "folder" / "c.txt"):
        pass


def test_after_an_exception_nothing_has_changed(tmp_path):
    write(tmp_path, "old")
    with pytest.raises(RuntimeError), changing_together(tmp_path) as change:  # noqa: PT012
        change.open("a.txt", "w").write("new")
        raise RuntimeError
    assert read(tmp_path) == same("old")
    assert sorted(os.listdir(tmp_path)) == NAMES


def replace_old_by_new(directory):
    # Three files of which one is new, and one is removed.
    write(directory, "new", ["b.txt", "d.txt", "a.txt"], removed=["c.txt"])


BOTH = [same("old"), same("new", ["a.txt", "b.txt", "d.txt"])]


def steps(tmp_path, work):
    """Yield a directory with the old files for each step, until `work` returns False."""
    for step in itertools.count(1):
        directory = tmp_path / str(step)
        write(directory, "old")
        if not work(step, directory):
            return
        yield directory


@needs_fork
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_system_call_leaves_all_old_or_all_new_files(tmp_path, after):
    run_alone(kill_at_every_call, tmp_path, "after" if after else "")


def kill_at_every_call(folder, after):
    os.fsync = lambda handle: None  # takes most of the time

    def work(step, directory):
        return killed_at(step, lambda: replace_old_by_new(directory), after=bool(after))

    seen = []
    for directory in steps(Path(folder), work):
        found = read(directory, [*NAMES, "d.txt"])
        seen.append(BOTH.index(found))
        # The next writer finishes or clears what the killed one left, whatever it writes.
        write(directory, "x", ["other"])
        assert read(directory, [*NAMES, "d.txt"]) == found
        if found == BOTH[1]:
            assert {path.name for path in directory.glob("*.txt")} == set(found)
        write(directory, "third", [*NAMES, "d.txt"])
        assert read(directory, [*NAMES, "d.txt"]) == same("third", [*NAMES, "d.txt"])
        assert sorted(os.listdir(directory)) == [*NAMES, "d.txt", "other"]
    assert [which for which, _ in itertools.groupby(seen)] == [0, 1]
    assert min(seen.count(0), seen.count(1)) > 5


def test_an_error_of_any_system_call_leaves_all_old_or_all_new_files(tmp_path, monkeypatch):
    def work(step, directory):
        with monkeypatch.context() as patch:
            calls = FaultyCalls(patch, step, disk_is_full)
            try:
                replace_old_by_new(directory)
            except OSError as error:
                seen.append(str(error))
        return len(calls.names) >= step

    seen = []
    for directory in steps(tmp_path, work):
        found = read(directory, [*NAMES, "d.txt"])
        assert found in BOTH
        replace_old_by_new(directory)
        assert read(directory, [*NAMES, "d.txt"]) == BOTH[1]
        assert set(os.listdir(directory)) == set(BOTH[1])
    assert len(seen) > 20


CHANGE_FOREVER = """
import itertools, sys
from tests._support.test_journal import write
for number in itertools.count():
    write(sys.argv[1], f"{number} {sys.argv[2]}")
    if number == 0:
        print("begun", flush=True)
"""


def start_writer(directory, name):
    process = subprocess.Popen(
        [sys.executable, "-c", CHANGE_FOREVER, str(directory), name],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout.readline() == b"begun\n"
    return process


@posix_only
def test_readers_beside_several_writers_never_see_a_mixture(tmp_path):
    with start_writer(tmp_path, "x") as one, start_writer(tmp_path, "y") as two:
        seen, end = set(), time.perf_counter() + 1
        while time.perf_counter() < end or len(seen) < 3:
            found = read(tmp_path)
            assert set(found) == set(NAMES)
            assert len(set(found.values())) == 1
            seen.update(found.values())
        one.kill()
        two.kill()
    assert {text.split()[1] for text in seen} == {"x", "y"}
    write(tmp_path, "last")
    assert sorted(os.listdir(tmp_path)) == NAMES


def kill_repeatedly(tmp_path, num_kills):
    chooser = random.Random(num_kills)
    for _ in range(num_kills):
        with start_writer(tmp_path, "x") as process:
            time.sleep(chooser.uniform(0, 0.05))
            process.kill()
        found = read(tmp_path)
        assert len(found) == 3
        assert len(set(found.values())) == 1
    write(tmp_path, "last")
    assert sorted(os.listdir(tmp_path)) == NAMES


@posix_only
def test_random_kills_leave_one_set(tmp_path):
    kill_repeatedly(tmp_path, 4)


@posix_only
@pytest.mark.slow
def test_hundreds_of_random_kills_leave_one_set(tmp_path):
    kill_repeatedly(tmp_path, 300)


def test_threads_take_turns(tmp_path):
    failures = []

    def work(number):
        try:
            for _ in range(20):
                write(tmp_path, str(number))
                assert len(set(read(tmp_path).values())) == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(os.listdir(tmp_path)) == NAMES


def begun_change(directory, content="new"):
    """Leave a change that has taken effect, but whose files are not renamed."""

    class StopHereError(Exception):
        pass

    def stop(*_):
        raise StopHereError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cs336_basics._support.journal._rename_files", stop)
        with pytest.raises(StopHereError):
            write(directory, content)
    assert read(directory) == same(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 60_000,
        b"x" * 100_000,
        b'{"format": 2, "files": []}',
        b'{"format": 1, "files": []}',
        b'{"format": 1, "files": [{"name": "a.txt"}]}',
        b'{"format": 1, "files": 7}',
        *(
            json.dumps({"format": 1, "files": [{"name": "a.txt", **change}]}).encode()
            for change in (
                {"temporary": "../secret", "num_bytes": 1},
                {"temporary": ".b.txt.abcdefgh.new", "num_bytes": 1},
                {"temporary": ".a.txt.abcdefgh.tmp", "num_bytes": 1},
                {"temporary": ".a.txt.abcdefgh.new", "num_bytes": "1"},
                {"temporary": ".a.txt.abcdefgh.new", "num_bytes": -1},
                {"temporary": 7, "num_bytes": 1},
                {"name": "../a.txt", "temporary": None, "num_bytes": 0},
                {"name": "..", "temporary": None, "num_bytes": 0},
                {"name": "", "temporary": None, "num_bytes": 0},
                {"name": 7, "temporary": None, "num_bytes": 0},
                {"name": "a\0", "temporary": None, "num_bytes": 0},
                {"name": JOURNAL, "temporary": None, "num_bytes": 0},
            )
        ),
    ],
)
def test_a_damaged_journal_is_refused_by_readers_and_writers(tmp_path, content):
    write(tmp_path, "old")
    (tmp_path / JOURNAL).write_bytes(content)
    message = r"cs336_basics\.journal is damaged: remove it, and write the files of .* again$"
    with pytest.raises(ValueError, match=message):
        read(tmp_path)
    with pytest.raises(ValueError, match=message):
        write(tmp_path, "new")
    (tmp_path / JOURNAL).unlink()
    assert read(tmp_path) == same("old")
    assert sorted(os.listdir(tmp_path)) == NAMES


def test_a_file_of_another_size_than_listed_is_refused(tmp_path):
    begun_change(tmp_path)
    temporary = next(tmp_path.glob(".a.txt.*.new"))
    temporary.write_text("changed")
    with pytest.raises(ValueError, match=r"a\.txt has 7 bytes, but .*journal lists 3: write"):
        read(tmp_path)


@posix_only
def test_links_stay_and_their_targets_change(tmp_path):
    (tmp_path / "store").mkdir()
    write(tmp_path / "store", "old", ["x", "y"])
    directory = tmp_path / "d"
    directory.mkdir()
    (directory / "a.txt").symlink_to(tmp_path / "store" / "x")
    (directory / "c.txt").symlink_to(Path("..", "store", "y"))
    begun_change(directory)
    assert (tmp_path / "store" / "x").read_text() == "old"
    complete_change(directory)
    assert read(tmp_path / "store", ["x", "y"]) == same("new", ["x", "y"])
    assert (directory / "a.txt").is_symlink()
    assert (directory / "c.txt").is_symlink()
    assert sorted(os.listdir(directory)) == NAMES
    assert sorted(os.listdir(tmp_path / "store")) == ["x", "y"]


@posix_only
def test_a_fifo_is_neither_read_nor_replaced(tmp_path):
    write(tmp_path, "old")
    (tmp_path / "b.txt").unlink()
    os.mkfifo(tmp_path / "b.txt")
    with pytest.raises(ValueError, match=r"b\.txt is a FIFO: name a regular file$"):
        read(tmp_path)
    with pytest.raises(ValueError, match=r"b\.txt is a FIFO: name a regular file$"):
        write(tmp_path, "new")
    assert read(tmp_path, ["a.txt", "c.txt"]) == same("old", ["a.txt", "c.txt"])
    assert sorted(os.listdir(tmp_path)) == NAMES


@posix_only
def test_a_lock_that_a_killed_writer_left_does_not_block_the_next(tmp_path):
    (tmp_path / LOCK).write_text("")
    write(tmp_path, "new")
    assert sorted(os.listdir(tmp_path)) == NAMES


@posix_only
@pytest.mark.parametrize("kind", ["socket", "directory"])
def test_other_files_are_not_replaced(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the names of sockets are short
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as opened_socket:
            opened_socket.bind("a")
        with pytest.raises(ValueError, match="a is a socket"), atomic_writer("a"):
            pass
    else:
        os.mkdir("a")
        with pytest.raises(IsADirectoryError, match="a is a directory"), atomic_writer("a"):
            pass
    assert os.listdir(tmp_path) == ["a"]
