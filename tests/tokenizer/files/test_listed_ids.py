"""listed_documents yields the ids and the documents of a token file."""

from __future__ import annotations

import pytest

from cs336_basics._support.errors import InputError
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import Dropout, Tokenizer, encode_file
from cs336_basics.tokenizer.files.encode_files import NoTokensError
from cs336_basics.tokenizer.files.listed_ids import listed_documents
from cs336_basics.tokenizer.files.token_files import open_token_file
from tests.errors import rejects
from tests.tokenizer.examples import BYTES, END, small_tokenizer
from tests.tokenizer.files.corpus_files import corpus_of, write_inputs


def documents(tokenizer, corpus, **options):
    """Return the ids of each document that `listed_documents` yields."""
    found = [[]]
    for ids, is_end in listed_documents(tokenizer, corpus, **options):
        assert ids or is_end
        found[-1] += ids
        if is_end:
            found.append([])
    assert found.pop() == []
    return found


def documents_in_file(tokenizer, corpus, out, **options):
    """Return the ids of each document in the token file of a corpus."""
    path = out / "ids.npy"
    encode_file(tokenizer, corpus, path, document_starts=True, overwrite=True, **options)
    file = open_token_file(path)
    ids, starts = file.tokens.tolist(), file.document_starts().tolist()
    return [ids[a:b] for a, b in zip(starts, [*starts[1:], len(ids)], strict=True)]


@pytest.mark.parametrize(("special_tokens", "end"), [((), None), ((END,), None), ((END,), END)])
@pytest.mark.parametrize("chunk_size", [64, 1 << 19])
def test_all_formats_have_the_documents_of_a_token_file(tmp_path, special_tokens, end, chunk_size):
    tokenizer = small_tokenizer(special_tokens)
    paths = [path for path, _ in write_inputs(tmp_path / "in")]
    for some in (paths, paths[::-1], paths[:1], paths[-2:-1]):
        options = {"num_workers": 2, "chunk_size": chunk_size, "end_of_document": end}
        expected = documents_in_file(tokenizer, corpus_of(some, "body"), tmp_path, **options)
        assert documents(tokenizer, corpus_of(some, "body"), **options) == expected


def test_a_corpus_without_ids_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text(2 * '{"text": ""}\n')
    with rejects(None, place="a.jsonl", kind=NoTokensError):
        documents(small_tokenizer(), corpus_of(tmp_path / "a.jsonl"))


@pytest.mark.parametrize("errors", ["replace", "bytes"])
def test_invalid_utf_8_and_dropout_have_the_ids_of_a_token_file(tmp_path, errors):
    (tmp_path / "a.txt").write_bytes(b"the cat\xff ate" + END.encode() + b"\xe2\x82")
    corpus = Corpus([tmp_path / "a.txt"], errors=errors)
    tokenizer = small_tokenizer()
    dropouts = [None, Dropout(0.0), *([Dropout(0.5, 3)] if errors == "replace" else [])]
    for dropout in dropouts:
        if errors == "replace":
            with pytest.warns(UserWarning, match=r"U\+FFFD"):
                expected = documents_in_file(tokenizer, corpus, tmp_path, dropout=dropout)
            with pytest.warns(UserWarning, match=r"U\+FFFD"):
                assert documents(tokenizer, corpus, dropout=dropout) == expected
        else:
            expected = documents_in_file(tokenizer, corpus, tmp_path, dropout=dropout)
            assert documents(tokenizer, corpus, dropout=dropout) == expected


def test_a_byte_without_a_token_is_named_with_its_place(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"abc")
    tokenizer = Tokenizer({i: token for i, token in BYTES.items() if token != b"b"}, [])
    with rejects(None, "0x62", place="a.txt", kind=InputError):
        documents(tokenizer, Corpus([tmp_path / "a.txt"]))
