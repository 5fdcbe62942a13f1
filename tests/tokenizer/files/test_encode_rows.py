"""encode_rows writes, atomically, the same token file as encode_file for a file with the rows."""

from __future__ import annotations

import json
import os
from collections import UserDict

import numpy as np
import pytest

from cs336_basics.pretokenization import Corpus
from cs336_basics.tokenizer import Tokenizer, encode_file, encode_rows
from cs336_basics.tokenizer.files.token_files import open_token_file
from tests.pretokenization.reading.test_rows import FORMS, every_form
from tests.tokenizer.examples import END, byte_tokenizer
from tests.tokenizer.files.corpus_files import ROWS, contents, metadata_of

TOKENIZER = byte_tokenizer(END, merges=[(b"c", b"a")])


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the contents of the file that encode_file writes for each set of options."""
    directory = tmp_path_factory.mktemp("expected")
    lines = "".join(json.dumps({"text": row}) + "\n" for row in ROWS)
    (directory / "rows.jsonl").write_text(lines)
    found = {}
    for options in ((False, None), (True, None), (True, END)):
        out = directory / str(len(found))
        out.mkdir()
        encode_file(
            TOKENIZER,
            Corpus(directory / "rows.jsonl", field="text"),
            out / "a.npy",
            num_workers=1,
            document_starts=options[0],
            end_of_document=options[1],
        )
        found[options] = parts(out / "a.npy")
    return found


def parts(path):
    """Return a token file's ids, its document starts, and its metadata without the source."""
    file = open_token_file(path)
    starts = file.document_starts().tolist() if file.has_document_starts else None
    return file.tokens.tolist(), starts, {**file.metadata, "source": None}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_rows_gives_the_same_file(tmp_path, expected, form):
    for number, ((document_starts, end), file) in enumerate(expected.items()):
        out = tmp_path / str(number)
        out.mkdir()
        metadata = encode_rows(
            TOKENIZER,
            every_form(ROWS)[form],
            out / "a.npy",
            field="text",
            num_workers=2,
            document_starts=document_starts,
            end_of_document=end,
        )
        assert parts(out / "a.npy") == file
        assert metadata == metadata_of(out / "a.npy")


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
    ("rows", "field", "error", "message"),
    [
        (failing_rows, "text", OSError, "the connection broke"),
        (lambda: [{"text": "a"}, {"txt": "b"}], "text", ValueError, "row 1 has no field 'text'"),
        (lambda: ["a", 5], None, TypeError, "row 1 must be str or bytes, not int"),
        (lambda: [{"text": "a"}], None, TypeError, "row 0 must .* not dict; pass field="),
        (list, None, ValueError, "rows of type list: no tokens .* there is no text"),
        (lambda: ["", ""], None, ValueError, "no tokens .* there is no text"),
        (lambda: [UserDict(text="a")], None, TypeError, "not UserDict; pass field="),
    ],
)
def test_no_file_is_left_after_an_error(tmp_path, rows, field, error, message):
    encode_rows(TOKENIZER, ["kept"], tmp_path / "a.npy", document_starts=True)
    before = contents(tmp_path)
    with pytest.raises(error, match=message):
        encode_rows(TOKENIZER, rows(), tmp_path / "a.npy", field=field, overwrite=True)
    assert contents(tmp_path) == before
    with pytest.raises(error, match=message):
        encode_rows(TOKENIZER, rows(), tmp_path / "new.npy", field=field)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("new")]


def test_the_error_names_the_row_of_a_bad_text(tmp_path):
    lacking = Tokenizer({byte: bytes([byte]) for byte in range(128)}, [])
    with pytest.raises(ValueError, match="row 1: the vocabulary has no token for the byte 0xc3"):
        encode_rows(lacking, ["a", "é"], tmp_path / "a.npy", num_workers=1)
    with pytest.raises(ValueError, match=r"row 1.*0xff"):
        encode_rows(TOKENIZER, ["a", b"\xff"], tmp_path / "a.npy", errors="strict")
