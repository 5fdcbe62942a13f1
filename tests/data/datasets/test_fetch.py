"""Where a dataset comes from: a server or a directory; it is complete and verified, or absent."""

import gzip
import hashlib
import json
import shutil
import sys

import pytest

from cs336_basics.data.datasets import DATASETS, dataset_path, fetch
from cs336_basics.data.datasets.fetch import DownloadError, fetch_split
from tests.data.datasets.web_server import PACKED, TEXT, names_in


def test_a_plain_file_is_fetched_recorded_and_then_kept(server, tmp_path):
    server.offer("TinyStoriesV2-GPT4-valid.txt", TEXT)
    path, fetched = fetch_split("tinystories", "valid", tmp_path, source=server.url)
    assert fetched
    assert path == tmp_path / "TinyStoriesV2-GPT4-valid.txt"
    assert path.read_bytes() == TEXT
    assert dataset_path("tinystories", "valid", tmp_path) == path
    assert names_in(tmp_path) == [path.name, path.name + ".json"]
    record = json.loads((tmp_path / (path.name + ".json")).read_text(encoding="utf-8"))
    assert record["url"] == server.url + "/TinyStoriesV2-GPT4-valid.txt"
    assert record["sha256"] == record["fetched_sha256"] == hashlib.sha256(TEXT).hexdigest()
    assert record["num_bytes"] == record["fetched_bytes"] == len(TEXT)
    assert record["licence"] == "CDLA-Sharing-1.0"

    assert fetch_split("tinystories", "valid", tmp_path, source=server.url) == (path, False)
    assert len(server.requests) == 1


def test_a_compressed_file_is_unpacked(server, tmp_path):
    server.offer("owt_train.txt.gz", PACKED, Content_Type="application/gzip")
    path, _ = fetch_split("owt", "train", tmp_path, source=server.url + "/")
    assert path == tmp_path / "owt_train.txt"
    assert path.read_bytes() == TEXT
    assert names_in(tmp_path) == ["owt_train.txt", "owt_train.txt.json"]
    record = json.loads((tmp_path / "owt_train.txt.json").read_text(encoding="utf-8"))
    assert record["fetched_sha256"] == hashlib.sha256(PACKED).hexdigest()
    assert record["sha256"] == hashlib.sha256(TEXT).hexdigest()
    assert (record["fetched_bytes"], record["num_bytes"]) == (len(PACKED), len(TEXT))


def test_a_gz_file_that_the_server_calls_encoded_arrives_whole(server, tmp_path):
    server.offer("owt_valid.txt.gz", PACKED, Content_Encoding="gzip")
    path, _ = fetch_split("owt", "valid", tmp_path, source=server.url)
    assert path.read_bytes() == TEXT


def test_an_answer_without_a_length_and_a_redirection_are_followed(server, tmp_path):
    server.offer("moved", TEXT, Content_Length=None)
    server.offer("TinyStoriesV2-GPT4-train.txt", b"", 302, Location="/mirror/moved")
    path, _ = fetch_split("tinystories", "train", tmp_path, source=server.url)
    assert path.read_bytes() == TEXT


def test_force_replaces_a_file(server, tmp_path):
    path = tmp_path / "owt_valid.txt"
    path.write_bytes(b"mine")
    assert fetch_split("owt", "valid", tmp_path, source=server.url) == (path, False)
    assert path.read_bytes() == b"mine"
    server.offer("owt_valid.txt.gz", PACKED)
    assert fetch_split("owt", "valid", tmp_path, source=server.url, force=True) == (path, True)
    assert path.read_bytes() == TEXT


def test_a_file_that_changed_since_it_was_fetched_is_refused(server, tmp_path):
    server.offer("owt_valid.txt.gz", PACKED)
    path, _ = fetch_split("owt", "valid", tmp_path, source=server.url)
    path.write_bytes(TEXT[:100])
    with pytest.raises(DownloadError, match=r"has 100 bytes.*force=True"):
        fetch_split("owt", "valid", tmp_path, source=server.url)
    record = tmp_path / "owt_valid.txt.json"
    record.write_text("{", encoding="utf-8")
    with pytest.raises(DownloadError, match=r"owt_valid.txt.json cannot be read"):
        fetch_split("owt", "valid", tmp_path, source=server.url)


OTHER = TEXT[:-1] + b"?"


