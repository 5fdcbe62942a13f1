"""Reading dicts, datasets, Arrow tables and Arrow streams in memory gives the same texts."""

from __future__ import annotations

import itertools

import pytest

from cs336_basics import TRAINERS, Tokenizer, train_bpe
from cs336_basics._support.errors import InputTypeError
from cs336_basics.counting import count_texts
from cs336_basics.text.rows import texts_of_rows
from cs336_basics.tokenizer import encode_rows
from tests.errors import rejects

numpy = pytest.importorskip("numpy")
pyarrow = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")

TEXTS = ["the cat", "", "sat on\n the mat", "né 猫", "x" * 300] * 300


class Dataset:
    """A class with the methods of `datasets.Dataset` that select columns and read batches."""

    def __init__(self, columns, chosen=None):
        self._columns = columns
        self._chosen = chosen

    @property
    def column_names(self):
        return list(self._columns)

    def select_columns(self, names):
        return Dataset({name: self._columns[name] for name in names}, names)

    def iter(self, batch_size):
        assert self._chosen == ["text"], "the other columns must not be decoded"
        for start in range(0, len(self._columns["text"]), batch_size):
            yield {"text": self._columns["text"][start : start + batch_size]}


class StreamedDataset(Dataset):
    """A class with the methods of `datasets.IterableDataset`, which may not report its columns."""

    column_names = None

    def select_columns(self, names):
        return StreamedDataset(self._columns, names)

    def iter(self, batch_size):
        for name in self._chosen:
            self._columns[name]
        yield from super().iter(batch_size)


def table(texts=TEXTS, kind=None):
    return pyarrow.table({"id": list(range(len(texts))), "text": pyarrow.array(texts, kind)})


def every_form(texts=TEXTS):
    """Return a dict that maps the name of each supported form to the rows in that form."""
    arrow = table(texts)
    chunked = pyarrow.concat_tables([arrow.slice(0, 7), arrow.slice(7)])
    return {
        "dicts": [{"id": 1, "text": text} for text in texts],
        "generator": ({"text": text} for text in texts),
        "Dataset": Dataset({"id": [7] * len(texts), "text": texts}),
        "IterableDataset": StreamedDataset({"text": texts}),
        "Table": arrow,
        "chunked Table": chunked,
        "RecordBatch": arrow.combine_chunks().to_batches()[0],
        "RecordBatchReader": chunked.to_reader(),
        "pyarrow.dataset": dataset.dataset(chunked),
        "large strings": table(texts, pyarrow.large_string()),
        "bytes": table([None if text is None else text.encode() for text in texts]),
        "dictionary": arrow.set_column(1, "text", arrow["text"].dictionary_encode()),
    }


FORMS = list(every_form(["a"]))


def decoded(texts):
    return [text.decode() if isinstance(text, bytes) else text for text in texts]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_texts(form):
    assert decoded(texts_of_rows(every_form()[form], "text")) == TEXTS


@pytest.mark.parametrize("form", FORMS)
def test_a_row_without_text_is_empty(form):
    rows = every_form(["a", None, "b"])[form]
    assert decoded(texts_of_rows(rows, "text")) == ["a", "", "b"]


def test_arrow_streams_of_other_libraries_are_read():
    class Frame:
        """A class with the interface of a polars or pandas data frame."""

        columns = ("id", "text")

        def __arrow_c_stream__(self, requested_schema=None):
            return table().__arrow_c_stream__(requested_schema)

        def __iter__(self):
            return iter(self.columns)

    assert decoded(texts_of_rows(Frame(), "text")) == TEXTS
    with rejects("field", "text"):
        list(texts_of_rows(Frame()))


def test_arrow_arrays_of_texts_are_read():
    for rows in (pyarrow.array([*TEXTS, None]), pyarrow.chunked_array([TEXTS[:9], TEXTS[9:]])):
        assert list(texts_of_rows(rows))[: len(TEXTS)] == TEXTS
    assert list(texts_of_rows(pyarrow.array([None, "a"]))) == ["", "a"]


def batches(texts):
    return [texts[start : start + 7] for start in range(0, len(texts), 7)]


@pytest.mark.parametrize("kind", [list, tuple, iter, numpy.array, pyarrow.array])
def test_batches_of_texts_are_read_like_texts(kind):
    assert list(texts_of_rows(map(kind, batches(TEXTS)))) == TEXTS
    columns = ({"id": batch, "text": kind(batch)} for batch in batches(TEXTS))
    assert list(texts_of_rows(columns, "text")) == TEXTS


class NAType:
    """Pandas' NA: it cannot be compared."""

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise TypeError


@pytest.mark.parametrize("missing", [float("nan"), numpy.float64("nan"), NAType()])
def test_missing_values_of_pandas_are_empty_text(missing):
    for rows in (["a", missing], [["a", missing]]):
        assert list(texts_of_rows(rows)) == ["a", ""]
    assert list(texts_of_rows([{"text": missing}], "text")) == [""]
    with rejects("texts", "float", kind=InputTypeError):
        count_texts(["a", 1.5])


