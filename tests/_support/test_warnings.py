"""Warnings point to the line that called the library."""

import json
import warnings

import pytest

from cs336_basics import TRAINERS, Tokenizer, train_bpe
from cs336_basics.data.train_tokenizer import train_tokenizer
from cs336_basics.pretokenization import Corpus, Splitter, count_texts, count_words
from cs336_basics.pretokenization.reading.documents import sample_documents
from cs336_basics.tokenizer import IncrementalEncoder, count_tokens, encode_file, encode_rows
from cs336_basics.training.loggers import Logger
from tests.tokenizer.examples import BYTES

TEXT = "one 2 three"
NOT_UTF8 = b"one \xff three"
LETTERS = r"(?=\p{L})\p{L}+"  # not compiled, so counted in Python; other characters are dropped


def letters():
    return Tokenizer(BYTES, [], pattern=LETTERS)


def trainer(**options):
    return TRAINERS["heap"](**options)


def fed(tokenizer, text):
    encoder = IncrementalEncoder(tokenizer)
    encoder.feed(text)
    encoder.finish()


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(NOT_UTF8)
    return path


@pytest.mark.parametrize(
    "call",
    [
        lambda: letters().encode(TEXT),
        lambda: letters().encode_array(TEXT),
        lambda: letters().encode_array(TEXT.encode()),
        lambda: letters().encode_array(NOT_UTF8, errors="bytes"),
        lambda: Tokenizer(BYTES, []).encode_array(NOT_UTF8),
        lambda: letters().encode_batch([TEXT]),
        lambda: letters().encode_batch_array([TEXT]),
        lambda: letters().encode_with_offsets(TEXT),
        lambda: list(letters().encode_iterable([TEXT])),
        lambda: IncrementalEncoder(letters()).feed(TEXT),
        lambda: fed(letters(), TEXT),
        lambda: fed(Tokenizer(BYTES, []), NOT_UTF8),
        lambda: count_texts([TEXT], Splitter(LETTERS)),
        lambda: count_texts([NOT_UTF8], Splitter()),
    ],
)
def test_warnings_about_texts_name_the_call(call):
    check_lines(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda path: count_words(path),
        lambda path: count_words(path, backend="serial"),
        lambda path: count_words(path, Splitter(LETTERS), num_workers=1),
        lambda path: train_bpe(path, 257, ["<|endoftext|>"]),
        lambda path: train_bpe(path, 400, [], trainer="heap"),
        lambda path: trainer().train(path, 400, []),
        lambda path: train_tokenizer(trainer(), Corpus(path), path.parent / "out", 400, []),
        lambda path: count_tokens(Tokenizer(BYTES, []), path),
        lambda path: encode_file(Tokenizer(BYTES, []), path, path.with_suffix(".npy")),
        lambda path: encode_file(letters(), path, path.with_suffix(".npy"), num_workers=1),
        lambda path: encode_rows(letters(), [TEXT], path.with_suffix(".npy")),
        lambda path: sample_documents(Corpus(path), 1),
    ],
)
def test_warnings_about_files_name_the_call(call, text_file):
    check_lines(lambda: call(text_file))


def test_warnings_about_existing_merges_name_the_training_line():
    vocab = {**BYTES, 256: b"aa"}
    check_lines(lambda: trainer(continue_from=(vocab, [])).train_from_counts({b"aa": 5}, 258, []))


def test_warnings_about_a_failing_logger_name_its_first_row():
    def full(row, step):
        raise OSError("disk full")

    logger = Logger("wandb", full, lambda: None)
    check_lines(lambda: logger.log(json.loads('{"step": 1}')))


def check_lines(call):
    """Check that a call causes warnings, all of which point to a line in this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert caught
    assert {one.filename for one in caught} == {__file__}, [str(one) for one in caught]
