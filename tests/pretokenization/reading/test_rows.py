"""Rows in memory: dicts, datasets, Arrow tables and streams give the same texts."""

from __future__ import annotations

import itertools

import pytest

from cs336_basics import TRAINERS, train_bpe
from cs336_basics.pretokenization import count_texts
from cs336_basics.pretokenization.reading.rows import texts_of_rows

pyarrow = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")

TEXTS = ["the cat", "", "sat on\n the mat", "né 猫", "x" * 300] * 300


class Dataset:
    """What `datasets.Dataset` has: columns that are chosen, and batches of them."""

    def __init__(self, columns, chosen=None):
        self._columns = columns
        self._chosen = chosen

    @property
    def column_names(self):
        return list(self._columns)

    def select_columns(self, names):
        return Dataset({name: self._columns[name] for name in names}, names)

    def iter(self, batch_size):
        assert self._chosen == ["text"], "the other columns are not decoded"
        for start in range(0, len(self._columns["text"]), batch_size):
            yield {"text": self._columns["text"][start : start + batch_size]}


class StreamedDataset(Dataset):
    """What `datasets.IterableDataset` has, which need not know its columns."""

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
    """Return the same rows in every form: name -> rows."""
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


def test_a_stream_of_arrow_of_another_library_is_read():
    class Frame:
        """What a data frame of polars or pandas exports."""

        columns = ("id", "text")

        def __arrow_c_stream__(self, requested_schema=None):
            return table().__arrow_c_stream__(requested_schema)

        def __iter__(self):
            return iter(self.columns)

    assert decoded(texts_of_rows(Frame(), "text")) == TEXTS
    with pytest.raises(ValueError, match="fields id, text: say which one"):
        list(texts_of_rows(Frame()))


def test_arrays_are_texts_themselves():
    for rows in (pyarrow.array(TEXTS), pyarrow.chunked_array([TEXTS[:9], TEXTS[9:]])):
        assert decoded(texts_of_rows(rows)) == TEXTS
    with pytest.raises(ValueError, match="an array of texts: omit it"):
        list(texts_of_rows(pyarrow.array(TEXTS), "text"))
    with pytest.raises(ValueError, match="the array holds int64, not strings"):
        list(texts_of_rows(pyarrow.array([1])))


def test_rows_are_read_as_they_are_needed():
    endless = ({"text": f"row {number}"} for number in itertools.count())
    assert list(itertools.islice(texts_of_rows(endless, "text"), 2)) == ["row 0", "row 1"]


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_field_is_named(form):
    with pytest.raises(ValueError, match=r"(no field|but not) 'txt'"):
        list(texts_of_rows(every_form()[form], "txt"))


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("dicts", "generator")])
def test_a_field_must_be_given_where_there_are_several(form):
    with pytest.raises(ValueError, match=r"say which one has the text, such as field='text'"):
        list(texts_of_rows(every_form()[form]))


def test_bad_rows_are_named():
    with pytest.raises(ValueError, match="row 1 is of type str, not a dict with the field 'text'"):
        list(texts_of_rows([{"text": "a"}, "b"], "text"))
    with pytest.raises(ValueError, match="the column 'id' holds int64, not strings"):
        list(texts_of_rows(table(), "id"))
    with pytest.raises(TypeError, match="rows is a mapping with the keys train, test: pass one"):
        texts_of_rows({"train": [], "test": []}, "text")
    with pytest.raises(TypeError, match="field is 5: it must be a str or None"):
        texts_of_rows([], 5)
    with pytest.raises(TypeError, match="texts is 5: pass a list of texts"):
        texts_of_rows(5)
    with pytest.raises(TypeError, match="text 0 is of type dict, not str or bytes: pass field="):
        count_texts([{"text": "a"}])
    with pytest.raises(TypeError, match="text 0 is of type int, not str or bytes"):
        count_texts([{"text": 5}], field="text")
    pyarrow = pytest.importorskip("pyarrow")
    twice = pyarrow.table([["a"], ["b"]], ["text", "text"])
    with pytest.raises(ValueError, match="the fields text, text: rename those that are 'text'"):
        list(texts_of_rows(twice, "text"))


def test_a_table_without_an_arrow_stream_is_refused():
    class Table(list):
        columns = ("text",)

    with pytest.raises(TypeError, match="a table of type Table that exports no Arrow stream"):
        texts_of_rows(Table(["text"]))


@pytest.mark.parametrize("form", FORMS)
def test_rows_train_a_tokenizer(form):
    trainer = TRAINERS["heap"](num_workers=1)
    expected = trainer.train_from_iterator(TEXTS, 270, ["<|endoftext|>"])
    rows = every_form()[form]
    assert trainer.train_from_iterator(rows, 270, ["<|endoftext|>"], field="text") == expected


def test_train_bpe_says_what_takes_rows():
    endless = ({"text": f"row {number}"} for number in itertools.count())
    with pytest.raises(TypeError, match=r"name files by str or Path .*train_from_iterator"):
        train_bpe(endless, 270, [])


def test_bytes_that_are_not_utf8_are_replaced_or_refused():
    broken = pyarrow.array([b"ab", b"c\xff"]).view(pyarrow.string())
    rows = pyarrow.table({"text": broken})
    with pytest.warns(UserWarning, match="text 1"):
        assert count_texts(rows, field="text")[b"c"] == 1
    with pytest.raises(ValueError, match=r"text 1: .*0xff"):
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
    with pytest.raises(ValueError, match="'txt'"):
        list(texts_of_rows(found, "txt"))
