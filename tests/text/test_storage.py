"""Compressed files are read, and damaged or missing files are rejected."""

import gzip
import os
import sys

import pytest

from cs336_basics._support.errors import UnavailableError
from cs336_basics.counting import count_words
from cs336_basics.counting.count_job import CountJob
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus, storage
from cs336_basics.text.sources import csv, jsonl, plain
from tests.errors import rejects
from tests.text.counted import DOCUMENTS, EOT, RNG, count, expected, json_lines
from tests.tokenizer.files.corpus_files import zstandard

zstd = zstandard()


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+"])
def test_compressed_text_is_counted(tmp_path, compress, pattern):
    text = EOT.join(DOCUMENTS) * 10
    path = tmp_path / ("text.txt.gz" if compress is gzip.compress else "text.txt.zst")
    # Two members, as in the output of `cat a.gz b.gz`.
    half = len(text.encode()) // 2
    path.write_bytes(compress(text.encode()[:half]) + compress(text.encode()[half:]))
    assert count([path], pattern=pattern) == expected([text], pattern)


def test_disk_errors_propagate(tmp_path, monkeypatch):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"abc"))

    def fail(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(gzip.GzipFile, "read", fail)
    with pytest.raises(OSError, match="Input/output error"):
        count_words(Corpus(path), num_workers=1)


@pytest.mark.parametrize("ending", ["txt.gz", "txt.zst", "jsonl.gz", "jsonl.zst"])
@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_damaged_compressed_files_are_rejected(tmp_path, ending, damage):
    # Random letters compress poorly, so the damage is in the middle of the data.
    documents = ["".join(RNG.choices("abcdefghijklmnop ", k=20_000)) for _ in range(20)]
    data = (json_lines(documents) if "jsonl" in ending else "\n".join(documents)).encode()
    packed = gzip.compress(data) if ending.endswith("gz") else zstd.compress(
        data, options={zstd.CompressionParameter.checksum_flag: 1}
    )  # fmt: skip
    half = len(packed) // 2
    packed = packed[:half] if damage == "truncated" else (
        packed[:half] + bytes([packed[half] ^ 255]) + packed[half + 1 :]
    )  # fmt: skip
    path = tmp_path / f"file.{ending}"
    path.write_bytes(packed)
    with rejects(None, place=f"file.{ending}"):
        count([path], field="text" if "jsonl" in ending else None)


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_the_error_for_a_file_that_is_not_compressed_says_so(tmp_path, ending):
    (tmp_path / f"a.txt.{ending}").write_text("Once upon a time")
    with rejects(None, "damaged, truncated or not compressed", place=f"a.txt.{ending}"):
        count([tmp_path / f"a.txt.{ending}"])


def test_deleted_files_are_reported(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json_lines(["a"]))
    (piece,) = Corpus(path, field="text").pieces()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"rows\.jsonl"):
        CountJob(Splitter(), "compiled").run(piece)


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
@pytest.mark.parametrize("name", ["bomb.txt", "bomb.jsonl", "bomb.csv"])
def test_bombs_are_rejected_before_they_are_decompressed(tmp_path, monkeypatch, name, compress):
    ending = ".gz" if compress is gzip.compress else ".zst"
    before = {"txt": "", "jsonl": '{"text": "', "csv": 'text\n"'}[name.split(".")[1]]
    path = tmp_path / (name + ending)
    path.write_bytes(compress(before.encode() + b"a" * (8 << 20)))
    options = {"field": "text"} if "jsonl" in name else {"column": "text"} if "csv" in name else {}
    read = []

    def counted(*arguments, blocks=storage.decompressed_blocks):
        for block in blocks(*arguments):
            read.append(len(block))
            yield block

    for module in (plain, jsonl, csv):
        monkeypatch.setattr(module, "decompressed_blocks", counted)
    with rejects(None, f"{name}{ending}", "2,000,000", "max_piece_bytes"):
        count([path], max_piece_bytes=2_000_000, **options)
    assert 2_000_000 < sum(read) < 4_000_000


def test_reading_stops_when_a_line_exceeds_the_limit():
    blocks = iter([b"ab\nc", b"d\n", b"e" * 5, b"f" * 5, b"never read"])
    lines = storage.lines_of(blocks, 10, "x.jsonl", 7)
    assert [next(lines), next(lines)] == [(10, b"ab"), (13, b"cd")]
    with rejects(None, "x.jsonl", 16, 7):
        next(lines)
    assert next(blocks) == b"never read"
    with rejects(None, "line at byte 3", "2 bytes"):
        list(storage.lines_of([b"ab\nabc\n"], 0, "x.jsonl", 2))


def test_the_state_of_a_file_tells_whether_it_was_changed(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"abc")
    state = storage.state_of(str(path))
    assert state == (3, path.stat().st_mtime_ns)
    assert storage.state_of(f"file://{path}") == (3, state[1] // 10**9 * 10**9)
    os.utime(path, ns=(1, 1))
    assert storage.state_of(str(path)) == (3, 1)


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("a.txt.zst", ["compression", "backports"], "zstd"),
        ("a.parquet", ["pyarrow"], "parquet"),
        ("a.arrow", ["pyarrow"], "parquet"),
    ],
)
def test_the_error_for_a_missing_library_has_the_install_command(
    tmp_path, monkeypatch, name, missing, extra
):
    (tmp_path / name).write_bytes(b"any")
    for module in missing:
        monkeypatch.setitem(sys.modules, module, None)
    with rejects(None, name, f"'cs336-basics[{extra}]'", kind=UnavailableError):
        count_words(Corpus(tmp_path / name, column="text" if extra == "parquet" else None))
