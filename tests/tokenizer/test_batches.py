"""Batches have the same ids for any number of threads, and errors include the text's index."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from cs336_basics._support.errors import InputTypeError
from cs336_basics.tokenizer import Tokenizer
from tests.errors import rejects
from tests.faults import alarm
from tests.tokenizer.examples import TRAINING_TEXT, small_tokenizer

# Texts with many or few ids for their length.
DENSE, SPARSE = "\x01" * 5_000, "the the " * 625


@pytest.mark.parametrize("num_workers", [1, 2, 5])
@pytest.mark.parametrize(
    ("first", "others"), [(DENSE, SPARSE), (SPARSE, DENSE), ("", DENSE), (SPARSE, "")]
)
def test_an_array_contains_all_ids_when_the_size_estimate_is_wrong(first, others, num_workers):
    tokenizer = small_tokenizer()
    texts = [first] * 40 + [others] * 600
    expected = {text: tokenizer.encode(text) for text in (first, others)}
    ids, offsets = tokenizer.encode_batch_array(texts, num_workers=num_workers)
    assert offsets.tolist() == np.cumsum([0, *(len(expected[text]) for text in texts)]).tolist()
    np.testing.assert_array_equal(ids, np.concatenate([expected[text] for text in texts]))


def test_the_memory_of_an_array_is_proportional_to_its_ids():
    tokenizer = small_tokenizer()
    for texts in ([DENSE] * 40 + [""] * 60, [DENSE] * 40 + [SPARSE] * 600, [SPARSE] * 600):
        ids, _ = tokenizer.encode_batch_array(texts, num_workers=2)
        assert ids.base.nbytes < 1.3 * ids.nbytes + 1000


def test_a_large_batch_is_encoded_by_several_threads():
    tokenizer = small_tokenizer()
    texts = [TRAINING_TEXT[i % 100 :] * (i % 7) for i in range(2000)]
    assert sum(map(len, texts)) > 1 << 20
    expected = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(texts, num_workers=3) == expected
    assert tokenizer.encode_batch(iter(texts), num_workers=1) == expected
    for num_workers in (1, 3):
        ids, offsets = tokenizer.encode_batch_array(texts, num_workers=num_workers)
        assert [part.tolist() for part in np.split(ids, offsets[1:-1])] == expected


@pytest.mark.parametrize("num_workers", [1, 2, 5])
@pytest.mark.parametrize("where", [0, 700, 1999])
def test_the_error_names_the_first_bad_text_for_any_number_of_threads(num_workers, where):
    tokenizer = small_tokenizer()
    texts = ["a " * 500] * 2000
    texts[where] = "a \ud800"
    texts[-1] = "a \ud800"
    for encode in (tokenizer.encode_batch, tokenizer.encode_batch_array):
        with rejects(None, "U+D800", 2, place=f"text {where:,}"):
            encode(texts, num_workers=num_workers)
    ids, offsets = tokenizer.encode_batch_array([], num_workers=num_workers)
    assert (len(ids), offsets.tolist()) == (0, [0])
    assert tokenizer.encode_batch(["", "", "a"], num_workers=num_workers) == [[], [], [97]]


def test_the_error_names_the_first_text_with_an_absent_byte():
    tokenizer = Tokenizer({0: b"a", 1: b" "}, [])
    for encode in (tokenizer.encode_batch, tokenizer.encode_batch_array):
        with rejects(None, "0x62", "'b'", 2, place="text 1"):
            encode(["a", "a b", "a b"], num_workers=2)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX signals")
@pytest.mark.parametrize("offset", [0, 1 << 21])
def test_signals_are_handled_between_the_texts_of_a_batch(offset):
    vocab = {offset + i: bytes([i]) for i in range(256)}
    seen = []
    with alarm(lambda *_: seen.append(1), 0.002, 0.002):
        Tokenizer(vocab, []).encode_batch([TRAINING_TEXT * 100] * 200, num_workers=1)
    # Signals that arrive between two checks are handled only once.
    assert len(seen) > 5


def test_an_arrow_array_is_a_batch():
    pyarrow = pytest.importorskip("pyarrow")
    tokenizer, texts = small_tokenizer(), ["the cat", "", "sat"]
    expected = tokenizer.encode_batch(texts)
    for column in (pyarrow.array(texts), pyarrow.chunked_array([texts[:1], texts[1:]])):
        assert tokenizer.encode_batch(column) == expected
        assert [ids.tolist() for ids in tokenizer.encode_batch_array(column).arrays()] == expected
    with rejects("text", "None", place="text 1", kind=InputTypeError):
        tokenizer.encode_batch(pyarrow.array(["a", None]))