@pytest.mark.parametrize(
    ("body", "status", "headers", "reason"),
    [
        (b"no such file", 404, {}, "answered 404"),
        (b"later", 503, {}, "answered 503"),
        (b"", 204, {}, "answered 204"),
        (PACKED[: len(PACKED) // 2], 200, {}, "the gzip data is damaged"),
        (PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:], 200, {}, "the gzip data is damaged"),
        (PACKED[:40_000] + bytes(200) + PACKED[40_200:], 200, {}, "the gzip data is damaged"),
        (PACKED + b"more", 200, {}, "the gzip data is damaged"),
        (TEXT, 200, {}, "not a gzip file"),
        (b"", 200, {}, "not a gzip file"),
        (b"<html>log in", 200, {"Content_Type": "text/html; charset=utf-8"}, "web page"),
        (PACKED, 200, {"X_Linked_ETag": '"' + "0" * 64 + '"'}, "SHA-256 is not the server's, 0000"),
        (gzip.compress(OTHER, 1), 200, {}, "the SHA-256 of the text is"),
        (gzip.compress(TEXT[:-1], 1), 200, {}, "it has .* bytes, and owt_valid.txt has"),
        (gzip.compress(TEXT + bytes(50 << 20), 1), 200, {}, "it has more than the"),
        (PACKED, 200, {"Content_Length": "9" * 12}, "announces 999,999,999,999 bytes"),
    ],
    ids=[
        "not found",
        "not available",
        "no content",
        "half a gzip file",
        "a wrong checksum",
        "zeros in the middle",
        "garbage at the end",
        "not gzip",
        "empty",
        "a web page",
        "not the announced hash",
        "another text",
        "a shorter text",
        "a text that unpacks to too much",
        "too long a file",
    ],
)
def test_failures_are_reported_and_leave_no_file(server, tmp_path, body, status, headers, reason):
    server.offer("owt_valid.txt.gz", body, status, **headers)
    with pytest.raises(DownloadError, match=reason) as caught:
        fetch_split("owt", "valid", tmp_path, source=server.url)
    message = str(caught.value)
    assert server.url + "/owt_valid.txt.gz" in message
    assert str(tmp_path / "owt_valid.txt") in message
    assert "\n" not in message
    assert names_in(tmp_path) == []


def test_a_failed_replacement_keeps_the_old_file(server, tmp_path):
    server.offer("owt_valid.txt.gz", PACKED)
    path, _ = fetch_split("owt", "valid", tmp_path, source=server.url)
    server.offer("owt_valid.txt.gz", PACKED[:1000])
    with pytest.raises(DownloadError, match="damaged"):
        fetch_split("owt", "valid", tmp_path, source=server.url, force=True)
    assert path.read_bytes() == TEXT
    assert fetch_split("owt", "valid", tmp_path, source=server.url) == (path, False)


def test_the_announced_hash_is_accepted_when_it_is_right(server, tmp_path):
    digest = hashlib.sha256(TEXT).hexdigest()
    name = "TinyStoriesV2-GPT4-valid.txt"
    server.offer("elsewhere", TEXT)
    # As the hub does it: the hash comes with the redirection.
    server.offer(name, b"", 302, Location="/mirror/elsewhere", X_Linked_ETag=f'"{digest}"')
    path, _ = fetch_split("tinystories", "valid", tmp_path, source=server.url)
    assert path.read_bytes() == TEXT
    server.offer("elsewhere", OTHER)
    with pytest.raises(DownloadError, match=digest):
        fetch_split("tinystories", "valid", tmp_path, source=server.url, force=True)


def test_a_full_disk_is_noticed_before_the_download(monkeypatch, tmp_path):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda path: usage._replace(free=10**9))
    with pytest.raises(DownloadError, match=r"about 17.9 GB, and .* has only 1.0 GB free"):
        fetch_split("owt", "train", tmp_path)
    with pytest.raises(DownloadError, match=r"from http://mirror\.example/x/owt_train.txt.gz: it"):
        fetch_split("owt", "train", tmp_path, source="http://mirror.example/x")


@pytest.mark.parametrize("source", ["mirror.example/x", "ftp://mirror.example/x", "", "http://"])
def test_a_source_is_a_directory_or_a_web_address(tmp_path, source):
    with pytest.raises(ValueError, match=r"^source is .*http:// or https://"):
        fetch_split("owt", "train", tmp_path, source=source)


def test_a_text_that_is_generated_has_no_source(tmp_path):
    with pytest.raises(ValueError, match=r"sample_train\.txt is generated"):
        fetch_split("sample", "train", tmp_path, source=tmp_path)


# ------------------------------------------------------------------ directories


