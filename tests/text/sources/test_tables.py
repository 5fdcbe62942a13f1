"""String columns in Parquet and Arrow files are read, and errors name the file."""

import struct
import tracemalloc

import pytest

from cs336_basics.counting import count_words
from cs336_basics.text import Corpus, MissingFieldError
from cs336_basics.text.arrow import array_texts
from cs336_basics.text.rows import texts_of_rows
from cs336_basics.text.sources import tables
from tests.counting.hostile import SPLITTER
from tests.errors import rejects
from tests.text.counted import DOCUMENTS, RNG, count, expected

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def write_arrow(path, documents, make):
    table = pyarrow.table({"id": range(len(documents)), "text": documents})
    with pyarrow.OSFile(str(path), "wb") as sink, make(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


KINDS = [
    pyarrow.string(),
    pyarrow.large_string(),
    pyarrow.binary(),
    pyarrow.dictionary(pyarrow.int32(), "string"),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_parquet_is_counted(tmp_path, kind):
    rows = [d.encode() if kind == pyarrow.binary() else d for d in DOCUMENTS]
    column = pyarrow.array([*rows, None], kind)
    table = pyarrow.table({"id": list(range(len(rows) + 1)), "body": column})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path, row_group_size=37)
    assert len(Corpus(path, column="body").pieces()) > 4
    assert count([path], column="body") == expected(DOCUMENTS)


@pytest.mark.parametrize("make", [pyarrow.ipc.new_file, pyarrow.ipc.new_stream])
@pytest.mark.parametrize("name", ["a.arrow", "a.feather"])
def test_arrow_files_are_counted(tmp_path, make, name):
    write_arrow(tmp_path / name, [*DOCUMENTS, None], make)
    corpus = Corpus(tmp_path / name, column="text")
    is_file = make is pyarrow.ipc.new_file
    assert len(corpus.pieces()) == (-(-(len(DOCUMENTS) + 1) // 7) if is_file else 1)
    assert sum(piece.num_bytes for piece in corpus.pieces()) == corpus.num_bytes
    assert count([tmp_path / name], column="text") == expected(DOCUMENTS)
    assert count_words(corpus, SPLITTER, num_workers=2) == expected(DOCUMENTS)


@pytest.mark.parametrize("ending", ["arrow", "stream", "parquet"])
def test_errors_of_damaged_tables_include_the_file(tmp_path, ending):
    whole = tmp_path / f"whole.{ending}"
    if ending == "parquet":
        parquet.write_table(pyarrow.table({"text": DOCUMENTS[:30]}), whole)
    else:
        make = pyarrow.ipc.new_file if ending == "arrow" else pyarrow.ipc.new_stream
        write_arrow(whole, DOCUMENTS[:30], make)
    data = whole.read_bytes()
    path = tmp_path / ("a.parquet" if ending == "parquet" else "a.arrow")
    unnamed = []
    for offset in RNG.sample(range(len(data)), 150):
        damaged = bytearray(data)
        damaged[offset] ^= RNG.choice([1, 16, 255])
        path.write_bytes(damaged[: offset + 1] if offset % 5 == 0 else damaged)
        try:
            count([path], column="text")
        except ValueError as error:
            unnamed += [error] if path.name not in str(error) else []
    assert not unnamed


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_invalid_utf8_in_tables_is_replaced_or_rejected(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    table = pyarrow.table({"text": pyarrow.array([b"ab", b"c\xffd"]).view(pyarrow.string())})
    if ending == "parquet":
        parquet.write_table(table, path)
    else:
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(
            sink, table.schema
        ) as writer:  # fmt: skip
            writer.write_table(table)
    with pytest.warns(UserWarning, match="UTF-8"):
        assert count_words(Corpus(path, column="text"))[b"ab"] == 1
    with rejects(None, "0xff", place="row 1"):
        count_words(Corpus(path, column="text", errors="strict"))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_column_name_that_is_not_utf8_is_an_error_with_the_file(tmp_path, name):
    path = tmp_path / name
    if name == "a.arrow":
        write_arrow(path, ["a b"], pyarrow.ipc.new_file)
    else:
        parquet.write_table(pyarrow.table({"id": [0], "text": ["a b"]}), path)
    path.write_bytes(path.read_bytes().replace(b"id", b"\xffd"))
    with rejects(None, path, "0xff"):
        count([path], column="text")


def test_rows_that_exceed_memory_raise_memory_error(tmp_path, monkeypatch):
    parquet.write_table(pyarrow.table({"text": ["a", "b"]}), tmp_path / "a.parquet")

    def fail(column):
        raise pyarrow.lib.ArrowMemoryError("malloc of size 49152000000 failed")

    monkeypatch.setattr(tables, "array_texts", fail)
    with pytest.raises(MemoryError, match=r"a\.parquet, row 0.*49152000000"):
        count_words(Corpus(tmp_path / "a.parquet", column="text"), num_workers=1)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_rows_beyond_the_limit_are_rejected(tmp_path, name):
    rows = ["a b", "c" * 5000]
    if name == "a.arrow":
        write_arrow(tmp_path / name, rows, pyarrow.ipc.new_stream)
    else:
        parquet.write_table(pyarrow.table({"text": rows}), tmp_path / name)
    with rejects(None, name, "row 1", "4,999"):
        count([tmp_path / name], column="text", max_piece_bytes=4999)
    assert count([tmp_path / name], column="text", max_piece_bytes=5000).total() == 3


def shared_views(text, num_rows):
    """Return an array of views of the same bytes."""
    view = struct.pack("<i4sii", len(text), text[:4], 0, 0)
    buffers = [None, pyarrow.py_buffer(view * num_rows), pyarrow.py_buffer(text)]
    return pyarrow.Array.from_buffers(pyarrow.string_view(), num_rows, buffers)


def test_batches_that_share_a_dictionary_give_their_own_texts():
    texts = pyarrow.array([f"text {i}" for i in range(1000)])
    for indices in ([7, None, 999, 7], [None], [], [0, 1]):
        array = pyarrow.DictionaryArray.from_arrays(pyarrow.array(indices, pyarrow.int16()), texts)
        expected = [None if index is None else f"text {index}".encode() for index in indices]
        assert list(array_texts(array)) == expected


@pytest.mark.parametrize("kind", ["dictionary", "views", "dictionary of views"])
def test_rows_that_share_bytes_are_read_one_after_another(kind):
    text, num_rows = b"x" * 1_000_000, 200
    if kind == "dictionary":
        indices = pyarrow.array([0] * num_rows, pyarrow.int32())
        array = pyarrow.DictionaryArray.from_arrays(indices, [text.decode()])
    elif kind == "dictionary of views":
        indices = pyarrow.array(range(num_rows), pyarrow.int32())
        array = pyarrow.DictionaryArray.from_arrays(indices, shared_views(text, num_rows))
    else:
        array = shared_views(text, num_rows)
    tracemalloc.start()
    try:
        assert all(found == text for found in array_texts(array))
        assert tracemalloc.get_traced_memory()[1] < 100 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("indices", "is_ordered"),
    [(pyarrow.uint32(), False), (pyarrow.uint8(), True)],
    ids=["Categorical", "Enum"],
)
def test_categories_of_polars_are_read(tmp_path, indices, is_ordered):
    words = pyarrow.array(["low low", "lower"]).cast(pyarrow.string_view())
    array = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0, 1, None, 0], indices), words, ordered=is_ordered
    )
    table = pyarrow.table({"text": array})
    assert list(texts_of_rows(table, "text")) == [b"low low", b"lower", b"", b"low low"]
    path = tmp_path / "a.arrow"
    with pyarrow.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    assert count([path], column="text") == expected(["low low", "lower", "low low"])


