"""Public functions reject invalid arguments with one-line messages that name the argument."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from cs336_basics import Tokenizer, train_bpe
from cs336_basics._support.arguments import (
    check_choice,
    check_is_number,
    checked_integer,
    utf8_of,
)
from cs336_basics._support.errors import InputTypeError
from cs336_basics.counting import WordCounts, count_text, count_texts, count_words
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import encode_file
from tests.errors import rejects
from tests.tokenizer.examples import BYTES, byte_tokenizer

HUGE = 10**5000  # too long for int-to-str conversion
LONG = "x" * 10**6
TOKENIZER = byte_tokenizer("<s>")


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat " * 20)
    return tmp_path / "a.txt"


def test_integers_of_python_and_numpy_are_accepted():
    for value in (3, np.int64(3), np.uint8(3)):
        number = checked_integer("n", value, 1, 3)
        assert number == 3
        assert type(number) is int


@pytest.mark.parametrize("value", [True, np.True_, 1.0, math.nan, "1", None, [1], np.ones(1)])
def test_non_integers_are_rejected(value):
    with rejects("n", kind=InputTypeError):
        checked_integer("n", value, 0)


@pytest.mark.parametrize("value", [None, 1, ["a"], np.array(["a", "b"]), b"a", {}])
def test_a_choice_is_a_str(value):
    check_choice("mode", "fast", ["fast", "slow"])
    check_choice("mode", np.str_("fast"), ["fast", "slow"])
    with rejects("mode", "fast, slow, or None", kind=InputTypeError):
        check_choice("mode", value, ["fast", "slow"], ", or None")
    with rejects("mode", "'fats'", "did you mean 'fast'?"):
        check_choice("mode", "fats", ["fast", "slow"])


def test_utf8_cannot_represent_a_lone_surrogate(path):
    assert utf8_of("word", "é") == b"\xc3\xa9"
    for name, use in {
        "word": lambda text: utf8_of("word", text),
        "token": TOKENIZER.token_to_id,
        "pattern": lambda text: train_bpe(path, 260, [], pattern=text),
        "special_tokens": lambda text: train_bpe(path, 260, [text]),
        "require": lambda text: train_bpe(path, 260, [], require=[text]),
        "forbid": lambda text: train_bpe(path, 260, [], forbid=text),
    }.items():
        with rejects(name, r"\udcff+"):
            use("\udcff+")


@pytest.mark.parametrize("name", ["overwrite", "document_starts", "progress"])
def test_words_are_not_taken_for_true(path, name):
    with rejects(name, "'no'", kind=InputTypeError):
        encode_file(TOKENIZER, path, path.with_suffix(".npy"), **{name: "no"})


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [
        (lambda: TOKENIZER.id_to_token(True), "token_id", "True"),
        (lambda: TOKENIZER.id_to_token(5.0), "token_id", "5.0"),
        (lambda: WordCounts.from_mapping(5), "counts", "5"),
        (lambda: WordCounts.combined([WordCounts.from_mapping({}), 5]), "addends", "5"),
        (lambda: WordCounts.from_mapping({}).scaled(True), "weight", "True"),
    ],
)
def test_arguments_of_the_wrong_type_are_rejected(call, argument, value):
    with rejects(argument, value, kind=InputTypeError):
        call()


def test_a_file_descriptor_is_not_a_path():
    with rejects("path", 3, kind=InputTypeError):
        WordCounts.load(3)


@pytest.mark.parametrize("value", [0, -HUGE, 4, HUGE], ids=range(4))
def test_integers_out_of_range_are_rejected_in_one_short_line(value):
    limit = "most 3" if value > 3 else "least 1"
    with rejects("n", limit) as error:
        checked_integer("n", value, 1, 3)
    assert len(str(error.value)) < 200


CALLS = {
    "num_workers of count_words": lambda path, n: count_words(path, num_workers=n),
    "num_workers of train_bpe": lambda path, n: train_bpe(path, 257, [], num_workers=n),
    "num_workers of encode_batch": lambda path, n: TOKENIZER.encode_batch(["a"], num_workers=n),
    "num_workers of encode_array": lambda path, n: TOKENIZER.encode_array("a", num_workers=n),
    "num_workers of encode_file": lambda path, n: encode_file(
        TOKENIZER, path, path.with_suffix(".npy"), num_workers=n
    ),
    "chunk_size of count_words": lambda path, n: count_words(path, chunk_size=n),
    "chunk_size of encode_file": lambda path, n: encode_file(
        TOKENIZER, path, path.with_suffix(".npy"), chunk_size=n
    ),
    "cache_size of Tokenizer": lambda path, n: Tokenizer(BYTES, [], cache_size=n),
    "vocab_size of train_bpe": lambda path, n: train_bpe(path, n, []),
    "min_frequency of train_bpe": lambda path, n: train_bpe(path, 257, [], min_frequency=n),
    "max_token_length of train_bpe": lambda path, n: train_bpe(path, 257, [], max_token_length=n),
    "texts of encode_batch": lambda path, value: TOKENIZER.encode_batch(value),
    "batch of decode_batch": lambda path, value: TOKENIZER.decode_batch(value),
    "texts of count_texts": lambda path, value: count_texts(value),
    "special_tokens of Tokenizer": lambda path, value: Tokenizer(BYTES, [], value),
    "special_tokens of Splitter": lambda path, value: Splitter("gpt2", value),
    "merges of Tokenizer": lambda path, value: Tokenizer(BYTES, value),
    "allowed_special of encode": lambda path, value: TOKENIZER.encode("a", allowed_special=value),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("value", [1.5, -1, LONG, b"abc"], ids=["1.5", "-1", "long", "bytes"])
def test_integers_and_lists_are_checked(path, name, value):
    with rejects(name.split()[0]) as error:
        CALLS[name](path, value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    "name", [name for name in CALLS if name.startswith(("num_workers", "chunk_size"))]
)
def test_zero_workers_and_empty_chunks_are_rejected(path, name):
    with rejects(name.split()[0], 1, 0):
        CALLS[name](path, 0)
    assert os.listdir(path.parent) == ["a.txt"]


@pytest.mark.parametrize("name", [name for name in CALLS if "_size" in name or "num_" in name])
@pytest.mark.parametrize("value", [2**64, HUGE], ids=["2^64", "huge"])
def test_no_integer_overflows(path, name, value):
    argument = name.split()[0]
    if argument == "chunk_size":  # no upper limit
        CALLS[name](path, value)
    else:
        with rejects(argument):
            CALLS[name](path, value)


@pytest.mark.parametrize(
    "function",
    [TOKENIZER.encode, TOKENIZER.encode_array, TOKENIZER.encode_with_offsets, count_text],
)
@pytest.mark.parametrize("value", [5, None, ["a"], np.array(["a"])])
def test_a_text_must_be_a_str(function, value):
    with rejects("text", kind=InputTypeError):
        function(value)


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (lambda path: Tokenizer(BYTES, [], {"<s>": 999}), ("special_tokens", 999)),
        (lambda path: Tokenizer(LONG, []), ("vocab",)),
        (lambda path: Tokenizer(BYTES, [], backend=LONG), ("backend",)),
        (lambda path: train_bpe(path, 257, [], trainer=["heap"]), ("trainer", "['heap']")),
        (lambda path: list(TOKENIZER.encode_iterable(5)), ("iterable", 5)),
        (lambda path: TOKENIZER.special_token_id(LONG), ("token", "xxx'")),
        (lambda path: TOKENIZER.decode([HUGE]), (None, "<int too long to show>")),
        (lambda path: Splitter(LONG), ("pattern", "xxx'")),
        (lambda path: Corpus(path, errors=LONG), ("errors",)),
    ],
)
def test_messages_name_the_argument_and_shorten_the_value(path, call, fields):
    with rejects(*fields) as error:
        call(path)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("value", ["1", None, 1j, True, np.True_, [1]])
def test_what_is_not_a_number_is_refused(value):
    with rejects("x", kind=InputTypeError):
        check_is_number("x", value)


@pytest.mark.parametrize("value", [0, -1.5, float("nan"), np.float32(2), np.int64(3)])
def test_numbers_of_python_and_numpy_are_numbers(value):
    check_is_number("x", value)
