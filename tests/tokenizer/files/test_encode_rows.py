"""encode_rows writes a token file atomically, with every row as a document."""

from __future__ import annotations

import os
from collections import UserDict

import numpy as np
import pytest

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.tokenizer import Tokenizer, encode_rows
from cs336_basics.tokenizer.files.token_files import open_token_file
from tests.errors import rejects
from tests.text.test_rows import FORMS, every_form
from tests.tokenizer.examples import END, byte_tokenizer
from tests.tokenizer.files.corpus_files import ROWS, contents, ids_and_starts

TOKENIZER = byte_tokenizer(END, merges=[(b"c", b"a")])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options", [{}, {"document_starts": True}, {"document_starts": True, "end_of_document": END}]
)
def test_every_form_of_rows_gives_the_same_file(tmp_path, form, options):
    rows = every_form(ROWS)[form]
    metadata = encode_rows(
        TOKENIZER, rows, tmp_path / "a.npy", field="text", num_workers=2, **options
    )
    document_starts, end = options.get("document_starts", False), options.get("end_of_document")
    file = open_token_file(tmp_path / "a.npy")
    ids, starts = ids_and_starts(TOKENIZER, ROWS, END, end)
    assert file.tokens.tolist() == ids
    assert file.has_document_starts == document_starts
    if document_starts:
        assert file.document_starts().tolist() == starts
    assert metadata == file.metadata
    assert metadata["num_bytes"] == sum(len(row.encode()) for row in ROWS)
    assert metadata.get("document_separator") == (END if document_starts else None)


@pytest.mark.parametrize("backend", ["python", "reference"])
def test_workers_give_the_same_ids(tmp_path, backend):
    tokenizer = Tokenizer(TOKENIZER.vocab, TOKENIZER.merges, [END], backend=backend)
    encode_rows(tokenizer, ROWS, tmp_path / "a.npy", num_workers=1, end_of_document=END)
    encode_rows(TOKENIZER, ROWS, tmp_path / "b.npy", num_workers=2, end_of_document=END)
    assert np.array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))


def test_invalid_bytes_are_kept_with_errors_bytes(tmp_path):
    rows = [b"a\xff", "b"]
    encode_rows(TOKENIZER, rows, tmp_path / "a.npy", errors="bytes", end_of_document=END)
    assert np.load(tmp_path / "a.npy").tolist() == [97, 255, 257, 98, 257]


def failing_rows():
    yield {"text": "fine"}
    raise OSError("the connection broke")


@pytest.mark.parametrize(
    ("rows", "field", "error", "shown"),
    [
        (failing_rows, "text", OSError, "the connection broke"),
        (lambda: [{"text": "a"}, {"txt": "b"}], "text", InputError, "row 1"),
        (lambda: ["a", 5], None, InputTypeError, "row 1"),
        (lambda: [{"text": "a"}], None, InputTypeError, "field="),
        (list, None, InputError, "list"),
        (lambda: ["", ""], None, InputError, "list"),
        (lambda: [UserDict(text="a")], None, InputTypeError, "UserDict"),
    ],
)
def test_no_file_is_left_after_an_error(tmp_path, rows, field, error, shown):
    encode_rows(TOKENIZER, ["kept"], tmp_path / "a.npy", document_starts=True)
    before = contents(tmp_path)
    with pytest.raises(error, match=shown):
        encode_rows(TOKENIZER, rows(), tmp_path / "a.npy", field=field, overwrite=True)
    assert contents(tmp_path) == before
    with pytest.raises(error, match=shown):
        encode_rows(TOKENIZER, rows(), tmp_path / "new.npy", field=field)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("new")]


def test_the_error_names_the_row_of_a_bad_text(tmp_path):
    lacking = Tokenizer({byte: bytes([byte]) for byte in range(128)}, [])
    with rejects(None, "0xc3", place="row 1"):
        encode_rows(lacking, ["a", "é"], tmp_path / "a.npy", num_workers=1)
    with rejects(None, "0xff", place="row 1"):
        encode_rows(TOKENIZER, ["a", b"\xff"], tmp_path / "a.npy", errors="strict")