@pytest.mark.parametrize(
    ("name", "content"), [("owt_valid.txt", TEXT), ("owt_valid.txt.gz", PACKED)]
)
def test_a_directory_may_have_the_text_or_the_compressed_file(server, tmp_path, name, content):
    (tmp_path / "usb").mkdir()
    (tmp_path / "usb" / name).write_bytes(content)
    path, fetched = fetch_split("owt", "valid", tmp_path / "data", source=tmp_path / "usb")
    assert fetched
    assert path.read_bytes() == TEXT
    record = json.loads((tmp_path / "data" / "owt_valid.txt.json").read_text(encoding="utf-8"))
    assert record["url"] == (tmp_path / "usb" / name).as_uri()
    assert (tmp_path / "usb" / name).read_bytes() == content
    assert server.requests == []


def test_another_text_in_a_directory_is_refused(server, tmp_path):
    (tmp_path / "usb").mkdir()
    for content, reason in ((OTHER, "SHA-256"), (TEXT * 2, "more than"), (TEXT[:9], "has 9 bytes")):
        (tmp_path / "usb" / "owt_valid.txt").write_bytes(content)
        with pytest.raises(DownloadError, match=reason):
            fetch_split("owt", "valid", tmp_path / "data", source=str(tmp_path / "usb"))
        assert names_in(tmp_path / "data") == []
        assert (tmp_path / "usb" / "owt_valid.txt").read_bytes() == content


def test_a_directory_without_the_file_is_refused(server, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no owt_valid\.txt and no owt_valid\.txt\.gz in"):
        fetch_split("owt", "valid", tmp_path / "data", source=tmp_path)


def test_the_data_directory_itself_may_have_the_compressed_file(server, tmp_path):
    (tmp_path / "owt_valid.txt.gz").write_bytes(PACKED)
    path, _ = fetch_split("owt", "valid", tmp_path, source=tmp_path)
    assert path.read_bytes() == TEXT
    with pytest.raises(ValueError, match="name another directory"):
        fetch_split("owt", "valid", tmp_path, source=tmp_path, force=True)
    assert path.read_bytes() == TEXT


# ------------------------------------------------------------------ the Hugging Face hub


def test_hf_endpoint_replaces_the_address_of_the_hub(server, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", server.url + "/")
    server.offer("datasets/stanford-cs336/owt-sample/resolve/main/owt_valid.txt.gz", PACKED)
    path, _ = fetch_split("owt", "valid", tmp_path)
    assert path.read_bytes() == TEXT
    monkeypatch.setenv("HF_ENDPOINT", "huggingface.co")
    with pytest.raises(ValueError, match=r"HF_ENDPOINT is 'huggingface.co': it must start with"):
        fetch_split("owt", "train", tmp_path)


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_hf_hub_offline_forbids_the_hub_only(server, tmp_path, monkeypatch, value):
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    with pytest.raises(DownloadError, match=r"HF_HUB_OFFLINE is set.*source="):
        fetch_split("owt", "valid", tmp_path)
    assert server.requests == []
    server.offer("owt_valid.txt.gz", PACKED)
    path, _ = fetch_split("owt", "valid", tmp_path, source=server.url)
    assert fetch_split("owt", "valid", tmp_path) == (path, False)


def test_hf_hub_offline_may_be_off(server, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    server.offer("datasets/stanford-cs336/owt-sample/resolve/main/owt_valid.txt.gz", PACKED)
    assert fetch_split("owt", "valid", tmp_path)[1]


def test_the_sample_is_generated(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "requests", None)  # an import of it would fail
    path, fetched = fetch_split("sample", "valid", tmp_path)
    assert (path, fetched) == (tmp_path / "sample_valid.txt", True)
    assert path.read_bytes().endswith(b"\n<|endoftext|>\n")
    text = path.read_bytes()
    assert fetch_split("sample", "valid", tmp_path) == (path, False)
    record = json.loads((tmp_path / "sample_valid.txt.json").read_text(encoding="utf-8"))
    assert record["num_bytes"] == DATASETS["sample"].files["valid"].num_bytes == len(text)
    assert record["sha256"] == DATASETS["sample"].files["valid"].sha256
    assert record["sha256"] == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize("has_record", [True, False])
def test_a_truncated_sample_is_refused(tmp_path, has_record):
    path, _ = fetch_split("sample", "valid", tmp_path)
    text = path.read_bytes()
    path.write_bytes(text[:100])
    if not has_record:
        (tmp_path / "sample_valid.txt.json").unlink()
    with pytest.raises(DownloadError, match=r"has 100 bytes.*force=True"):
        fetch_split("sample", "valid", tmp_path)
    assert fetch_split("sample", "valid", tmp_path, force=True) == (path, True)
    assert path.read_bytes() == text
