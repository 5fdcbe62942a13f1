"""Truncating and padding sequences of ids."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.ragged import offsets_of
from cs336_basics.formats import export_tokenizer
from cs336_basics.tokenizer import padding
from cs336_basics.tokenizer.ids import EncodedBatch
from cs336_basics.tokenizer.padding import MAX_ELEMENTS, pad, truncate
from tests.errors import rejects
from tests.tokenizer.examples import END, small_tokenizer

SIDES = st.sampled_from(["right", "left"])
IDS = st.integers(-(2**31), 2**31 - 1)


TEXTS = ["the cat", "", "é the the cat ate"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": True},
        {"padding": "longest", "truncation": True, "max_length": 4},
        {"padding": "max_length", "max_length": 40},
        {"padding": "max_length", "truncation": True, "max_length": 3},
        {"truncation": True, "max_length": 2},
    ],
)
def test_a_call_returns_the_same_as_transformers(tmp_path, options):
    transformers = pytest.importorskip("transformers")
    tokenizer = small_tokenizer((END,))
    export_tokenizer(tokenizer, "huggingface", tmp_path)
    # The exported files say "left", which is right for generating. A call pads as for training.
    theirs = transformers.AutoTokenizer.from_pretrained(
        tmp_path, local_files_only=True, padding_side="right"
    )
    for texts in (TEXTS, TEXTS[0], [""]):
        assert tokenizer(texts, **options) == dict(theirs(texts, **options))
    assert tokenizer([]) == {"input_ids": [], "attention_mask": []}
    assert tokenizer(iter(TEXTS), **options) == tokenizer(TEXTS, **options)


def test_a_dict_of_columns_is_rejected():
    # Iterating over the dict would yield the column names.
    with rejects("texts", kind=InputTypeError):
        small_tokenizer().encode_batch({"text": ["a"]})


def test_the_padding_of_a_call_can_be_chosen():
    tokenizer = small_tokenizer((END, "<pad>"))
    pads = [tokenizer(["a", ""], padding=True, pad_id=p)["input_ids"][1] for p in ("<pad>", 7)]
    assert pads == [[tokenizer.special_token_id("<pad>")], [7]]
    assert small_tokenizer(())(["a", ""], padding=True)["input_ids"][1] == [0]


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"padding": "right"}, ("padding", "'right'")),
        ({"truncation": "longest"}, ("truncation", "'longest'")),
        ({"truncation": True}, ("max_length", "None")),
        ({"padding": "max_length"}, ("max_length", "None")),
        ({"padding": True, "max_length": 5}, ("max_length", 5)),
        ({"truncation": True, "max_length": 0}, ("max_length", 1)),
        ({"padding": "max_length", "max_length": 0}, ("max_length", "at least 1, got 0")),
        ({"padding": "max_length", "max_length": 2}, ("max_length", "text 2")),
        ({"padding": True, "pad_id": "<none>"}, ("pad_id", "'<none>'")),
    ],
)
def test_a_call_with_wrong_options_is_rejected(options, fields):
    with rejects(*fields):
        small_tokenizer((END,))(TEXTS, **options)


@given(
    sequences=st.lists(st.lists(IDS, max_size=12), max_size=6),
    side=SIDES,
    multiple_of=st.integers(1, 5),
    times=st.none() | st.integers(1, 3),
)
def test_the_mask_marks_the_ids_of_each_sequence(sequences, side, multiple_of, times):
    max_length = None if times is None else times * multiple_of
    ids, mask = pad(
        sequences,
        pad_id=-7,
        side=side,
        max_length=max_length,
        multiple_of=multiple_of,
    )
    kept = sequences
    if max_length is not None:
        kept = [s[:max_length] for s in sequences]
    longest = max(map(len, kept), default=0)
    assert ids.shape == mask.shape == (len(sequences), mask.shape[1])
    assert longest <= mask.shape[1] < longest + multiple_of
    assert mask.shape[1] % multiple_of == 0
    for row, marks, sequence in zip(ids, mask, kept, strict=True):
        assert row[marks].tolist() == sequence
        assert (row[~marks] == -7).all()
        assert marks[:: -1 if side == "left" else 1][: len(sequence)].all()


def encoded(sequences, dtype=np.uint32):
    """Return sequences in the form that `encode_batch_array` returns."""
    offsets = np.cumsum([0, *map(len, sequences)])
    return EncodedBatch(np.array([i for ids in sequences for i in ids], dtype), offsets)


@given(
    sequences=st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=12), max_size=6),
    side=SIDES,
    max_length=st.none() | st.integers(1, 14),
)
def test_an_encoded_batch_is_padded_and_truncated_like_its_sequences(sequences, side, max_length):
    settings = {"side": side, "max_length": max_length}
    expected = pad(sequences, pad_id=-7, **settings)
    found = pad(encoded(sequences), pad_id=-7, **settings)
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.mask, expected.mask)
    assert (found.ids.dtype, found.mask.dtype) == (np.int64, np.bool_)
    if max_length:
        kept = truncate(encoded(sequences), max_length, side=side)
        expected = truncate(sequences, max_length, side=side)
        assert [ids.tolist() for ids in kept] == expected


@pytest.mark.parametrize("sequence", [np.array(5), np.ones((1, 1), int)])
def test_an_array_of_ids_must_have_one_dimension(sequence):
    for use in (pad, lambda sequences: truncate(sequences, 3)):
        with rejects("ids", place="sequence 1"):
            use([[1], sequence])


@pytest.mark.parametrize(
    "make", [list, tuple, iter, np.array, lambda ids: np.array(ids, np.uint16)]
)
def test_a_sequence_can_be_any_iterable_of_ints(make):
    torch = pytest.importorskip("torch")
    assert pad([make([1, 2]), torch.tensor([3])]).ids.tolist() == [[1, 2], [3, 0]]
    assert pad(iter([make([1, 2])])).ids.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("sequences", "settings", "error", "fields"),
    [
        ([1, 2], {}, InputTypeError, ("ids", 0, 1)),
        ("text", {}, InputTypeError, ("sequences",)),
        (7, {}, InputTypeError, ("sequences",)),
        ([[1], ["a"]], {}, InputTypeError, ("ids", 1, "'a'")),
        ([[1], [1.5]], {}, InputTypeError, ("ids", 1, "1.5")),
        ([[1], [True]], {}, InputTypeError, ("ids", 1, "True")),
        ([np.ma.array([1, 2], mask=[0, 1])], {}, InputTypeError, ("ids", 0, "None")),
        ([np.array([1.5])], {}, InputTypeError, ("ids", 0, "float64")),
        ([[2**70]], {}, InputError, (None, 0, "int64")),
        ([np.array([2**64 - 1], np.uint64)], {}, InputError, (None, "int64")),
        ([[1]], {"pad_id": 2**63}, InputError, ("pad_id",)),
        ([[1]], {"pad_id": 1.0}, InputTypeError, ("pad_id",)),
        ([[1]], {"side": "top"}, InputError, ("side", "right", "left", "'top'")),
        ([[1]], {"max_length": 0}, InputError, ("max_length", 1, 0)),
        ([[1]], {"max_length": 6, "multiple_of": 4}, InputError, ("max_length", "multiple_of", 6)),
        ([[1]], {"multiple_of": 0}, InputError, ("multiple_of", 1)),
    ],
)
def test_the_error_names_the_invalid_argument(sequences, settings, error, fields):
    with rejects(*fields, kind=error):
        pad(sequences, **settings)


def test_a_too_large_array_is_rejected_before_it_is_allocated():
    sequences = [np.zeros(1 << 20, np.uint16), *[[1]] * (MAX_ELEMENTS >> 20)]
    tracemalloc.start()
    try:
        with rejects(None, "1,025", "1,048,576"):
            pad(sequences)
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
    assert pad(sequences, max_length=4).ids.shape == (1025, 4)
    with rejects(None, "1 row of 2,000,000,000"):
        pad([[1]], multiple_of=2 * 10**9)


def test_a_tokenizer_pads_with_a_special_token():
    tokenizer = small_tokenizer()
    texts = ["the cat", "the"]
    ids, mask = tokenizer.pad(tokenizer.encode_batch(texts), pad_id=END)
    other = tokenizer.pad(tokenizer.encode_batch_array(texts), pad_id=END)
    assert np.array_equal(other.ids, ids)
    assert np.array_equal(other.mask, mask)
    end = tokenizer.special_token_id(END)
    assert ids[~mask].tolist() == [end] * int((~mask).sum())
    assert [tokenizer.decode(row[marks]) for row, marks in zip(ids, mask, strict=True)] == texts
    with rejects("pad_id", "'<pad>'"):
        tokenizer.pad([[1]], pad_id="<pad>")
    assert tokenizer.truncate([[1, 2, 3]], 2, side="left") == [[2, 3]]


@given(st.lists(st.lists(st.integers(0, 65_535), max_size=6), max_size=6), SIDES, IDS)
def test_compiled_rows_equal_those_of_numpy(lists, side, pad_id):
    for dtype in (np.uint16, np.uint32, np.int64, np.int32):
        ids = np.array([i for ids in lists for i in ids], dtype)
        batch = EncodedBatch(ids, offsets_of(np.array([*map(len, lists)], np.int64)))
        compiled = pad(batch, pad_id=pad_id, side=side)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(padding, "fill_rows", None)
            expected = pad(batch, pad_id=pad_id, side=side)
        assert compiled.ids.dtype == expected.ids.dtype
        assert compiled.mask.dtype == np.bool_
        assert np.array_equal(compiled.ids, expected.ids)
        assert np.array_equal(compiled.mask, expected.mask)


def test_offsets_outside_the_ids_are_refused():
    for offsets in ([0, 3], [-1, 1], [1, 3]):
        with pytest.raises((ValueError, IndexError)):
            pad(EncodedBatch(np.zeros(2, np.uint16), np.array(offsets, np.int64)))
