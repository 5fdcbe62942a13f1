"""Atomic files are complete or absent, and temporary files left by killed writers are removed."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from cs336_basics._support.errors import OutputExistsError
from cs336_basics._support.files import (
    atomic_path,
    atomic_writer,
    check_is_free,
    new_directory,
    write_directory,
    write_json,
)
from tests.errors import rejects
from tests.faults import file_size_limit

posix_only = pytest.mark.skipif(os.name != "posix", reason="Windows keeps leftovers")
pytestmark = pytest.mark.usefixtures("fsync")

WRITER = """
import sys, time
from cs336_basics._support.files import atomic_writer
with atomic_writer(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("begun", flush=True)
    sys.stdin.readline()
"""


def start_writer(path):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"begun\n"
    return process


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with atomic_writer(path, "w") as file:
        file.write("é\n")
        assert not path.exists()
    assert path.read_bytes() == "é\n".encode()
    assert os.listdir(path.parent) == ["a.txt"]
    with pytest.raises(TypeError), atomic_writer(path) as file:
        file.write("text in a binary file")
    assert path.read_bytes() == "é\n".encode()
    assert os.listdir(path.parent) == ["a.txt"]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_a_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "private.txt"
    path.write_text("old")
    for mode in (0o600, 0o640, 0o444):
        path.chmod(mode)
        with atomic_writer(path, "w") as file:
            file.write("new")
        assert path.stat().st_mode & 0o777 == mode


@posix_only
def test_leftovers_of_killed_writers_are_removed(tmp_path):
    path = tmp_path / "a.[x].npy"
    with start_writer(path) as process:
        process.send_signal(signal.SIGKILL)
    (leftover,) = os.listdir(tmp_path)
    (tmp_path / f".a.[x].npy.{os.getpid()}-0123abcd.tmp").touch()  # from an earlier process
    (tmp_path / f".a.[x].npy.{10**30}-0123abcd.tmp").mkdir()
    kept = {
        f".a.[x].npy.{os.getppid()}-0123abcd.tmp",
        leftover.replace("[x]", "x"),
        leftover + ".txt",
        leftover.replace("npy", "npy.gz"),
        "a.[x].npy.tmp",
    }
    for name in kept:
        (tmp_path / name).write_text("mine")
    with atomic_writer(path) as file:
        assert leftover not in os.listdir(tmp_path)
        with atomic_writer(path) as other:
            other.write(b"first")
        file.write(b"complete")
    assert path.read_bytes() == b"complete"
    assert set(os.listdir(tmp_path)) == {path.name, *kept}


@posix_only
def test_the_temporary_file_of_a_running_writer_is_kept(tmp_path):
    path = tmp_path / "a.npy"
    with start_writer(path) as process:
        shown = rf"\b{process.pid}\b.*{re.escape(str(path))}"
        with pytest.warns(UserWarning, match=shown), atomic_writer(path) as file:
            file.write(b"first")
        assert path.read_bytes() == b"first"
        process.communicate(b"\n")
        assert process.returncode == 0
    assert path.read_bytes() == b"half"
    assert os.listdir(tmp_path) == ["a.npy"]


@posix_only
def test_many_writers_of_one_name_do_not_mix_their_content(tmp_path):
    path = tmp_path / "a.json"
    failures = []

    def write(number):
        try:
            for _ in range(50):
                write_json(path, [number] * 100)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(set(json.loads(path.read_text()))) == 1
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_a_full_disk_error_names_the_file(tmp_path, monkeypatch, failing):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a.json"
    write_json(path, "old")
    if failing == "fsync":
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"\d bytes") as caught:
            write_json(path, "new")
    else:
        # The error occurs when the buffer is written, and again when the file is closed.
        with file_size_limit(1000), pytest.raises(OSError, match=r"\ba\.json") as caught:
            write_json(path, "new" * 1000)
    assert caught.value.filename == str(path)
    assert json.loads(path.read_text()) == "old"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_error_from_numpy_is_explained(tmp_path):
    with (
        pytest.raises(OSError, match=r"\d bytes") as error,
        atomic_path(tmp_path / "a"),
        open("/dev/full", "wb") as full,
    ):
        np.zeros(1 << 20).tofile(full)
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(tmp_path / "a"))


@pytest.mark.parametrize("inside", ["", "weights.bin"])
def test_an_error_names_the_final_path(tmp_path, inside):
    with (
        pytest.raises(PermissionError) as error,
        new_directory(tmp_path / "a") as temporary,
    ):
        raise OSError(
            errno.EACCES, "Permission denied", os.path.join(temporary, inside).rstrip("/")
        )
    assert error.value.filename == os.path.join(tmp_path, "a", inside).rstrip("/")
    with pytest.raises(PermissionError, match="elsewhere"), new_directory(tmp_path / "a"):
        raise OSError(errno.EACCES, "Permission denied", "elsewhere")


@posix_only
@pytest.mark.parametrize("length", [90, 200, 201, 255])
@pytest.mark.parametrize("character", ["a", "é"])
def test_names_of_any_length_leave_no_leftovers(tmp_path, length, character):
    count, rest = divmod(length, len(character.encode()))
    name = character * count + "a" * rest
    path = tmp_path / name
    with start_writer(path) as process:
        process.kill()
    assert len(os.listdir(tmp_path)) == 1
    write_json(path, 1)
    assert os.listdir(tmp_path) == [name]
    assert json.loads(path.read_text()) == 1


@posix_only
@pytest.mark.parametrize("exists", [True, False])
def test_the_target_of_a_link_is_replaced(tmp_path, exists):
    (tmp_path / "store").mkdir()
    target = tmp_path / "store" / "target"
    if exists:
        target.write_text("old")
    (tmp_path / "middle").symlink_to(Path("store", "target"))
    (tmp_path / "link").symlink_to(tmp_path / "middle")
    write_json(tmp_path / "link", "new")
    assert json.loads(target.read_text()) == "new"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "middle").is_symlink()
    assert os.listdir(tmp_path / "store") == ["target"]
    with pytest.raises(RuntimeError), atomic_writer(tmp_path / "link"):
        raise RuntimeError
    assert json.loads(target.read_text()) == "new"


@posix_only
def test_a_fifo_and_a_link_to_one_are_rejected(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    for name in ("fifo", "link"):
        with rejects(None, name):
            write_json(tmp_path / name, 1)
    assert (tmp_path / "fifo").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["fifo", "link"]


@posix_only
@pytest.mark.parametrize("write", [atomic_writer, atomic_path, new_directory])
@pytest.mark.parametrize("below", ["a", "a/b/c"])
def test_an_error_names_a_parent_that_is_a_file(tmp_path, write, below):
    file = tmp_path / "books.txt"
    file.write_text("mine")
    with pytest.raises(NotADirectoryError, match=r"books\.txt"), write(file / below):
        pass
    assert file.read_text() == "mine"


@pytest.mark.skipif(not os.path.islink("/proc/self/fd/0"), reason="needs /proc")
def test_a_file_descriptor_in_proc_is_rejected(tmp_path):
    with open(tmp_path / "a", "w") as file:
        link = f"/proc/self/fd/{file.fileno()}"
        with rejects(None, link):
            write_json(link, 1)
    assert (tmp_path / "a").read_text() == ""


def test_a_file_system_that_cannot_sync_directories_is_accepted(tmp_path, monkeypatch):
    def refuse(handle):
        if not os.path.isfile(f"/proc/self/fd/{handle}"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    if not os.path.exists("/proc/self/fd"):
        pytest.skip("needs /proc")
    monkeypatch.setattr(os, "fsync", refuse)
    write_json(tmp_path / "a.json", 1)
    assert json.loads((tmp_path / "a.json").read_text()) == 1


@pytest.mark.parametrize("exists", [False, True])
def test_a_directory_appears_when_it_is_complete(tmp_path, exists):
    path = tmp_path / "new" / "d"
    if exists:
        path.mkdir(parents=True)
    with new_directory(path) as temporary:
        (temporary / "a").write_text("1")
        (temporary / "folder").mkdir()
        (temporary / "folder" / "b").write_text("2")
        assert temporary.parent == path.parent
        assert not (path / "a").exists()
    assert (path / "a").read_text() == "1"
    assert (path / "folder" / "b").read_text() == "2"
    assert os.listdir(path.parent) == ["d"]
    with rejects(None, path, kind=OutputExistsError), new_directory(path):
        pass
    with rejects(None, path / "a", kind=OutputExistsError), new_directory(path / "a"):
        pass
    assert os.listdir(path.parent) == ["d"]


def test_a_directory_of_files_is_written_whole_or_not_at_all(tmp_path):
    write_directory(tmp_path / "new" / "folder", {"a.bin": b"\r\n", "b.txt": "é\n"})
    assert (tmp_path / "new" / "folder" / "a.bin").read_bytes() == b"\r\n"
    assert (tmp_path / "new" / "folder" / "b.txt").read_bytes() == "é\n".encode()
    with pytest.raises(TypeError):
        write_directory(tmp_path / "out", {"a": "text", "b": None})
    assert os.listdir(tmp_path) == ["new"]


def test_an_existing_output_is_refused_unless_it_may_be_replaced(tmp_path):
    check_is_free(tmp_path, False)  # an empty directory
    check_is_free(tmp_path / "file", False)
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file"):
        with rejects(None, path, kind=OutputExistsError):
            check_is_free(path, False)
        check_is_free(path, True)


def test_the_current_directory_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with rejects(None, kind=OutputExistsError), new_directory("."):
        pass
    assert tmp_path.is_dir()


def test_an_output_may_start_with_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME" if os.name != "nt" else "USERPROFILE", str(tmp_path))
    write_json("~/new/a.json", {})
    write_directory("~/b", {"c": b""})
    assert sorted(os.listdir(tmp_path)) == ["b", "new"]
