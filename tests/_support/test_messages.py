"""Messages show shortened values and suggest the nearest names."""

from __future__ import annotations

import json
import time

import pytest

from cs336_basics import Tokenizer
from cs336_basics._support.messages import (
    counted,
    json_kind,
    nearest,
    short_names,
    short_reason,
    short_repr,
)
from tests.errors import rejects


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, "\n" * 1000, b"\x00" * 10**6, 10**5000, -(10**5000), list(range(10**5)),
     {"k" * 10**5: "v" * 10**5}, ("é" * 1000,) * 1000, [["x" * 50] * 9]],
    ids=range(9),
)  # fmt: skip
def test_a_long_value_is_cut(value):
    text = short_repr(value)
    assert len(text) <= 100
    assert "\n" not in text


def test_nested_lists_with_shared_elements_take_no_time():
    value = ["x"]
    for _ in range(200):
        value = [value, value, value]
    start = time.process_time()
    assert len(short_repr(value)) <= 100
    assert time.process_time() - start < 1


def test_a_reason_is_one_short_line():
    assert short_reason(ValueError("a\n  b")) == "a b"
    assert short_reason(KeyError()) == "KeyError"
    assert len(short_reason(ValueError("x " * 10**6))) <= 300


def test_names_from_a_file_are_one_short_printable_line():
    names = ["id", "größe", "a\n\x1b[31m", "\udcf6"]
    assert short_names(names) == r"id, größe, 'a\n\x1b[31m', '\udcf6'"
    assert len(short_names(["x" * 10**6])) == 300
    assert len(short_names(["word"] * 10**6)) < 200


@pytest.mark.parametrize(
    ("number", "found"), [(0, "0 merges"), (1, "1 merge"), (2000, "2,000 merges")]
)
def test_a_number_has_a_singular_or_plural_noun(number, found):
    assert counted(number, "merge") == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("d_model", "; did you mean 'model.d_model'?"),
        ("model.d_modle", "; did you mean 'model.d_model'?"),
        ("learning_rate", "; did you mean 'schedule.max_learning_rate'?"),
        ("optimizer.lr", "; did you mean 'schedule.max_learning_rate'?"),
        ("block_size", "; did you mean 'model.context_length'?"),
        ("optimizer", "; did you mean 'optimizer.kind'?"),
        ("epochs", ""),
        ("qqqq", ""),
    ],
)
def test_the_nearest_name_is_suggested(name, found):
    names = [
        "model.d_model",
        "model.context_length",
        "data.normalizer",
        "optimizer.kind",
        "optimizer.eps",
        "schedule.max_learning_rate",
        "products",
    ]
    assert nearest(name, names) == found

    def shown(text):  # on the command line; dashes at the start do not make two names similar
        return text.replace("_", "-").replace("'", "'--", 1)

    options = ["--" + option.replace("_", "-") for option in names]
    assert nearest("--" + name, options) == shown(found)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("null", "null"),
        ("{}", "an object"),
        ("[]", "an array"),
        ('"a"', "a string"),
        ("true", "a Boolean"),
        ("1", "a number"),
        ("1.5", "a number"),
    ],
)
def test_a_json_value_is_named_as_in_json(tmp_path, text, kind):
    assert json_kind(json.loads(text)) == kind
    if text != "{}":
        path = tmp_path / "tokenizer.json"
        path.write_text(text)
        for read in (Tokenizer.from_directory, lambda path: Tokenizer.from_files(path, path)):
            with rejects(None, kind):
                read(path)
