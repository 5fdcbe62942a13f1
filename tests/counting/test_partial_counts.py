"""Counting on a local Ray cluster with two workers, and partial counts that are kept."""

import functools
import gzip
import json
import subprocess
import sys
import time
from collections import Counter

import pytest

from cs336_basics.__main__ import main
from cs336_basics._support.errors import MissingFileError
from cs336_basics.counting import count_text, count_words, partial_counts
from cs336_basics.counting.count_job import CountJob
from cs336_basics.counting.partial_counts import KeptCountJob
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from cs336_basics.text.corpus import DEFAULT_PIECE_SIZE
from tests.counting.hostile import EOT, SPLITTER
from tests.errors import rejects
from tests.processes import wait
from tests.ray_nodes import a_worker_killed, cluster_of

TEXT = (f"It's the dogs' bone, isn't it? 好的 é 12,345.67\n{EOT}\n" * 400).encode()


count_on_ray = functools.partial(count_words, execution="ray")


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT + b"\xff tail")
    return path


def test_files_of_every_kind_are_counted_together(local_ray, text_file, tmp_path):
    (tmp_path / "more.txt.gz").write_bytes(gzip.compress(TEXT))
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": "ab cd"}) + "\n" for _ in range(50)))
    expected = Counter({b"ab": 50, b" cd": 50})
    for _ in range(2):
        expected.update(count_words(text_file, SPLITTER, execution="serial"))
    expected.update(count_text(TEXT.decode(), SPLITTER))
    files = [text_file, str(tmp_path / "more*.gz"), rows, f"file://{text_file}"]
    corpus = Corpus(files, field="text")
    counts = count_on_ray(corpus, SPLITTER, chunk_size=700)
    assert counts == expected


@pytest.mark.parametrize("times", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_errors_of_tasks_reach_the_caller(local_ray, text_file, times):
    # Cancelling the other tasks used to abort this process if a task was about to end.
    for _ in range(times):
        with rejects(None, "0xff", "26,000", place="text.txt"):
            count_on_ray(Corpus(text_file, errors="strict"), SPLITTER, chunk_size=1000)
    assert count_on_ray(text_file, SPLITTER) == count_words(text_file, SPLITTER, execution="serial")


def test_missing_and_empty_files_are_rejected(local_ray, tmp_path):
    with rejects(None, "missing.txt", kind=MissingFileError):
        count_on_ray(tmp_path / "missing.txt")
    (tmp_path / "empty.txt").touch()
    with rejects(None, place="empty.txt"):
        count_on_ray(tmp_path / "empty.txt")


def test_a_killed_worker_costs_a_retry(local_ray, tmp_path):
    # The pattern cannot be compiled, so counting is slow and leaves time to kill a worker.
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT * 20)
    splitter = Splitter(r"\w+\b|[^\w\s]+|\s+", [EOT])
    expected = count_words(path, splitter, execution="serial")
    with a_worker_killed("CountJob"):
        counts = count_on_ray(path, splitter, chunk_size=60_000)
    assert counts == expected


def test_normalized_text_is_counted_on_ray(local_ray, text_file, tmp_path):
    splitters = [Splitter("gpt2", [EOT], form) for form in ("NFD", "NFC", None)]
    folder, found = tmp_path / "partial", []
    for splitter in splitters:  # with one directory: the counts of another form are not reused
        counts = count_on_ray(text_file, splitter, chunk_size=3000, partial_counts=folder)
        assert counts == count_words(text_file, splitter, execution="serial")
        assert counts.normalizer == splitter.normalizer
        found.append(counts)
    assert found[0] != found[1] == found[2]
    again = count_words(text_file, splitters[0], chunk_size=3000, partial_counts=folder)
    assert again == found[0]
    assert again.normalizer == "NFD"


def test_partial_counts_are_not_counted_again(local_ray, text_file, tmp_path):
    folder = tmp_path / "new" / "partial"
    expected = count_words(text_file, SPLITTER, execution="serial")
    messages = []

    def count():
        with pytest.warns(UserWarning, match=r"UTF-8.*\b1\b") as caught:
            counts = count_on_ray(text_file, SPLITTER, chunk_size=3000, partial_counts=folder)
        messages.append([str(one.message) for one in caught])
        return counts

    assert count() == expected
    kept = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert len(kept) == 2 * len(Corpus(text_file).pieces(3000))
    removed = sorted(folder.glob("*.npz"))[:2]
    removed[0].unlink()
    removed[1].write_bytes(removed[1].read_bytes()[:-1])  # damaged
    assert count() == expected
    assert messages[0] == messages[1]  # kept counts warn like new ones
    again = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    changed = {path for path in kept if again[path] != kept[path]}
    assert again.keys() == kept.keys()
    assert changed == {path.with_suffix(end) for path in removed for end in (".npz", ".json")}


@pytest.mark.parametrize("change", ["text", "pattern", "special tokens", "chunk size", "errors"])
def test_partial_counts_are_used_only_for_the_same_text_and_options(text_file, tmp_path, change):
    def kept(splitter):
        return KeptCountJob(CountJob(splitter, "compiled"), str(tmp_path))

    piece = Corpus(text_file).pieces(3000)[0]
    counts, _ = kept(SPLITTER).run(piece)
    splitter = SPLITTER
    if change == "text":
        text_file.write_bytes(TEXT.replace(b"dogs", b"cats") + b"\xff tail")
    elif change == "pattern":
        splitter = Splitter("cl100k", [EOT])
    elif change == "special tokens":
        splitter = Splitter()
    elif change == "errors":
        piece = Corpus(text_file, errors="strict").pieces(3000)[0]
    else:
        piece = Corpus(text_file).pieces(5000)[0]
    again, _ = kept(splitter).run(piece)
    assert (again == counts) == (change == "errors")
    assert again == CountJob(splitter, "regex").run(piece)[0]
    assert len(list(tmp_path.glob("*.npz"))) == 2


