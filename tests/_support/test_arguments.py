"""Public functions reject invalid arguments with one-line messages that name the argument."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cs336_basics import Tokenizer, train_bpe
from cs336_basics._support.arguments import checked_integer
from cs336_basics.pretokenization import (
    Corpus,
    Splitter,
    count_text,
    count_texts,
    count_words,
    pretokenize,
    split_special_tokens,
)
from cs336_basics.tokenizer import encode_file

HUGE = 10**5000  # too long for int-to-str conversion
BYTES = {byte: bytes([byte]) for byte in range(256)}
TOKENIZER = Tokenizer(BYTES, [], ["<s>"])


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat " * 20)
    return tmp_path / "a.txt"


def test_integers_of_python_and_numpy_are_accepted():
    for value in (3, np.int64(3), np.uint8(3)):
        number = checked_integer("n", value, 1, 3)
        assert number == 3
        assert type(number) is int


@pytest.mark.parametrize("value", [True, np.True_, 1.0, 1.5, math.nan, "1", None, [1], np.ones(1)])
def test_non_integers_are_rejected(value):
    with pytest.raises(TypeError, match="n must be an int, got "):
        checked_integer("n", value, 0)


@pytest.mark.parametrize("value", [0, -HUGE, 4, 2**64, HUGE], ids=range(5))
def test_integers_out_of_range_are_rejected_in_one_short_line(value):
    limit = "most 3" if value > 3 else "least 1"
    with pytest.raises(ValueError, match=f"n must be at {limit}, got ") as error:
        checked_integer("n", value, 1, 3)
    assert len(str(error.value)) < 200


INTEGERS = {
    "num_workers of count_words": lambda path, n: count_words(path, num_workers=n),
    "num_workers of train_bpe": lambda path, n: train_bpe(path, 257, [], num_workers=n),
    "num_workers of encode_array": lambda path, n: TOKENIZER.encode_array("a", num_workers=n),
    "num_workers of encode_batch": lambda path, n: TOKENIZER.encode_batch(["a"], num_workers=n),
    "num_workers of encode_file": lambda path, n: encode_file(
        TOKENIZER, path, path.with_suffix(".npy"), num_workers=n
    ),
    "chunk_size of count_words": lambda path, n: count_words(path, chunk_size=n),
    "chunk_size of Corpus.chunks": lambda path, n: Corpus(path).chunks(n),
    "chunk_size of encode_file": lambda path, n: encode_file(
        TOKENIZER, path, path.with_suffix(".npy"), chunk_size=n
    ),
    "cache_size of Tokenizer": lambda path, n: Tokenizer(BYTES, [], cache_size=n),
    "vocab_size of train_bpe": lambda path, n: train_bpe(path, n, []),
    "min_frequency of train_bpe": lambda path, n: train_bpe(path, 257, [], min_frequency=n),
    "max_token_length of train_bpe": lambda path, n: train_bpe(path, 257, [], max_token_length=n),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [1.5, -1])
def test_every_integer_is_checked(path, name, value):
    argument = name.split()[0]
    with pytest.raises((TypeError, ValueError), match=rf"^{argument} must be .*, got "):
        INTEGERS[name](path, value)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [2**64, HUGE], ids=["2^64", "huge"])
def test_no_integer_overflows(path, name, value):
    argument = name.split()[0]
    if argument in ("num_workers", "cache_size", "vocab_size"):
        with pytest.raises(ValueError, match=rf"^{argument} must be at most \d+"):
            INTEGERS[name](path, value)
    else:  # no upper limit
        INTEGERS[name](path, value)


TEXTS = {
    "encode": TOKENIZER.encode,
    "encode_array": TOKENIZER.encode_array,
    "encode_with_offsets": TOKENIZER.encode_with_offsets,
    "count_text": count_text,
    "pretokenize": lambda text: list(pretokenize(text)),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("value", [5, None, ["a"], np.array(["a"])])
def test_a_text_must_be_a_str(name, value):
    with pytest.raises(TypeError, match=r"^text "):
        TEXTS[name](value)


SEVERAL = {
    "texts of encode_batch": TOKENIZER.encode_batch,
    "batch of decode_batch": TOKENIZER.decode_batch,
    "texts of count_texts": count_texts,
    "special_tokens of Tokenizer": lambda value: Tokenizer(BYTES, [], value),
    "special_tokens of Splitter": lambda value: Splitter("gpt2", value),
    "special_tokens of split_special_tokens": lambda value: list(
        split_special_tokens("abc", value)
    ),
    "special_tokens of from_gpt2": lambda value: Tokenizer.from_gpt2(
        "absent", special_tokens=value
    ),
    "merges of Tokenizer": lambda value: Tokenizer(BYTES, value),
    "allowed_special of encode": lambda value: TOKENIZER.encode("a", allowed_special=value),
    "disallowed_special of encode": lambda value: TOKENIZER.encode("a", disallowed_special=value),
}


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("value", ["abc", b"abc", 5])
def test_a_string_is_not_a_list_of_strings(name, value):
    with pytest.raises((TypeError, ValueError), match=rf"^{name.split()[0]}\b"):
        SEVERAL[name](value)


@pytest.mark.parametrize(
    "make",
    [
        lambda special: Tokenizer(BYTES, [], special),
        lambda special: Tokenizer.from_gpt2("absent", special_tokens=special),
        lambda special: Splitter("gpt2", special),
    ],
)
def test_a_dict_of_special_tokens_is_rejected(make):
    with pytest.raises(TypeError, match=r"^special_tokens .*999"):
        make({"<|endoftext|>": 999})


def test_an_open_file_is_not_a_path(path):
    with (
        open(path, encoding="utf-8") as file,
        pytest.raises(TypeError, match=r"^paths must .* got <_io"),
    ):
        train_bpe(file, 300, [])


def test_messages_name_the_argument(path):
    for call, message in (
        (lambda: Tokenizer("abc", []), r"^vocab must be a dict .* got 'abc'"),
        (lambda: train_bpe(path, 257, [], trainer=["heap"]), r"^trainer must be .* got \['heap'\]"),
        (lambda: list(TOKENIZER.encode_iterable(5)), "^iterable must be .* got 5"),
        (lambda: TOKENIZER.special_token_id(["<s>"]), r"^\['<s>'\] is not a special token"),
        (lambda: TOKENIZER.decode([HUGE]), "^id <int too long to show> is not in the"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_messages_shorten_huge_arguments(path):
    huge = "x" * 10**6
    for call in (
        lambda: Splitter(huge),
        lambda: Splitter("gpt2", [huge]),
        lambda: Splitter("gpt2", huge),
        lambda: Tokenizer(BYTES, [], backend=huge),
        lambda: Tokenizer(huge, []),
        lambda: TOKENIZER.encode_batch(huge),
        lambda: TOKENIZER.decode(huge),
        lambda: TOKENIZER.decode([huge]),
        lambda: TOKENIZER.special_token_id(huge),
        lambda: TOKENIZER.encode("a", allowed_special=[huge]),
        lambda: count_words(path, backend=huge),
        lambda: Corpus(path, errors=huge),
        lambda: Corpus(path, field=huge),
        lambda: train_bpe(path, 257, [], trainer=huge),
    ):
        with pytest.raises((TypeError, ValueError)) as error:
            call()
        assert len(str(error.value)) < 600
