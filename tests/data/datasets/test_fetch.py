"""Datasets are fetched from the hub, a server or a directory, and verified."""

import contextlib
import gzip
import hashlib
import socket
import subprocess
import sys
import threading

import pytest

from cs336_basics.data.datasets import DATASETS, dataset_path, fetch
from cs336_basics.data.datasets.fetch import DownloadError, fetch_split
from tests.data.datasets.web_server import PACKED, TEXT, names_in
from tests.errors import rejects
from tests.processes import wait

OTHER = TEXT[:-1] + b"?"


# ------------------------------------------------------------------ the Hugging Face hub


@pytest.mark.parametrize(
    ("dataset", "body"), [("tinystories", TEXT), ("owt", PACKED)], ids=["plain", "compressed"]
)
def test_a_file_on_the_hub_is_fetched_once_and_decompressed(server, tmp_path, dataset, body):
    file = DATASETS[dataset].files["valid"]
    server.offer_as_hub(file.download_name, body)
    path, fetched = fetch_split(dataset, "valid", tmp_path)
    assert (path, fetched) == (tmp_path / file.name, True)
    assert path.read_bytes() == TEXT
    assert dataset_path(dataset, "valid", tmp_path) == path
    assert names_in(tmp_path) == [path.name]
    assert fetch_split(dataset, "valid", tmp_path) == (path, False)
    assert len(server.requests) == 1


@pytest.mark.parametrize("value", ["1", "YES", "0"])
def test_hf_hub_offline_forbids_only_the_hub(server, tmp_path, monkeypatch, value):
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    server.offer_as_hub("owt_valid.txt.gz", PACKED)
    if value == "0":
        assert fetch_split("owt", "valid", tmp_path)[1]
        return
    with rejects(None, "HF_HUB_OFFLINE", kind=DownloadError):
        fetch_split("owt", "valid", tmp_path)
    assert server.requests == []
    server.offer("owt_valid.txt.gz", PACKED)
    path, _ = fetch_split("owt", "valid", tmp_path, source=server.url)
    assert fetch_split("owt", "valid", tmp_path) == (path, False)


# ------------------------------------------------------------------ another server


@pytest.mark.parametrize(
    ("dataset", "name", "body"),
    [
        ("tinystories", "TinyStoriesV2-GPT4-valid.txt", TEXT),
        ("owt", "owt_valid.txt.gz", PACKED),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"Content_Length": None}, {"Content_Encoding": "gzip"}])
def test_a_file_on_a_server_is_fetched(server, tmp_path, dataset, name, body, headers):
    server.offer("moved", body, **headers)
    server.offer(name, b"", 302, Location="/mirror/moved")
    path, _ = fetch_split(dataset, "valid", tmp_path, source=server.url + "/")
    assert path.read_bytes() == TEXT
    assert names_in(tmp_path) == [path.name]


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_broken_download_continues(server, tmp_path, has_ranges):
    server.offer("owt_valid.txt.gz", PACKED)
    server.has_ranges = has_ranges
    server.breaks = [40_000, 90_000]
    if not has_ranges:  # each response begins at the start of the file
        server.breaks = [40_000]
    path, _ = fetch_split("owt", "valid", tmp_path, source=server.url)
    assert path.read_bytes() == TEXT
    expected = [None, "bytes=40000-", "bytes=130000-"] if has_ranges else [None, "bytes=40000-"]
    assert server.ranges == expected


