"""Texts, counts and token files on a local S3 server that fails, stalls and breaks off."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter

import pytest

from cs336_basics.__main__ import main
from cs336_basics._support.errors import MissingFileError
from cs336_basics.counting import count_words
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from cs336_basics.tokenizer.files.ray_encoding import encode_files_ray
from cs336_basics.tokenizer.files.token_folders import download_token_files
from tests.errors import rejects
from tests.s3_server import s3_server
from tests.tokenizer.examples import END, TRAINING_TEXT, small_tokenizer

FAULTS = ["slow_down", "internal_error", "no_answer", "broken_body", "stall"]
SPLITTER = Splitter(special_tokens=[END])


@pytest.fixture(scope="module")
def server():
    with s3_server() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def ray_beside_s3(server, local_ray):
    return local_ray


@pytest.fixture
def s3(server):
    """Return fsspec's file system of an empty bucket without faults."""
    import fsspec

    server.reset()
    system = fsspec.filesystem("s3")
    system.invalidate_cache()
    for name in system.find("data"):
        system.rm_file(name)
    server.reset()
    return system


def put(s3, folder):
    """Write texts of several kinds to a local folder and to the bucket, and return their names."""
    folder.mkdir()
    text = (TRAINING_TEXT + END) * 20
    contents = {
        "a.txt": text.encode(),
        "b.txt.gz": gzip.compress(b"number 2 " * 1000),
        "c.jsonl": "".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(500)).encode(),
        "d.txt": "é 好 ".encode() * 3000,
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        s3.pipe_file(f"data/texts/{name}", content)
    return list(contents)


@pytest.fixture
def texts(s3, tmp_path):
    """Return a Corpus of local files, and one of the same files in the bucket."""
    put(s3, tmp_path / "texts")
    local = Corpus(str(tmp_path / "texts" / "*"), field="text")
    return local, Corpus("s3://data/texts/*", field="text")


def test_a_glob_finds_objects(texts):
    _, stored = texts
    assert [url.rsplit("/", 1)[1] for url in stored.files] == [
        "a.txt",
        "b.txt.gz",
        "c.jsonl",
        "d.txt",
    ]
    sizes = [[source.num_bytes for source in corpus.sources] for corpus in texts]
    assert sizes[0] == sizes[1]
    with rejects(None, "'s3://data/none/*'", kind=MissingFileError):
        Corpus("s3://data/none/*")


def test_web_pages_are_read(server, texts):
    local, _ = texts
    urls = [f"{server.url}/data/texts/{name}" for name in ("a.txt", "b.txt.gz", "c.jsonl", "d.txt")]
    stored = Corpus(urls, field="text")
    expected = count_words(local, SPLITTER, execution="serial")
    assert count_words(stored, SPLITTER, execution="serial", chunk_size=10_000) == expected
    with pytest.raises(FileNotFoundError, match=f"{server.url}/data/none.txt"):
        count_words(f"{server.url}/data/none.txt", SPLITTER, execution="serial")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_that_fails_is_sent_again(server, texts, fault):
    local, stored = texts
    expected = count_words(local, SPLITTER, execution="serial")
    server.fault = lambda method, path, number: (
        fault if method == "GET" and path.startswith("/data/texts/") and number == 0 else None
    )
    assert count_words(stored, SPLITTER, execution="serial", chunk_size=10_000) == expected
    assert len(server.faults) == 4


@pytest.mark.parametrize(
    "name",
    ["a.txt", *(pytest.param(name, marks=pytest.mark.slow) for name in ("b.txt.gz", "c.jsonl"))],
)
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("slow_down", "Please reduce your request rate"),
        ("internal_error", "We encountered an internal error"),
        ("no_answer", "Connection was closed|Could not connect|Server disconnected"),
        ("broken_body", "Response payload is not completed|IncompleteRead"),
        ("stall", "timed out"),
    ],
)
def test_a_request_that_always_fails_is_an_error_with_the_url(
    server, texts, fault, reason, name, monkeypatch
):
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 2)  # instead of five, to save time
    server.fault = lambda method, path, number: (
        fault if method == "GET" and path.endswith(name) else None
    )
    corpus = Corpus(f"s3://data/texts/{name}", field="text" if name == "c.jsonl" else None)
    with pytest.raises(OSError, match=reason) as caught:
        count_words(corpus, SPLITTER, execution="serial")
    assert caught.value.filename == f"s3://data/texts/{name}"
    assert len(str(caught.value).splitlines()) == 1


def test_missing_objects_buckets_and_permissions_are_errors_with_the_url(server, s3, capsys):
    for url in ("s3://data/missing.txt", "s3://none/missing.txt"):
        with pytest.raises(FileNotFoundError) as caught:
            count_words(url, SPLITTER, execution="serial")
        assert caught.value.filename == url
    assert main(["train-bpe", "--input", url, "--vocab-size", "300", "--output", "t"]) == 2
    assert capsys.readouterr().err == (
        "cs336 train-bpe: error: s3://none/missing.txt: The specified bucket does not exist\n"
    )
    with rejects(None, "nowhere://x"):
        count_words("nowhere://x", SPLITTER, execution="serial")


