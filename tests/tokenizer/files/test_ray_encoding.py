"""Encoding on a Ray cluster gives the same ids as one machine, even if workers or machines die."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cs336_basics._support.errors import MissingFileError, OutputExistsError
from cs336_basics.execution.executors import SerialExecutor
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import Tokenizer, encode_file, load_document_starts
from cs336_basics.tokenizer.files import ray_encoding
from cs336_basics.tokenizer.files.joined_tokens import load_token_files, open_token_files
from cs336_basics.tokenizer.files.ray_encoding import encode_files_ray
from tests.errors import rejects
from tests.processes import wait
from tests.ray_nodes import a_worker_killed, cluster_of
from tests.tokenizer.examples import END, TRAINING_TEXT, small_tokenizer
from tests.tokenizer.files.corpus_files import TEXT, metadata_of, write_inputs

# This pattern cannot be compiled, so encoding is slow enough for a process to be killed.
SLOW = r"\w+\b|[^\w\s]+|\s+"


@pytest.fixture
def texts(tmp_path):
    """Return the paths of a few text files."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(5):
        text = TRAINING_TEXT + END + f"number {number}" * (5 - number)
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return sorted(folder.iterdir())


@pytest.fixture
def tasks_here(monkeypatch):
    """Run tasks in this process, without Ray. Return a list that collects the encoded files."""
    encoded = []

    class Here(SerialExecutor):
        def map_ordered(self, job, pieces, done):
            for piece, partial in zip(pieces, super().map_ordered(job, pieces, done), strict=True):
                encoded.append(os.path.basename(piece.shown))
                yield partial

    monkeypatch.setattr(ray_encoding, "executor", lambda name, num_workers, ray_address: Here())
    return encoded


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def joined_starts(directory):
    starts, offset = [], 0
    for file in open_token_files(str(directory / "*.npy")):
        starts.append(file.document_starts() + offset)
        offset += len(file.tokens)
    return np.concatenate(starts)


@pytest.mark.parametrize("end_of_document", [None, END])
def test_joined_token_files_equal_the_file_of_one_machine(local_ray, tmp_path, end_of_document):
    files = [path for path, _ in write_inputs(tmp_path / "inputs")]
    files = [path for path in files if path.suffix != ".parquet"]
    files.append(f"file://{files[0]}")
    corpus = Corpus(files, field="text")
    options = {"document_starts": True, "end_of_document": end_of_document}
    tokenizer = small_tokenizer()
    tokenizer.source = "somewhere"
    with pytest.warns(UserWarning, match="UTF-8") as expected:
        one = encode_file(tokenizer, corpus, tmp_path / "one.npy", **options)
    with pytest.warns(UserWarning, match="UTF-8") as warned:
        many = encode_files_ray(tokenizer, corpus, tmp_path / "many", **options)
    assert str(warned[0].message) == str(expected[0].message)
    ids = load_token_files(str(tmp_path / "many" / "*.npy"))
    assert ids[:].tobytes() == np.load(tmp_path / "one.npy").tobytes()
    starts = joined_starts(tmp_path / "many")
    assert starts.tolist() == load_document_starts(tmp_path / "one.npy").tolist()
    assert {name: one[name] for name in many if name in one} == {
        name: many[name] for name in many if name in one
    }
    assert (many["num_files"], many["num_kept"]) == (len(files) - 1, 0)  # c.txt is empty
    expected = [f"{index:05}.npy" for index, file in enumerate(files) if "c.txt" not in str(file)]
    assert names(tmp_path / "many") == expected
    assert metadata_of(tmp_path / "many" / "00003.npy")["source"] == str(files[3])
    assert metadata_of(tmp_path / "many" / "00003.npy")["tokenizer"] == "somewhere"