def test_a_file_that_changes_during_the_download_is_detected_and_removed(server, tmp_path):
    server.offer("owt_valid.txt.gz", PACKED[:40_000] + bytes(100))
    server.breaks = [40_050, 0]
    with pytest.raises(DownloadError):
        fetch_split("owt", "valid", tmp_path, source=server.url)
    server.offer("owt_valid.txt.gz", PACKED)
    with rejects(None, "owt_valid.txt", kind=DownloadError):
        fetch_split("owt", "valid", tmp_path, source=server.url)
    assert names_in(tmp_path) == []
    assert fetch_split("owt", "valid", tmp_path, source=server.url)[0].read_bytes() == TEXT


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        pytest.param(b"no such file", 404, "404", id="not found"),
        pytest.param(PACKED[: len(PACKED) // 2], 200, "gz.part", id="half a gzip file"),
        pytest.param(PACKED[:-8] + bytes(4) + PACKED[-4:], 200, "gz.part", id="wrong checksum"),
        pytest.param(PACKED[:40_000] + bytes(200), 200, "gz.part", id="zeros"),
        pytest.param(TEXT, 200, "gz.part", id="not gzip"),
        pytest.param(b"", 200, "SHA-256", id="empty"),
        pytest.param(gzip.compress(OTHER, 1), 200, "SHA-256", id="another text"),
        pytest.param(gzip.compress(TEXT + bytes(50 << 20), 1), 200, "SHA-256", id="unpacks"),
        pytest.param(PACKED + b"more" * (2 << 20), 200, "gz.part", id="too long"),
    ],
)
def test_failures_are_reported_and_leave_no_file(server, tmp_path, body, status, named):
    server.offer("owt_valid.txt.gz", body, status)
    with rejects(None, "owt_valid.txt", named, kind=DownloadError) as caught:
        fetch_split("owt", "valid", tmp_path, source=server.url)
    assert "\n" not in str(caught.value)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9\x1b\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nxx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
        b"",
        None,
    ],
    ids=["another protocol", "long header", "invalid chunk", "cut", "closed", "no connection"],
)
def test_a_server_without_http_is_reported_on_one_line(tmp_path, monkeypatch, answer):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def serve():
            with contextlib.suppress(OSError):  # the listener has been closed
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(10_000)
                        connection.sendall(answer)

        if answer is None:
            listener.close()
        else:
            threading.Thread(target=serve, daemon=True).start()
        with rejects(None, url, kind=DownloadError) as caught:
            fetch_split("tinystories", "valid", tmp_path, source=url)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_a_slow_download_continues_until_a_request_yields_nothing(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "_PATIENCE", 0.3)
    server.offer("TinyStoriesV2-GPT4-valid.txt", TEXT)
    server.stalls_after = len(TEXT) // 3 + 1
    path, _ = fetch_split("tinystories", "valid", tmp_path, source=server.url)
    assert path.read_bytes() == TEXT
    assert 3 <= len(server.requests) <= 4
    server.stalls_after = 0
    with rejects(None, "timed out", kind=DownloadError):
        fetch_split("tinystories", "valid", tmp_path, source=server.url, force=True)
    assert path.read_bytes() == TEXT


# ------------------------------------------------------------------ directories


@pytest.mark.parametrize(
    ("name", "content"), [("owt_valid.txt", TEXT), ("owt_valid.txt.gz", PACKED)]
)
def test_a_directory_may_have_the_text_plain_or_compressed(server, tmp_path, name, content):
    (tmp_path / "usb").mkdir()
    (tmp_path / "usb" / name).write_bytes(content)
    path, fetched = fetch_split("owt", "valid", tmp_path / "data", source=tmp_path / "usb")
    assert fetched
    assert path.read_bytes() == TEXT
    assert (tmp_path / "usb" / name).read_bytes() == content
    assert server.requests == []


def test_a_wrong_text_in_a_directory_is_rejected(server, tmp_path):
    (tmp_path / "usb").mkdir()
    for content in (OTHER, TEXT * 2, TEXT[:9], b""):
        (tmp_path / "usb" / "owt_valid.txt").write_bytes(content)
        with rejects(None, "SHA-256", kind=DownloadError):
            fetch_split("owt", "valid", tmp_path / "data", source=str(tmp_path / "usb"))
        assert names_in(tmp_path / "data") == []
        assert (tmp_path / "usb" / "owt_valid.txt").read_bytes() == content


def test_a_directory_without_the_file_is_rejected(server, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"owt_valid\.txt"):
        fetch_split("owt", "valid", tmp_path / "data", source=tmp_path)


