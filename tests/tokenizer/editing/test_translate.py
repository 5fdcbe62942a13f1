"""translate_token_file: the new file encodes the same text with another vocabulary."""

import os

import numpy as np
import pytest

from cs336_basics import Tokenizer
from cs336_basics._support.errors import OutputExistsError
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import (
    encode_file,
    load_document_starts,
    load_token_file,
    prune,
    translate_token_file,
)
from cs336_basics.tokenizer.editing import translate as translated_files
from cs336_basics.tokenizer.files.token_files import open_token_file
from cs336_basics.tokenizer.reference import merge_pretoken
from tests.errors import rejects
from tests.tokenizer.examples import END, small_tokenizer
from tests.tokenizer.files.corpus_files import TEXT, metadata_of, rewrite

pytestmark = pytest.mark.filterwarnings("ignore:the text is not all UTF-8")


@pytest.fixture
def tokenizer():
    return small_tokenizer()


@pytest.fixture
def pruned(tokenizer, source):
    return prune(tokenizer, 290, Corpus(source)).tokenizer


@pytest.mark.parametrize("ids_at_a_time", [1, 7, 64, 1 << 18])
@pytest.mark.parametrize("document_starts", [False, True])
def test_the_translated_file_has_the_same_text_and_documents(
    tokenizer, pruned, source, out, document_starts, ids_at_a_time, monkeypatch
):
    monkeypatch.setattr(translated_files, "IDS_AT_A_TIME", ids_at_a_time)
    encode_file(tokenizer, source, out / "old.npy", document_starts=document_starts)
    metadata = translate_token_file(out / "old.npy", out / "new.npy", tokenizer, pruned)
    old, new = (
        load_token_file(out / "old.npy"),
        load_token_file(
            out / "new.npy", vocab_size=pruned.vocab_size, tokenizer_hash=pruned.hash()
        ),
    )
    assert len(new) > len(old)
    assert pruned.decode_bytes(new) == tokenizer.decode_bytes(old)
    assert metadata == metadata_of(out / "new.npy")
    assert metadata["num_bytes"] == len(TEXT)
    assert metadata["num_tokens"] == len(new)
    # Translate token by token with the reference functions.
    ranks = {pair: rank for rank, pair in enumerate(pruned.merges)}
    expected, firsts = [], []
    for token_id in old.tolist():
        firsts.append(len(expected))
        token = tokenizer.vocab[token_id]
        found = pruned.token_to_id(token)
        parts = [token] if found is not None else merge_pretoken(token, ranks)
        expected += [pruned.token_to_id(part) for part in parts]
    assert new.tolist() == expected
    if document_starts:
        old_starts = load_document_starts(out / "old.npy")
        new_starts = load_document_starts(out / "new.npy")
        assert new_starts.tolist() == [firsts[start] for start in old_starts]
        assert metadata["document_separator"] == END
    else:
        assert not open_token_file(out / "new.npy").has_document_starts


def test_a_file_may_replace_itself_when_asked(tokenizer, pruned, source, out):
    encode_file(tokenizer, source, out / "text.npy", document_starts=True)
    text = tokenizer.decode_bytes(load_token_file(out / "text.npy"))
    with rejects(None, "text.npy", kind=OutputExistsError):
        translate_token_file(out / "text.npy", out / "text.npy", tokenizer, pruned)
    translate_token_file(out / "text.npy", out / "text.npy", tokenizer, pruned, overwrite=True)
    assert pruned.decode_bytes(load_token_file(out / "text.npy")) == text
    load_document_starts(out / "text.npy")


def test_files_of_other_tokenizers_are_rejected(tokenizer, pruned, source, out):
    encode_file(tokenizer, source, out / "old.npy")
    with rejects(None, place="old.npy"):
        translate_token_file(out / "old.npy", out / "new.npy", pruned, tokenizer)
    without_end = small_tokenizer(())
    with rejects(None, f"token {END.encode()}"):
        translate_token_file(out / "old.npy", out / "new.npy", tokenizer, without_end)
    assert sorted(os.listdir(out)) == ["old.npy"]
    gaps = Tokenizer({0: b"a", 2: b"b"}, [])
    (out / "text.txt").write_text("abab")
    encode_file(gaps, out / "text.txt", out / "gaps.npy")
    ids = np.load(out / "gaps.npy")
    ids[1] = 1
    rewrite(out / "gaps.npy", ids)
    with rejects(None, "id 1"):
        translate_token_file(out / "gaps.npy", out / "new.npy", gaps, gaps)


def test_a_long_token_is_translated(out):
    pair = (b"a", b"b")
    long = Tokenizer({0: b"a", 1: b"b", 2: b"ab" * 50_000}, [], ignore_merges=True)
    short = Tokenizer({0: b"a", 1: b"b", 2: b"ab"}, [pair])
    (out / "text.txt").write_text("ab" * 50_000)
    encode_file(long, out / "text.txt", out / "long.npy")
    translate_token_file(out / "long.npy", out / "short.npy", long, short)
    assert load_token_file(out / "long.npy").tolist() == [2]
    assert load_token_file(out / "short.npy").tolist() == [2] * 50_000