def test_tables_are_encoded(tasks_here, tmp_path):
    files = [path for path, _ in write_inputs(tmp_path / "inputs")]
    corpus = Corpus(files[-1], column="body")
    encode_files_ray(small_tokenizer(), corpus, tmp_path / "many")
    encode_file(small_tokenizer(), corpus, tmp_path / "one.npy")
    ids = load_token_files(tmp_path / "many" / "00000.npy")
    assert ids.tolist() == np.load(tmp_path / "one.npy").tolist()


def test_relative_paths_mean_the_same_on_every_machine(local_ray, texts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    encode_files_ray(small_tokenizer(), "texts/*.txt", "out")
    assert len(names(tmp_path / "out")) == 5
    assert metadata_of(tmp_path / "out" / "00001.npy")["source"] == os.path.join("texts", "1.txt")


def test_normalized_text_gets_the_same_ids_on_ray(local_ray, tmp_path):
    text = ("e\u0301 A\u030a \u1100\u1161" + END + "plain ") * 90
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    definition = small_tokenizer().definition.replaced(normalizer="NFC")
    tokenizer = Tokenizer.of(definition)
    encode_files_ray(tokenizer, path, tmp_path / "tokens")
    ids = load_token_files(str(tmp_path / "tokens" / "*.npy"))
    assert ids[:].tolist() == tokenizer.encode(text)


def test_finished_token_files_are_kept(tasks_here, texts, tmp_path):
    out, unfinished = tmp_path / "out", tmp_path / "out.unfinished"
    tokenizer = small_tokenizer()
    expected = encode_files_ray(tokenizer, texts, out, document_starts=True)
    os.rename(out, unfinished)  # as if the run had been stopped
    (unfinished / "00001.npy").unlink()
    content = (unfinished / "00003.npy").read_bytes()
    (unfinished / "00003.npy").write_bytes(content[:-1])  # damaged
    (unfinished / ".00001.npy.1-01234567.tmp").write_bytes(b"by a task that was killed")
    kept = {name: (unfinished / name).stat().st_mtime_ns for name in ("00000.npy", "00004.npy")}
    tasks_here.clear()
    again = encode_files_ray(tokenizer, texts, out, document_starts=True)
    assert sorted(tasks_here) == ["1.txt", "3.txt"]
    assert again == {**expected, "num_kept": 3}
    assert {name: (out / name).stat().st_mtime_ns for name in kept} == kept
    assert (out / "00003.npy").read_bytes() == content
    assert names(out) == [f"0000{number}.npy" for number in range(5)]
    assert not unfinished.exists()


def test_kept_token_files_warn_like_new_ones(tasks_here, tmp_path):
    (tmp_path / "a.txt").write_bytes(TEXT)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"not \xff UTF-8"))
    messages = []
    for _ in range(2):
        with pytest.warns(UserWarning, match="UTF-8") as caught:
            encode_files_ray(small_tokenizer(), str(tmp_path / "?.txt*"), tmp_path / "out")
        messages.append([str(one.message) for one in caught])
        os.rename(tmp_path / "out", tmp_path / "out.unfinished")
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("text", "stored_bytes"),
        ("time", "changed_ns"),
        ("name", "source"),
        ("tokenizer", "tokenizer"),
        ("option", "document_starts"),
        ("errors", "errors"),
    ],
)
def test_two_texts_are_never_mixed(tasks_here, texts, tmp_path, change, named):
    tokenizer, options, errors = small_tokenizer(), {}, "replace"
    encode_files_ray(tokenizer, texts, tmp_path / "out")
    os.rename(tmp_path / "out", tmp_path / "out.unfinished")
    before = {path: path.read_bytes() for path in (tmp_path / "out.unfinished").iterdir()}
    if change == "text":
        texts[2].write_text("another text")
    elif change == "time":
        os.utime(texts[2], (5, 5))
    elif change == "name":
        texts[2] = texts[2].rename(tmp_path / "moved.txt")
    elif change == "tokenizer":
        tokenizer = small_tokenizer((END, "<more>"))
    elif change == "errors":
        errors = "strict"
    else:
        options["document_starts"] = True
    with rejects(None, named, place=tmp_path / "out.unfinished"):
        encode_files_ray(tokenizer, Corpus(texts, errors=errors), tmp_path / "out", **options)
    assert {path: path.read_bytes() for path in before} == before


