"""count_tokens and count_token_file count the ids that encode_file writes."""

import numpy as np
import pytest

from cs336_basics import Tokenizer
from cs336_basics._support.errors import InputTypeError
from cs336_basics.tokenizer import (
    count_token_file,
    count_tokens,
    encode_file,
    load_token_file,
    never_used,
)
from tests.errors import rejects
from tests.tokenizer.examples import END, small_tokenizer
from tests.tokenizer.files.corpus_files import corpus_of, rewrite, write_inputs

pytestmark = pytest.mark.filterwarnings("ignore:the text is not all UTF-8")


def test_counts_equal_the_token_file_for_every_kind_of_file(tmp_path, out, backend):
    tokenizer = small_tokenizer(backend=backend)
    num_workers = (
        1 if backend == "python" else 2
    )  # the Python backend's workers are processes, which another test covers
    for path, texts in write_inputs(tmp_path / "in"):
        if not any(texts):
            continue
        corpus = corpus_of(path, column="body")
        counts = count_tokens(tokenizer, corpus, num_workers=num_workers, chunk_size=300)
        expected = np.zeros(tokenizer.vocab_size, np.int64)
        for text in texts:
            for token_id in tokenizer.encode(text):
                expected[token_id] += 1
        assert counts.dtype == np.int64
        np.testing.assert_array_equal(counts, expected, err_msg=str(path))


def test_the_counts_of_a_token_file_equal_those_of_its_text(source, out, monkeypatch):
    monkeypatch.setattr("cs336_basics.tokenizer.editing.token_counts._IDS_AT_A_TIME", 100)
    tokenizer = small_tokenizer()
    encode_file(tokenizer, source, out / "text.npy")
    counts = count_token_file(tokenizer, out / "text.npy")
    np.testing.assert_array_equal(counts, count_tokens(tokenizer, source))
    assert counts.sum() == len(load_token_file(out / "text.npy"))
    assert counts[tokenizer.special_token_id(END)] > 0


def test_ids_of_a_vocabulary_with_gaps(tmp_path):
    (tmp_path / "text.txt").write_text("abba")
    tokenizer = Tokenizer({2: b"a", 9: b"b"}, [])
    assert count_tokens(tokenizer, tmp_path / "text.txt").tolist() == [0, 0, 2] + [0] * 6 + [2]


def test_never_used_tokens_are_neither_bytes_nor_special(tmp_path):
    tokenizer = small_tokenizer()
    word = max((token for token in tokenizer.vocab.values() if token != END.encode()), key=len)
    (tmp_path / "text.txt").write_bytes(word)
    counts = count_tokens(tokenizer, tmp_path / "text.txt")
    unused = never_used(tokenizer, counts)
    assert len(unused) == len(tokenizer) - 256 - 2
    assert tokenizer.token_to_id(word) not in unused
    assert unused == sorted(unused)
    with rejects("counts", "(3,)"):
        never_used(tokenizer, np.zeros(3, np.int64))
    with rejects("counts", "float64", kind=InputTypeError):
        never_used(tokenizer, np.ones(tokenizer.vocab_size))


def test_a_damaged_token_file_is_rejected(source, out):
    tokenizer = small_tokenizer()
    encode_file(tokenizer, source, out / "text.npy")
    ids = np.load(out / "text.npy")
    ids[-1] = 60_000
    rewrite(out / "text.npy", ids)
    with rejects(None, 60000):
        count_token_file(tokenizer, out / "text.npy")


def test_chunks_without_bytes_are_rejected(source):
    with rejects("chunk_size"):
        count_tokens(small_tokenizer(), source, chunk_size=0)
