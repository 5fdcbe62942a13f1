"""Text files in every format for testing token files, and the expected ids."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cs336_basics.splitting import split_special_tokens
from cs336_basics.text import Corpus
from cs336_basics.tokenizer.files.token_files import FOOTER, MAGIC, open_token_file
from tests.tokenizer.examples import END, TRAINING_TEXT

# Several documents, long words, invalid UTF-8, a byte order mark, CRLF and NUL.
TEXT = b"".join(
    [
        b"\xef\xbb\xbf" + (TRAINING_TEXT[: len(TRAINING_TEXT) // 3] + END).encode() * 2,
        b"\x00\xff\xc3( \xe2\x82 \xe2\x82\n\r\n",
        b"x" * 400 + b"  \n\n  ...\n...\r\n x\xe3\x80\x80  x\xc2\xa0  x",
        " 猫は鼠を食べた。".encode() * 20 + END.encode() + b"\n \xf0\x9f",
    ]
)

ROWS = [
    "It's the cat.", "", "ate" + END + "the rat", END, "  ", "ends" + END, END + "begins",
    "\u732b\u306f\u9f20 \U0001f389", "x" * 300 + "\n\n", "a b" * 50, "last",
]  # fmt: skip


def corpus_of(paths: Any, column: str = "text", **options: Any) -> Corpus:
    """Return a Corpus of files. The text of rows is in a field or column named `text`."""
    names = [str(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    if any(".jsonl" in name for name in names):
        options["field"] = "text"
    if any(".parquet" in name for name in names):
        options["column"] = column
    return Corpus(paths, **options)


def write_inputs(directory: Path) -> list[tuple[Path, list[str]]]:
    """Write files in every format. Return a list of (path, texts of its documents) pairs."""
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    zstd = zstandard()
    directory.mkdir(exist_ok=True)
    decoded = TEXT.decode("utf-8", errors="replace")
    lines = "".join(json.dumps({"text": row, "id": 7}) + "\n" for row in ROWS).encode()
    files = {
        "a.txt": TEXT,
        "b.txt.gz": gzip.compress(TEXT[:500]) + gzip.compress(TEXT[500:]),
        "c.txt": b"",
        "d.txt.zst": zstd.compress(TEXT),
        "e.jsonl": lines,
        "f.jsonl.gz": gzip.compress(lines),
        "g.txt": b"the end",
        "h.txt": ("one" + END + "two" + END).encode(),
    }
    for name, content in files.items():
        (directory / name).write_bytes(content)
    table = pyarrow.table({"id": range(len(ROWS) + 1), "body": [*ROWS, None]})
    parquet.write_table(table, directory / "i.parquet", row_group_size=3)
    documents = {
        "a.txt": [decoded], "b.txt.gz": [decoded], "c.txt": [], "d.txt.zst": [decoded],
        "e.jsonl": ROWS, "f.jsonl.gz": ROWS, "g.txt": ["the end"],
        "h.txt": ["one" + END + "two" + END], "i.parquet": ROWS,
    }  # fmt: skip
    return [(directory / name, texts) for name, texts in documents.items()]


def zstandard():
    """Return the standard library's Zstandard module or its backport, or skip the test."""
    try:
        from compression import zstd
    except ImportError:
        zstd = pytest.importorskip("backports.zstd")
    return zstd


def ids_and_starts(tokenizer, texts, separator, end_of_document):
    """Compute the ids and start positions of documents in the simplest way."""
    ids, starts = [], []
    for text in texts:
        begin = len(ids)
        if not tokenizer.encode(text):
            continue
        ends = True
        for segment, _ in split_special_tokens(text, tokenizer.special_tokens):
            segment_ids = tokenizer.encode(segment)
            if segment_ids and ends:
                starts.append(len(ids))
            ids += segment_ids
            ends = segment == separator if segment_ids else ends
        if end_of_document is not None:
            end_id = tokenizer.special_token_id(end_of_document)
            if ids[begin:] and ids[-1] != end_id:
                ids.append(end_id)
    return ids, starts


def contents(directory):
    """Return a dict that maps the name of each file in a directory to its bytes."""
    return {name: (directory / name).read_bytes() for name in os.listdir(directory)}


def metadata_of(path):
    """Return a token file's metadata."""
    return open_token_file(path).metadata


def rewrite(path, ids=None, starts=None, metadata=None):
    """Replace the arrays or the metadata (a dict or bytes) in a token file."""
    file = open_token_file(path)
    ids = np.array(file.tokens) if ids is None else ids
    starts = file._starts.tobytes() if starts is None else starts
    metadata = file.metadata if metadata is None else metadata
    del file
    array = io.BytesIO()
    np.save(array, ids, allow_pickle=True)
    end = array.tell()
    content = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
    padding = bytes(-end % 8)
    footer = FOOTER.pack(end, len(content), MAGIC)
    path.write_bytes(array.getvalue() + padding + bytes(starts) + content + footer)