def test_a_token_file_with_a_false_number_of_tokens_is_encoded_again(tasks_here, texts, tmp_path):
    expected = encode_files_ray(small_tokenizer(), texts, tmp_path / "out")
    before = (tmp_path / "out" / "00002.npy").read_bytes()
    os.rename(tmp_path / "out", tmp_path / "out.unfinished")
    number = metadata_of(tmp_path / "out.unfinished" / "00002.npy")["num_tokens"]
    false = before.replace(b'"num_tokens": %d' % number, b'"num_tokens": %d' % (number - 1))
    assert before != false
    assert len(before) == len(false)
    (tmp_path / "out.unfinished" / "00002.npy").write_bytes(false)
    again = encode_files_ray(small_tokenizer(), texts, tmp_path / "out")
    assert again == expected | {"num_kept": 4}
    assert (tmp_path / "out" / "00002.npy").read_bytes() == before


def test_a_token_file_with_a_changed_id_is_encoded_again(tasks_here, texts, tmp_path):
    expected = encode_files_ray(small_tokenizer(), texts, tmp_path / "out")
    before = (tmp_path / "out" / "00002.npy").read_bytes()
    os.rename(tmp_path / "out", tmp_path / "out.unfinished")
    ids = np.load(tmp_path / "out.unfinished" / "00002.npy", mmap_mode="r+")
    ids[len(ids) // 2] ^= 1
    ids.flush()
    assert (tmp_path / "out.unfinished" / "00002.npy").read_bytes() != before
    again = encode_files_ray(small_tokenizer(), texts, tmp_path / "out")
    assert again == expected | {"num_kept": 4}
    assert (tmp_path / "out" / "00002.npy").read_bytes() == before


def test_links_in_the_unfinished_folder_are_refused(tasks_here, texts, tmp_path):
    other, link = tmp_path / "other", tmp_path / "out.unfinished" / "00002.npy"
    other.write_text("of somebody else")
    link.parent.mkdir()
    link.symlink_to(other)
    with rejects(None, link):
        encode_files_ray(small_tokenizer(), texts, tmp_path / "out")
    assert other.read_text() == "of somebody else"


def test_an_unfinished_folder_that_is_a_link_is_refused(tasks_here, texts, tmp_path):
    other, link = tmp_path / "other", tmp_path / "out.unfinished"
    other.mkdir()
    link.symlink_to(other)
    with rejects(None, link):
        encode_files_ray(small_tokenizer(), texts, tmp_path / "out")
    assert names(other) == []


def test_a_directory_with_other_files_is_rejected(tasks_here, texts, tmp_path):
    encode_files_ray(small_tokenizer(), texts, tmp_path / "out")
    with rejects(None, tmp_path / "out", kind=OutputExistsError):
        encode_files_ray(small_tokenizer(), texts, tmp_path / "out")
    os.rename(tmp_path / "out", tmp_path / "out.unfinished")
    with rejects(None, "out.unfinished", "'0000"):
        encode_files_ray(small_tokenizer(), texts[:3], tmp_path / "out")


def test_errors_of_tasks_reach_the_caller_and_the_rest_is_kept(local_ray, texts, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"ab\xff")
    corpus = Corpus([*texts, bad], errors="strict")
    with rejects(None, "0xff", 2, place="bad.txt"):
        encode_files_ray(small_tokenizer(), corpus, tmp_path / "out", num_workers=1)
    assert not (tmp_path / "out").exists()
    bad.write_bytes(b"abc")
    done = encode_files_ray(small_tokenizer(), corpus, tmp_path / "out")
    assert (done["num_files"], done["num_kept"]) == (6, 5)


def test_a_directory_that_is_not_shared_is_an_error(local_ray, texts, tmp_path, monkeypatch):
    # Token files that other machines write are not visible.
    monkeypatch.setattr(Path, "exists", lambda path: False)
    with rejects(None, place=".npy", kind=MissingFileError):
        encode_files_ray(small_tokenizer(), texts, tmp_path / "out")


def slow_texts(folder, num_files, num_words):
    folder.mkdir()
    for number in range(num_files):
        words = (f"w{number}x{word} " for word in range(num_words))
        (folder / f"{number:02}.txt").write_text("".join(words))
    return str(folder / "*.txt")


def test_a_killed_worker_costs_a_retry(local_ray, tmp_path):
    texts = slow_texts(tmp_path / "texts", 4, 50_000)
    tokenizer = small_tokenizer(pattern=SLOW)
    with a_worker_killed("EncodeShardJob"):
        encode_files_ray(tokenizer, texts, tmp_path / "out")
    encode_file(tokenizer, texts, tmp_path / "one.npy", num_workers=1)
    ids = load_token_files(str(tmp_path / "out" / "*.npy"))
    assert ids[:].tobytes() == np.load(tmp_path / "one.npy").tobytes()
    assert names(tmp_path / "out") == [f"0000{number}.npy" for number in range(4)]


class Job:
    """An `encode` command that runs slowly on a cluster, in another process."""

    def __init__(self, folder):
        self.folder = folder
        self.texts = slow_texts(folder / "texts", 10, 150_000)
        self.unfinished = folder / "out.unfinished"
        self.tokenizer = small_tokenizer(pattern=SLOW)
        self.tokenizer.save(folder / "tokenizer")

    def start(self, cluster):
        command = [
            sys.executable, "-m", "cs336_basics", "encode", "--ray", cluster.address,
            "--tokenizer", str(self.folder / "tokenizer"), "--input", self.texts,
            "--output", str(self.folder / "out"),
        ]  # fmt: skip
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)

    def finished(self):
        return sorted(self.unfinished.glob("*.npy"))

    def check_result(self):
        encode_file(self.tokenizer, self.texts, self.folder / "one.npy", num_workers=2)
        ids = load_token_files(str(self.folder / "out" / "*.npy"))
        assert ids[:].tobytes() == np.load(self.folder / "one.npy").tobytes()
        assert len(names(self.folder / "out")) == 10
        assert not self.unfinished.exists()


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