def test_indices_beyond_a_dictionary_of_views_are_an_error():
    indices = pyarrow.array([0, 9], pyarrow.int32())
    words = shared_views(b"word" * 9, 1)
    array = pyarrow.DictionaryArray.from_arrays(indices, words, safe=False)
    with rejects(None, "damaged"):
        list(texts_of_rows(pyarrow.table({"text": array}), "text"))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_bad_tables_are_rejected(tmp_path, name):
    path = tmp_path / name
    if name == "a.arrow":
        write_arrow(path, ["a"], pyarrow.ipc.new_file)
    else:
        parquet.write_table(pyarrow.table({"id": [1], "text": ["a"]}), path)
    with rejects("column", "column='text'", kind=MissingFieldError):
        Corpus(path)
    with rejects("column", "'body'", kind=MissingFieldError, place=name):
        Corpus(path, column="body")
    with rejects(None, "'id'", "int64", place=name):
        Corpus(path, column="id")
    path.write_bytes(b"FEA1 the first version of feather")
    with rejects(None, path):
        Corpus(path, column="text")


@pytest.mark.parametrize("column", [None, "text"])
def test_a_table_without_columns_is_rejected(tmp_path, column):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({}), path)
    with rejects(None, "no columns", place=path):
        Corpus(path, column=column)