def test_none_is_empty_text_in_every_place():
    texts = ["a", None, "b"]
    for rows in (texts, [texts], iter([texts]), pyarrow.array(texts), [pyarrow.array(texts)]):
        assert list(texts_of_rows(rows)) == ["a", "", "b"]
    for column in (texts, pyarrow.array(texts)):
        assert list(texts_of_rows([{"text": column}], "text")) == ["a", "", "b"]
        assert list(texts_of_rows(Dataset({"text": column}), "text")) == ["a", "", "b"]


def test_batches_are_trained_on_and_encoded_like_texts(tmp_path):
    trainer = TRAINERS["heap"]()
    trained = trainer.train_from_iterator(TEXTS, 270, [])
    assert trainer.train_from_iterator(iter(batches([*TEXTS, None])), 270, []) == trained
    tokenizer = Tokenizer(*trained)
    found = [tmp_path / "texts.npy", tmp_path / "batches.npy"]
    for rows, path in zip((TEXTS, iter(batches([*TEXTS, None]))), found, strict=True):
        encode_rows(tokenizer, rows, path)
    assert (numpy.load(found[0]) == numpy.load(found[1])).all()


def test_other_things_than_texts_in_batches_are_rejected_with_their_index():
    for bad in (5, ["c"], {"text": "c"}):
        with rejects("texts", place="text 2", kind=InputTypeError):
            count_texts([["a"], ["b", bad]])
    for bad in (bytearray(b"c"), memoryview(b"c")):
        with rejects("texts", place="text 1", kind=InputTypeError):
            count_texts([["a"], bad])


def test_rows_are_read_lazily():
    endless = (["row", "row"] for _ in itertools.count())
    assert list(itertools.islice(texts_of_rows(endless), 3)) == ["row"] * 3
    endless = ({"text": f"row {number}"} for number in itertools.count())
    assert list(itertools.islice(texts_of_rows(endless, "text"), 2)) == ["row 0", "row 1"]


@pytest.mark.parametrize("form", FORMS)
def test_missing_fields_are_rejected(form):
    with rejects("field", "'txt'"):
        list(texts_of_rows(every_form()[form], "txt"))


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("dicts", "generator")])
def test_tables_need_a_field(form):
    with rejects("field", "field='text'"):
        list(texts_of_rows(every_form()[form]))


def test_bad_rows_are_rejected():
    with rejects("rows", "'text'", "str", place="row 1"):
        list(texts_of_rows([{"text": "a"}, "b"], "text"))
    with rejects("field", "'id'", "int64"):
        list(texts_of_rows(table(), "id"))
    with rejects("rows", "one with keys train, test", kind=InputTypeError):
        texts_of_rows({"train": [], "test": []}, "text")
    with rejects("field", "['text']", kind=InputTypeError):
        texts_of_rows([{"text": "a"}], ["text"])
    with rejects("texts", 5, kind=InputTypeError):
        texts_of_rows(5)
    with rejects("texts", "field=", kind=InputTypeError, place="text 0"):
        count_texts([{"text": "a"}])
    with rejects("texts", kind=InputTypeError, place="text 0"):
        count_texts([{"text": 5}], field="text")
    twice = pyarrow.table([["a"], ["b"]], ["text", "text"])
    with rejects("field", "'text'"):
        list(texts_of_rows(twice, "text"))


def test_a_table_without_an_arrow_stream_is_rejected():
    class Table(list):
        columns = ("text",)

    with rejects("rows", kind=InputTypeError):
        texts_of_rows(Table(["text"]))
    Table.collect = None  # as of polars' LazyFrame
    with rejects("rows", "rows.collect()", kind=InputTypeError):
        texts_of_rows(Table(["text"]))


def test_train_bpe_rejects_rows_and_suggests_a_method():
    endless = ({"text": f"row {number}"} for number in itertools.count())
    with rejects("paths", "train_from_iterator", kind=InputTypeError):
        train_bpe(endless, 270, [])


def test_invalid_utf8_is_replaced_or_rejected():
    broken = pyarrow.array([b"ab", b"c\xff"]).view(pyarrow.string())
    rows = pyarrow.table({"text": broken})
    with pytest.warns(UserWarning, match="text 1"):
        assert count_texts(rows, field="text")[b"c"] == 1
    with rejects(None, "0xff", place="text 1"):
        count_texts(rows, field="text", errors="strict")


@pytest.mark.parametrize("kind", ["whole", "shuffled", "streamed", "generated", "arrow", "numpy"])
def test_real_datasets_are_read(kind, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    rows = [{"id": index, "text": text} for index, text in enumerate(TEXTS)]
    whole = datasets.Dataset.from_list(rows)
    found = {
        "whole": lambda: whole,
        "shuffled": lambda: whole.select(range(len(rows) - 1, -1, -1)),
        "streamed": lambda: whole.to_iterable_dataset(num_shards=3),
        "generated": lambda: datasets.IterableDataset.from_generator(lambda: iter(rows)),
        "arrow": lambda: whole.with_format("arrow"),
        "numpy": lambda: whole.with_format("numpy"),
    }[kind]()
    expected = TEXTS[::-1] if kind == "shuffled" else TEXTS
    assert decoded(texts_of_rows(found, "text")) == expected
    with rejects("field", "'txt'"):
        list(texts_of_rows(found, "txt"))
