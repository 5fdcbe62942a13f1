"""Compressed and missing files: read, or refused with the file's name."""

import gzip

import pytest

from cs336_basics.pretokenization import (
    Corpus,
    Splitter,
    count_words,
)
from cs336_basics.pretokenization.counting.count_texts import count_chunk
from tests.pretokenization.reading.counted import DOCUMENTS, EOT, RNG, count, expected, json_lines

pytest.importorskip("pyarrow.ipc")

try:
    from compression import zstd
except ImportError:
    zstd = pytest.importorskip("backports.zstd")

pyarrow = pytest.importorskip("pyarrow")


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+"])
def test_compressed_text_is_counted(tmp_path, compress, pattern):
    text = EOT.join(DOCUMENTS) * 40
    path = tmp_path / ("text.txt.gz" if compress is gzip.compress else "text.txt.zst")
    # Two members, as `cat a.gz b.gz` writes them.
    half = len(text.encode()) // 2
    path.write_bytes(compress(text.encode()[:half]) + compress(text.encode()[half:]))
    assert count([path], pattern=pattern) == expected([text], pattern)


def test_a_disk_that_fails_is_no_damage(tmp_path, monkeypatch):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"abc"))

    def fail(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(gzip.GzipFile, "read", fail)
    with pytest.raises(OSError, match="Input/output error"):
        count_words(Corpus(path), num_workers=1)


@pytest.mark.parametrize("ending", ["txt.gz", "txt.zst", "jsonl.gz", "jsonl.zst"])
@pytest.mark.parametrize("damage", ["cut short", "flipped"])
def test_damaged_compressed_files_are_named(tmp_path, ending, damage):
    # Random letters, so that the compressed file is long enough to be damaged in its middle.
    documents = ["".join(RNG.choices("abcdefghijklmnop ", k=20_000)) for _ in range(20)]
    data = json_lines(documents).encode()
    packed = gzip.compress(data) if ending.endswith("gz") else zstd.compress(
        data, options={zstd.CompressionParameter.checksum_flag: 1}
    )  # fmt: skip
    half = len(packed) // 2
    packed = packed[:half] if damage == "cut short" else (
        packed[:half] + bytes([packed[half] ^ 255]) + packed[half + 1 :]
    )  # fmt: skip
    path = tmp_path / f"file.{ending}"
    path.write_bytes(packed)
    with pytest.raises(ValueError, match=rf"file\.{ending} is damaged"):
        count([path], field="text" if "jsonl" in ending else None)


def test_a_file_that_vanishes_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json_lines(["a"]))
    (chunk,) = Corpus(path, field="text").chunks()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"rows\.jsonl"):
        count_chunk(chunk, Splitter())
