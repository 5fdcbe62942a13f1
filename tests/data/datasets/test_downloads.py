"""Downloads that break off and go on, and servers that lie."""

import json
import multiprocessing
import threading

import pytest

from cs336_basics.data.datasets import downloads
from cs336_basics.data.datasets.downloads import ATTEMPTS, DownloadError
from cs336_basics.data.datasets.fetch import fetch_split
from tests.data.datasets.web_server import PACKED, TEXT, names_in

PLAIN = "TinyStoriesV2-GPT4-valid.txt"
PART = PLAIN + ".part"
MODIFIED = "Sat, 21 Nov 2026 10:00:00 GMT"


def fetch(server, directory):
    path, fetched = fetch_split("tinystories", "valid", directory, source=server.url)
    assert fetched
    assert path.read_bytes() == TEXT
    assert names_in(directory) == [PLAIN, PLAIN + ".json"]


def leave_part(server, directory, size=100_000, **validators):
    """Break a download off for good after `size` bytes."""
    server.offer_ranges(PLAIN, TEXT, breaks=[size] + [0] * ATTEMPTS, **validators)
    with pytest.raises(DownloadError, match=rf"broke after {size:,} of {len(TEXT):,} bytes"):
        fetch_split("tinystories", "valid", directory, source=server.url)
    assert names_in(directory) == [PART, PART + ".json"]
    assert (directory / PART).read_bytes() == TEXT[:size]
    server.requests.clear()
    server.ranges.clear()


# ------------------------------------------------------------------ breaking off and going on


def test_a_connection_that_breaks_is_taken_up_again(server, tmp_path):
    server.offer_ranges(PLAIN, TEXT, breaks=[100_000, 1, 1_500_000])
    fetch(server, tmp_path)
    assert server.ranges == [
        (None, None),
        ("bytes=100000-", '"1"'),
        ("bytes=100001-", '"1"'),
        ("bytes=1600001-", '"1"'),
    ]


def test_a_later_call_resumes_where_the_first_stopped(server, tmp_path):
    leave_part(server, tmp_path)
    server.offer_ranges(PLAIN, TEXT)
    fetch(server, tmp_path)
    assert server.ranges == [("bytes=100000-", '"1"')]


def test_the_time_of_the_last_change_serves_where_there_is_no_etag(server, tmp_path):
    leave_part(server, tmp_path, etag=None, modified=MODIFIED)
    server.offer_ranges(PLAIN, TEXT, etag=None, modified=MODIFIED)
    fetch(server, tmp_path)
    assert server.ranges == [("bytes=100000-", MODIFIED)]


@pytest.mark.parametrize("etag", [None, 'W/"1"'], ids=["none", "a weak one"])
def test_without_a_validator_the_download_starts_over(server, tmp_path, etag):
    server.offer_ranges(PLAIN, TEXT, etag=etag, breaks=[100_000])
    fetch(server, tmp_path)
    assert server.ranges == [(None, None), (None, None)]


def test_a_file_that_changed_meanwhile_is_fetched_from_the_beginning(server, tmp_path):
    leave_part(server, tmp_path)
    (tmp_path / PART).write_bytes(b"x" * 100_000)  # of the old version
    server.offer_ranges(PLAIN, TEXT, etag='"2"')
    fetch(server, tmp_path)
    assert server.ranges == [("bytes=100000-", '"1"')]


def test_a_server_that_ignores_ranges_sends_all_of_it(server, tmp_path):
    leave_part(server, tmp_path)
    server.offer(PLAIN, TEXT, ETag='"1"')
    fetch(server, tmp_path)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (206, {"Content-Range": f"bytes 5-{len(TEXT) - 1}/{len(TEXT)}", "ETag": '"1"'}),
        (206, {"Content-Range": "bytes 100000-", "ETag": '"2"'}),
        (206, {"Content-Range": "bytes a-b/c", "ETag": '"1"'}),
        (206, {}),
        (416, {"Content-Range": "bytes */7"}),
    ],
    ids=["another range", "another version", "not a range", "no range", "no such range"],
)
def test_an_answer_that_is_not_the_rest_is_not_appended(server, tmp_path, status, headers):
    leave_part(server, tmp_path)

    def answer(handler):
        if handler.headers.get("Range"):
            handler.start(status, {**headers, "Content-Length": "5"})
            handler.wfile.write(b"wrong")
        else:
            handler.start(200, {"Content-Length": str(len(TEXT))})
            handler.wfile.write(TEXT)

    server.answers[f"/mirror/{PLAIN}"] = answer
    fetch(server, tmp_path)
    assert [found is not None for found, _ in server.ranges] == [True, False]


