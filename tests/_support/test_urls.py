"""URLs are read, written and listed through fsspec, and errors name the URL."""

from __future__ import annotations

import io

import pytest

from cs336_basics._support.urls import (
    download,
    downloaded,
    matching_urls,
    names_in,
    open_url,
    remove_url,
    uploaded,
)
from tests.errors import rejects

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory():
    """Return fsspec's in-memory file system, emptied."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()


def test_a_file_is_read_like_a_local_one(memory):
    memory.pipe_file("/a.txt", b"0123456789")
    with open_url("memory://a.txt", 4) as file:
        assert (file.read(3), file.tell(), file.seek(-2, io.SEEK_END), file.read()) == (
            b"012", 3, 8, b"89",
        )  # fmt: skip
        assert file.seek(1) == 1
        buffer = bytearray(2)
        assert (file.readinto(buffer), bytes(buffer), file.readable()) == (2, b"12", True)
        assert list(io.TextIOWrapper(file)) == ["3456789"]
    assert file.closed


def test_an_upload_appears_whole_or_not_at_all(memory):
    with uploaded("memory://x/a.txt") as file:
        file.write_bytes(b"abc")
        assert not memory.exists("/x/a.txt")
    assert memory.cat_file("/x/a.txt") == b"abc"
    assert not file.exists()
    with pytest.raises(FileNotFoundError), uploaded("memory://x/b.txt") as file:
        (file.with_name("c.txt")).rename(file)
    assert names_in("memory://x") == ["a.txt"]
    with downloaded("memory://x/a.txt") as file:
        assert file.read_bytes() == b"abc"
    assert not file.exists()
    remove_url("memory://x/a.txt")
    assert names_in("memory://x") == []


def test_only_an_asterisk_is_a_wildcard_and_not_in_addresses_of_pages(memory):
    for name in ("b.txt", "a.txt", "c[1].txt"):
        memory.pipe_file(f"/x/{name}", b"")
    assert matching_urls("memory://x/*") == [
        "memory:///x/a.txt", "memory:///x/b.txt", "memory:///x/c[1].txt",
    ]  # fmt: skip
    assert matching_urls("memory://x/c[1].txt") == ["memory://x/c[1].txt"]
    assert matching_urls("https://x.org/*?y") == ["https://x.org/*?y"]


@pytest.mark.parametrize(
    ("raised", "kind", "reason"),
    [
        (FileNotFoundError("a.txt"), FileNotFoundError, "No such file or directory"),
        (FileNotFoundError("no bucket"), FileNotFoundError, "no bucket"),
        (PermissionError("Access\nDenied"), PermissionError, "Access Denied"),
        (OSError(16, "Slow down"), OSError, "Slow down"),
        (RuntimeError("anything"), OSError, "anything"),
        (TimeoutError(), TimeoutError, "Connection timed out"),
        (KeyError(), OSError, "Input/output error"),
        (RuntimeError("x" * 5000), OSError, "x" * 300),
    ],
)
def test_errors_name_the_url(memory, tmp_path, monkeypatch, raised, kind, reason):
    def fail(*arguments, **options):
        raise raised

    for name in ("open", "get_file"):
        monkeypatch.setattr(type(memory), name, fail)
    for read in (open_url, lambda url: download(url, tmp_path / "a.txt")):
        with pytest.raises(kind) as caught:
            read("memory://a.txt")
        assert (caught.value.filename, caught.value.strerror) == ("memory://a.txt", reason)


def test_unknown_protocols_and_web_servers_to_write_to_are_rejected():
    with rejects(None, place="nowhere://a"):
        open_url("nowhere://a")
    with rejects(None, place="https://x.org/a"):
        names_in("https://x.org/a")