@pytest.mark.parametrize("source", ["mirror.example/x", "ftp://mirror.example/x", ""])
def test_any_other_source_is_rejected(tmp_path, source):
    with rejects("source", f"'{source}'"):
        fetch_split("owt", "train", tmp_path, source=source)


# ------------------------------------------------------------------ existing files


def test_a_file_of_the_wrong_size_is_replaced_only_with_force(server, tmp_path):
    path = tmp_path / "owt_valid.txt"
    path.write_bytes(b"mine")
    server.offer("owt_valid.txt.gz", PACKED)
    with rejects(None, "owt_valid.txt", 4, kind=DownloadError):
        fetch_split("owt", "valid", tmp_path, source=server.url)
    assert path.read_bytes() == b"mine"
    assert fetch_split("owt", "valid", tmp_path, source=server.url, force=True) == (path, True)
    assert path.read_bytes() == TEXT


def test_the_sample_is_generated(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "requests", None)  # so that importing it fails
    path, fetched = fetch_split("sample", "valid", tmp_path)
    assert (path, fetched) == (tmp_path / "sample_valid.txt", True)
    text = path.read_bytes()
    assert hashlib.sha256(text).hexdigest() == DATASETS["sample"].files["valid"].sha256
    assert fetch_split("sample", "valid", tmp_path) == (path, False)
    path.write_bytes(text[:100])
    with rejects(None, 100, kind=DownloadError):
        fetch_split("sample", "valid", tmp_path)
    assert fetch_split("sample", "valid", tmp_path, force=True) == (path, True)
    assert path.read_bytes() == text
    with rejects("source", "sample_train.txt"):
        fetch_split("sample", "train", tmp_path, source=tmp_path)


def test_a_complete_download_is_not_fetched_again(server, tmp_path):
    (tmp_path / "owt_valid.txt.gz.part").write_bytes(PACKED)
    server.offer("owt_valid.txt.gz", PACKED)
    assert fetch_split("owt", "valid", tmp_path, source=server.url)[0].read_bytes() == TEXT


def test_a_killed_download_is_continued(server, tmp_path):
    file = DATASETS["tinystories"].files["valid"]
    server.offer(file.name, TEXT)
    server.stalls_after = 1_500_000
    part = tmp_path / f"{file.name}.part"
    code = (
        "import sys; from cs336_basics.data.datasets.fetch import _download\n"
        "from pathlib import Path; _download(sys.argv[1], Path(sys.argv[2]), 10**7, False)"
    )
    command = [sys.executable, "-c", code, f"{server.url}/{file.name}", str(part)]
    with subprocess.Popen(command) as run:
        wait(lambda: run.poll() is not None or (part.exists() and part.stat().st_size))
        run.kill()
    held = part.stat().st_size
    assert names_in(tmp_path) == [part.name]
    server.stalls_after = None
    path, _ = fetch_split("tinystories", "valid", tmp_path, source=server.url)
    assert path.read_bytes() == TEXT
    assert server.ranges == [None, f"bytes={held}-"]


def test_two_processes_do_not_write_to_one_download(server, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    server.offer("owt_valid.txt.gz", PACKED)
    part = tmp_path / "owt_valid.txt.gz.part"
    with open(part, "wb") as other:
        other.write(PACKED[:1000])
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)  # like another download
        with rejects(None, part, kind=DownloadError):
            fetch_split("owt", "valid", tmp_path, source=server.url)
    assert part.read_bytes() == PACKED[:1000]
    assert fetch_split("owt", "valid", tmp_path, source=server.url)[0].read_bytes() == TEXT


def test_a_failed_replacement_keeps_the_old_file(server, tmp_path):
    server.offer("owt_valid.txt.gz", PACKED)
    path, _ = fetch_split("owt", "valid", tmp_path, source=server.url)
    server.offer("owt_valid.txt.gz", PACKED[:1000])
    with rejects(None, "owt_valid.txt.gz", kind=DownloadError):
        fetch_split("owt", "valid", tmp_path, source=server.url, force=True)
    assert path.read_bytes() == TEXT