def test_a_part_of_another_address_is_not_continued(server, tmp_path):
    leave_part(server, tmp_path)
    record = json.loads((tmp_path / (PART + ".json")).read_text(encoding="utf-8"))
    record["url"] = "http://mirror.example/x"
    (tmp_path / (PART + ".json")).write_text(json.dumps(record), encoding="utf-8")
    server.offer_ranges(PLAIN, TEXT)
    fetch(server, tmp_path)
    assert server.ranges == [(None, None)]


@pytest.mark.parametrize(
    "record", ["", "{", "[]", '{"url": 1}', '{"url": "URL", "validator": "a\\nX-Header: b"}', None]
)
def test_a_download_with_an_unusable_record_starts_over(server, tmp_path, record):
    leave_part(server, tmp_path)
    path = tmp_path / (PART + ".json")
    path.unlink()
    if record is not None:
        path.write_text(record.replace("URL", f"{server.url}/{PLAIN}"), encoding="utf-8")
    server.offer_ranges(PLAIN, TEXT)
    fetch(server, tmp_path)
    assert server.ranges == [(None, None)]


def test_a_damaged_part_is_found_out_and_not_kept(server, tmp_path):
    leave_part(server, tmp_path)
    (tmp_path / PART).write_bytes(b"x" * 100_000)
    server.offer_ranges(PLAIN, TEXT)
    with pytest.raises(DownloadError, match="SHA-256"):
        fetch_split("tinystories", "valid", tmp_path, source=server.url)
    assert names_in(tmp_path) == []
    fetch(server, tmp_path)


def test_a_complete_part_is_not_fetched_again(server, tmp_path):
    leave_part(server, tmp_path)
    (tmp_path / PART).write_bytes(TEXT)
    fetch(server, tmp_path)
    assert server.requests == []


def test_a_complete_part_of_unknown_size_is_not_fetched_again(server, tmp_path):
    name = "owt_valid.txt.gz"
    server.offer_ranges(name, PACKED, breaks=[100] + [0] * ATTEMPTS)
    with pytest.raises(DownloadError, match="broke after 100 bytes"):
        fetch_split("owt", "valid", tmp_path, source=server.url)
    (tmp_path / f"{name}.part").write_bytes(PACKED)
    server.ranges.clear()
    server.offer_ranges(name, PACKED)
    path, _ = fetch_split("owt", "valid", tmp_path, source=server.url)
    assert path.read_bytes() == TEXT
    assert server.ranges == [(f"bytes={len(PACKED)}-", '"1"')]


def test_too_long_a_part_is_dropped(server, tmp_path):
    leave_part(server, tmp_path)
    (tmp_path / PART).write_bytes(TEXT + b"more")
    server.offer_ranges(PLAIN, TEXT)
    fetch(server, tmp_path)


def test_progress_resets_the_count_of_broken_connections(server, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "BLOCK", 100_000)
    server.offer_ranges(PLAIN, TEXT, breaks=[0, 0, 0, 100_000] * 6)
    fetch(server, tmp_path)
    assert len(server.requests) == 25


def test_the_server_may_vanish_and_come_back(server, tmp_path, monkeypatch):
    leave_part(server, tmp_path)
    path, answers = f"/mirror/{PLAIN}", []

    def answer(handler):
        answers.append(handler)
        if len(answers) % 2:
            handler.close_connection = True
            handler.connection.close()  # without an answer
        else:
            server.answers["/range"](handler)

    server.offer_ranges(PLAIN, TEXT, breaks=[1000, 1000])
    server.answers["/range"] = server.answers.pop(path)
    server.answers[path] = answer
    with pytest.raises(DownloadError, match="no connection"):  # not even once
        fetch_split("tinystories", "valid", tmp_path, source=server.url)
    fetch(server, tmp_path)


# ------------------------------------------------------------------ servers that lie


def test_a_server_that_announces_less_is_refused_at_once(server, tmp_path):
    server.offer_ranges(PLAIN, TEXT[:-1])
    sizes = f"announces {len(TEXT) - 1:,} bytes, and the file has {len(TEXT):,}"
    with pytest.raises(DownloadError, match=f"{sizes}: it is a different file"):
        fetch_split("tinystories", "valid", tmp_path, source=server.url)
    assert names_in(tmp_path) == []


def test_a_server_that_announces_more_is_refused_at_once(server, tmp_path):
    server.offer_ranges(PLAIN, TEXT + b"more")
    with pytest.raises(DownloadError, match=r"announces .* bytes, and the file has"):
        fetch_split("tinystories", "valid", tmp_path, source=server.url)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("name", [PLAIN, "owt_valid.txt.gz"])