def test_counts_over_ray_equal_those_of_one_machine_whatever_fails(
    server, ray_beside_s3, texts, tmp_path, capsys
):
    local, _ = texts
    faults = iter(FAULTS * 100)
    server.fault = lambda method, path, number: (
        next(faults) if method != "HEAD" and number == 0 and "." in path else None
    )
    one, many = tmp_path / "one", tmp_path / "many"
    train = ["train-bpe", "--vocab-size", "300", "--field", "text", "--special-token", END]
    assert main([*train, "--input", *local.files, "--output", str(one)]) == 0
    stored = ["--input", "s3://data/texts/*", "--ray", "auto"]
    stored += ["--partial-counts", "s3://data/counts"]
    assert main([*train, *stored, "--output", str(many)]) == 0
    read = [(folder / "tokenizer.json").read_bytes() for folder in (one, many)]
    assert read[0] == read[1]
    assert {fault for _, _, fault in server.faults} == set(FAULTS)


def test_partial_counts_in_a_bucket_are_not_counted_again(server, ray_beside_s3, texts, s3):
    local, stored = texts
    expected = count_words(local, SPLITTER, execution="serial")

    def count(**options):
        return count_words(
            stored, SPLITTER, execution="ray", partial_counts="s3://data/counts/", **options
        )

    assert count() == expected
    assert len(s3.ls("data/counts", refresh=True)) == 8
    removed = sorted(s3.glob("data/counts/*.npz"))[:2]
    s3.rm_file(removed[0])
    s3.pipe_file(removed[1], s3.cat_file(removed[1])[:-1])  # damaged
    server.reset()
    assert count() == expected
    written = {path for method, path in server.numbers if method == "PUT"}
    changed = {f"/{name}".replace(".npz", end) for name in removed for end in (".npz", ".json")}
    assert written == changed
    server.reset()
    time.sleep(1)  # S3 stores the time of an object in whole seconds
    s3.pipe_file("data/texts/d.txt", "ä 好 ".encode() * 3000)  # the same size
    changed = Counter(dict(expected.items()))
    changed.subtract({"é".encode(): 1, " é".encode(): 2999})
    changed.update({"ä".encode(): 1, " ä".encode(): 2999})
    assert count() == +changed


def encoded(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.npy"))}


def test_token_files_in_a_bucket_equal_those_of_a_directory_whatever_fails(
    server, ray_beside_s3, texts, tmp_path, s3, capsys
):
    small_tokenizer().save(tmp_path / "tokenizer")
    faults = iter([fault for fault in FAULTS if fault not in ("broken_body", "stall")] * 100)
    server.fault = lambda method, path, number: (
        next(faults) if method in ("GET", "PUT") and number == 0 and "." in path else None
    )
    encode = ["encode", "--ray", "auto", "--tokenizer", str(tmp_path / "tokenizer")]
    encode += ["--input", "s3://data/texts/*", "--field", "text", "--output"]
    assert main([*encode, str(tmp_path / "local")]) == 0
    assert main([*encode, "s3://data/tokens"]) == 0
    assert "written to       s3://data/tokens" in capsys.readouterr().out
    record = download_token_files("s3://data/tokens", tmp_path / "copy")
    assert encoded(tmp_path / "copy") == encoded(tmp_path / "local")
    assert record["files"] == list(encoded(tmp_path / "local")) == [f"{n:05}.npy" for n in range(4)]
    assert main([*encode, "s3://data/tokens/"]) == 2
    assert "s3://data/tokens is complete; choose another folder" in capsys.readouterr().err
    assert len({fault for _, _, fault in server.faults}) == 3


def test_an_interrupted_output_is_refused_and_keeps_its_token_files(
    server, ray_beside_s3, texts, tmp_path, s3
):
    _, stored = texts
    url = "s3://data/tokens"
    server.fault = lambda method, path, number: (
        "slow_down" if method == "PUT" and path.endswith("complete.json") else None
    )
    with pytest.raises(OSError, match="reduce your request rate") as caught:
        encode_files_ray(small_tokenizer(), stored, url)
    assert caught.value.filename == f"{url}/complete.json"
    with rejects(None, "s3://data/tokens", kind=MissingFileError):
        download_token_files(url, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    s3.rm_file("data/tokens/00001.npy")
    s3.pipe_file("data/tokens/00002.npy", s3.cat_file("data/tokens/00002.npy")[:-1])  # damaged
    server.reset()
    assert encode_files_ray(small_tokenizer(), stored, url)["num_kept"] == 2
    written = sorted(path.rsplit("/", 1)[1] for method, path in server.numbers if method == "PUT")
    assert written == ["00001.npy", "00002.npy", "complete.json"]
    download_token_files(url, tmp_path / "copy")
    encode_files_ray(small_tokenizer(), stored, tmp_path / "local")
    assert encoded(tmp_path / "copy") == encoded(tmp_path / "local")
