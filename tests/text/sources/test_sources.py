"""What all formats have in common: names, copies that can be divided, and sizes of pieces."""

import gzip
import json
import pickle
from typing import get_args, get_type_hints

import pytest

from cs336_basics.commands import _options
from cs336_basics.data.data_config import DataConfig
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from cs336_basics.text.sources import FORMATS, formats_of

CUTS = Splitter().safe_cuts
HOSTILE = [
    "", "a b", 'quotes " and \\ \n\r\t\0', "é 好 🙂 \ufffd", "\ud800 alone", "\udcff", b"\xff a",
]  # fmt: skip


def texts(source, cuts=CUTS):
    return [block.text for block in source.texts(cuts)]


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def write(directory, name):
    """Write HOSTILE rows as far as the format allows, and return the source."""
    path = directory / name
    if "txt" in name:
        data = b"\n".join(map(as_bytes, HOSTILE))
    elif "csv" in name:
        data = b'id,text\n1,"a, ""b""\nc"\n2,\n3,caf\xe9\n'
    else:
        rows = [row.decode("utf-8", "surrogateescape") for row in HOSTILE if type(row) is bytes]
        rows = [json.dumps({"text": row}, ensure_ascii=False) for row in rows]
        data = "\n".join(rows).encode("utf-8", "surrogateescape") + b"\n"
        data += b"".join(
            json.dumps({"id": 1, "text": row}).encode() + b"\n"
            for row in HOSTILE
            if isinstance(row, str)
        )
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    field = "text" if "json" in name else None
    return Corpus(path, field=field, column="text" if "csv" in name else None).sources[0]


def table(directory, name):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [as_bytes(row) for row in HOSTILE] * 3
    data = pyarrow.table({"text": pyarrow.array(rows, pyarrow.binary()).view(pyarrow.string())})
    if name.endswith("parquet"):
        parquet.write_table(data, directory / name, row_group_size=4)
    else:
        make = pyarrow.ipc.new_stream if "stream" in name else pyarrow.ipc.new_file
        with pyarrow.OSFile(str(directory / name), "wb") as sink, make(sink, data.schema) as writer:
            writer.write_table(data, max_chunksize=4)
    return Corpus(directory / name, column="text").sources[0]


NAMES = ["a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.gz", "a.csv", "a.csv.gz"]
TABLES = ["a.parquet", "a.arrow", "stream.arrow"]


@pytest.mark.parametrize("name", [*NAMES, *TABLES])
def test_a_copy_has_the_same_texts_and_can_be_divided(tmp_path, name):
    source = (table if name in TABLES else write)(tmp_path, name)
    path = tmp_path / f"copy{source.copy_ending}"
    with path.open("wb") as file:
        source.write_copy(file, CUTS)
    copy = source.copy_at(str(path))
    found, expected = list(map(as_bytes, texts(copy))), list(map(as_bytes, texts(source)))
    if source.has_rows:
        assert found == expected
    else:  # the blocks of one text
        assert b"".join(found) == b"".join(expected)
    assert Corpus(path, field="text" if source.has_rows else None).sources[0].format == copy.format
    whole = texts(copy)
    for size in (1, 7, 50):
        pieces = copy.pieces(size)
        found = [block.text for piece in pieces for block in piece.texts(CUTS)]
        assert b"".join(map(as_bytes, found)) == b"".join(map(as_bytes, whole))


@pytest.mark.parametrize("name", [*NAMES, *TABLES])
def test_pieces_are_picklable_and_add_up_to_the_file(tmp_path, name):
    source = (table if name in TABLES else write)(tmp_path, name)
    for size in (1, 20, 1 << 20):
        pieces = source.pieces(size)
        assert sum(piece.num_bytes for piece in pieces) == source.num_bytes
        assert pickle.loads(pickle.dumps(pieces)) == pieces
        for piece in pieces:
            read = [block.bytes_read for block in piece.texts(CUTS)]
            assert read == sorted(read)
            assert all(0 <= number <= piece.num_bytes for number in read)


@pytest.mark.parametrize("format", FORMATS)
def test_the_class_of_a_format_has_its_name(format):
    (source,) = formats_of(["f"], format)
    assert source.format == format


def test_options_name_all_formats():
    assert get_args(_options.Format) == tuple(FORMATS)
    in_config, _ = get_args(get_type_hints(DataConfig)["format"])
    assert get_args(in_config) == tuple(FORMATS)


def test_a_block_knows_where_it_is_from(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    (source,) = Corpus(tmp_path / "a.jsonl", field="text").sources
    last = list(source.texts(CUTS))[-1]
    assert (last.row, last.offset) == ("the line at byte 14", None)
    assert last.origin == f"{source.path}, the line at byte 14"
    (tmp_path / "a.txt").write_text("word " * 10)
    (source,) = Corpus(tmp_path / "a.txt").sources
    last = list(source.texts(CUTS, 7))[-1]
    assert (last.row, last.origin) == (None, source.path)
    assert last.offset + len(last.text) == 50


def test_progress_through_plain_text_counts_from_the_start_of_a_piece(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"word and more\n" * 1000)
    pieces = Corpus(path).sources[0].pieces(5000)
    assert len(pieces) > 1
    for piece in pieces:
        num_bytes = 0
        for block in piece.texts(CUTS, 100):
            num_bytes += len(block.text)
            assert block.bytes_read == min(num_bytes, piece.num_bytes)