def test_an_answer_without_an_end_is_cut_off(server, tmp_path, name):
    sent = []

    def answer(handler):
        handler.start(200, {"Transfer-Encoding": "chunked", "ETag": '"1"'})
        block = b"100000\r\n" + PACKED[:2] + bytes((1 << 20) - 2) + b"\r\n"
        try:
            while len(sent) < 1000:
                handler.wfile.write(block)
                sent.append(1)
        except OSError:
            pass

    handler_of = server.answers
    handler_of[f"/mirror/{name}"] = answer
    dataset = "owt" if name.startswith("owt") else "tinystories"
    with pytest.raises(DownloadError, match="sends more than"):
        fetch_split(dataset, "valid", tmp_path, source=server.url)
    assert names_in(tmp_path) == []
    assert len(sent) < 100


def test_an_answer_without_a_length_that_ends_early_is_resumed(server, tmp_path):
    answers = []

    def answer(handler):
        answers.append(handler.headers.get("Range"))
        start = 500_000 if answers[-1] else 0
        headers = {"ETag": '"1"', "Content-Range": f"bytes {start}-/*" if start else None}
        handler.start(206 if start else 200, headers)  # it ends when the connection is closed
        handler.wfile.write(TEXT[start:] if start else TEXT[:500_000])

    server.answers[f"/mirror/{PLAIN}"] = answer
    fetch(server, tmp_path)
    assert answers == [None, "bytes=500000-"]


def test_a_redirection_without_an_end_is_not_read(server, tmp_path):
    def answer(handler):
        handler.start(302, {"Location": "/mirror/moved", "Transfer-Encoding": "chunked"})
        try:
            while True:
                handler.wfile.write(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
        except OSError:
            pass

    server.answers[f"/mirror/{PLAIN}"] = answer
    server.offer_ranges("moved", TEXT)
    fetch(server, tmp_path)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (PLAIN, "redirects more than 10 times"),
        ("file:///etc/passwd", "redirects to 'file:///etc/passwd'"),
        ("http://", "redirects|http"),
        ("http://a..b/x", r"a\.\.b"),
        ("http://[x", r"cannot fetch .* redirects to 'http://\[x'"),
    ],
)
def test_redirections_have_limits(server, tmp_path, target, reason):
    server.offer(PLAIN, b"", 302, Location=target)
    with pytest.raises(DownloadError, match=reason):
        fetch_split("tinystories", "valid", tmp_path, source=server.url)
    assert names_in(tmp_path) == []


def test_redirections_keep_the_range(server, tmp_path):
    server.offer(PLAIN, b"", 307, Location="moved")
    server.offer_ranges("moved", TEXT, breaks=[1000])
    fetch(server, tmp_path)
    assert server.ranges[-1] == ("bytes=1000-", '"1"')


# ------------------------------------------------------------------ one at a time


def test_two_downloads_of_one_file_are_kept_apart(server, tmp_path):
    pytest.importorskip("fcntl")
    arrived, go_on = threading.Event(), threading.Event()

    def answer(handler):
        handler.start(200, {"Content-Length": str(len(TEXT))})
        handler.wfile.write(TEXT[:1000])
        handler.wfile.flush()
        arrived.set()
        go_on.wait(60)
        handler.wfile.write(TEXT[1000:])

    server.answers[f"/mirror/{PLAIN}"] = answer
    first = threading.Thread(target=fetch, args=(server, tmp_path))
    first.start()
    arrived.wait(60)
    with pytest.raises(DownloadError, match="another process is downloading it"):
        fetch_split("tinystories", "valid", tmp_path, source=server.url)
    go_on.set()
    first.join(60)
    assert (tmp_path / PLAIN).read_bytes() == TEXT


def _fetch_forever(url, directory):
    fetch_split("tinystories", "valid", directory, source=url)


def test_a_killed_download_is_continued(server, tmp_path):
    arrived = threading.Event()

    def answer(handler):
        handler.start(200, {"Content-Length": str(len(TEXT)), "ETag": '"1"'})
        handler.wfile.write(TEXT[: 2 << 20])
        handler.wfile.flush()
        arrived.wait(60)

    server.answers[f"/mirror/{PLAIN}"] = answer
    # Forked, so that the process has the registry of this one.
    process = multiprocessing.get_context("fork").Process(
        target=_fetch_forever, args=(server.url, tmp_path)
    )
    process.start()
    part = tmp_path / PART
    while not part.exists() or part.stat().st_size < 1 << 20:
        assert process.is_alive()
        process.join(0.01)
    process.kill()
    process.join(60)
    arrived.set()
    held = part.stat().st_size
    server.ranges.clear()
    server.offer_ranges(PLAIN, TEXT)
    fetch(server, tmp_path)
    assert server.ranges == [(f"bytes={held}-", '"1"')]