def test_partial_counts_are_used_only_with_the_same_unicode_version(text_file, monkeypatch):
    (piece,) = Corpus(text_file).pieces()
    job = KeptCountJob(CountJob(SPLITTER, "compiled"), "folder")
    before = job.key(piece)
    monkeypatch.setattr(partial_counts, "unicode_version", lambda: "18.5")
    assert job.key(piece) != before


@pytest.mark.parametrize("execution", ["serial", "processes"])
def test_partial_counts_need_no_cluster(text_file, tmp_path, execution):
    how = {"execution": execution, "num_workers": 2, "chunk_size": 3000}
    for _ in range(2):
        counts = count_words(text_file, SPLITTER, partial_counts=tmp_path / "kept", **how)
        assert counts == count_words(text_file, SPLITTER)
    assert len(list((tmp_path / "kept").glob("*.npz"))) == len(Corpus(text_file).pieces(3000))


def test_a_text_of_less_than_a_gigabyte_has_one_partial_count_for_any_number_of_workers(tmp_path):
    path, folder = tmp_path / "text.txt", tmp_path / "partial"
    path.write_bytes(b"a few words, again and again\n" * 1_200_000)
    assert path.stat().st_size > DEFAULT_PIECE_SIZE  # of counts that are not kept
    for num_workers in (1, 2):
        how = {"execution": "serial", "num_workers": num_workers, "partial_counts": folder}
        assert count_words(path, SPLITTER, **how)[b" again"] == 2_400_000
        assert len(list(folder.glob("*.npz"))) == 1


def test_partial_counts_of_another_piece_are_not_used(tmp_path):
    job = KeptCountJob(CountJob(SPLITTER, "compiled"), str(tmp_path))
    pieces = []
    for text in ("the first", "the second"):
        path = tmp_path / f"{text}.txt"
        path.write_text(text)
        (piece,) = Corpus(path).pieces()
        pieces.append(piece)
        job.run(piece)
    first, second = (tmp_path / job.key(piece) for piece in pieces)
    for ends in ((".npz",), (".npz", ".json")):
        for end in ends:
            second.with_suffix(end).write_bytes(first.with_suffix(end).read_bytes())
        assert dict(job.run(pieces[1])[0]) == {b"the": 1, b" second": 1}


def test_links_to_partial_counts_are_refused(text_file, tmp_path):
    folder, other = tmp_path / "partial", tmp_path / "other"
    folder.mkdir()
    other.write_text("of somebody else")
    (piece,) = Corpus(text_file).pieces()
    key = KeptCountJob(CountJob(SPLITTER, "compiled"), str(folder)).key(piece)
    link = folder / f"{key}.npz"
    link.symlink_to(other)
    with rejects(None, link):
        count_words(text_file, SPLITTER, partial_counts=folder, execution="serial")
    assert other.read_text() == "of somebody else"


def arguments(cluster, path, folder):
    command = [sys.executable, "-m", "cs336_basics", "train-bpe", "--input", str(path)]
    output = ["--output", str(folder / "tokenizer"), "--vocab-size", "300"]
    ray = ["--ray", cluster.address, "--partial-counts", str(folder / "partial")]
    # The pattern cannot be compiled, so counting is slow.
    return [*command, *output, *ray, "--pattern", r"\w+\b|[^\w\s]+|\s+"]


@pytest.mark.slow
def test_a_lost_head_node_costs_only_the_rest(tmp_path):
    files = []
    for number in range(12):
        files.append(tmp_path / f"{number:02}.txt")
        words = (f"w{number}x{word} " for word in range(150_000))
        files[-1].write_text("".join(words))
    partial = tmp_path / "partial"
    with cluster_of(2) as cluster:
        job = arguments(cluster, tmp_path / "*.txt", tmp_path)
        with subprocess.Popen(job, stderr=subprocess.PIPE, text=True) as run:
            wait(lambda: run.poll() or len(list(partial.glob("*.npz"))) >= 3, 120)
            cluster.head_node.kill_gcs_server()
            killed = time.monotonic()
            error = run.communicate()[1]
            seconds = time.monotonic() - killed
    assert seconds < 10
    assert run.returncode == 1
    assert "the head node of the Ray cluster has not answered" in error.splitlines()[-1]
    kept = {path: path.stat().st_mtime_ns for path in partial.glob("*.npz")}
    assert 3 <= len(kept) < 12
    with cluster_of(2) as cluster:
        subprocess.run(arguments(cluster, tmp_path / "*.txt", tmp_path), check=True)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    one = ["train-bpe", "--input", str(tmp_path / "*.txt"), "--output", str(tmp_path / "one")]
    assert main([*one, "--vocab-size", "300", "--pattern", r"\w+\b|[^\w\s]+|\s+"]) == 0
    read = [(tmp_path / name / "tokenizer.json").read_bytes() for name in ("one", "tokenizer")]
    assert read[0] == read[1]