@pytest.mark.slow
def test_a_killed_machine_costs_the_files_it_was_encoding(job):
    with cluster_of(3) as cluster, job.start(cluster) as run:
        wait(lambda: len(job.finished()) >= 2, 120)
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        output, error = run.communicate()
    assert run.returncode == 0, error
    assert "token files      10\n" in output
    job.check_result()


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["all machines with CPUs", "the head node", "the whole cluster"])
def test_a_lost_cluster_is_an_error_within_10_s_and_costs_only_the_rest(job, lost):
    with cluster_of(2) as cluster, job.start(cluster) as run:
        wait(lambda: len(job.finished()) >= 2, 120)
        if lost == "the head node":
            cluster.head_node.kill_gcs_server()
        else:
            for node in list(cluster.worker_nodes):
                cluster.remove_node(node, allow_graceful=False)
        if lost == "the whole cluster":
            cluster.remove_node(cluster.head_node, allow_graceful=False)
        killed = time.monotonic()
        error = run.communicate()[1]
        seconds = time.monotonic() - killed
    assert run.returncode == 1, error
    assert seconds < 10
    last = error.splitlines()[-1]
    assert "has a CPU any more" in last or "has not answered" in last
    kept = {path.name: path.stat().st_mtime_ns for path in job.finished()}
    assert 2 <= len(kept) < 10
    with cluster_of(2) as cluster, job.start(cluster) as run:
        output, error = run.communicate()
    assert run.returncode == 0, error
    assert f"token files      10, {len(kept)} kept\n" in output
    job.check_result()
    out = job.folder / "out"
    assert {name: (out / name).stat().st_mtime_ns for name in kept} == kept
