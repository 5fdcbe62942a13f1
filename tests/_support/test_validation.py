"""Checked dataclasses: access by dotted name, parsing of text, and one-line messages."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from cs336_basics._support.errors import InputError
from cs336_basics._support.validation import (
    Amount,
    Checked,
    Count,
    Paths,
    Word,
    build,
    one_of,
    option,
)


@dataclass(frozen=True)
class Inner(Checked):
    width: Count = option("how wide", 8)
    rate: float | None = option("how fast", None, gt=0)

    def __post_init__(self):
        if self.width % 2:
            raise InputError(f"must be even, got {self.width}", argument="width")


@dataclass(frozen=True)
class Outer(Checked):
    name: str = option("its name", "x")
    folder: str | None = option("where", None)
    paths: Paths | None = option("files", None)
    kind: Literal["a", "b"] = option("which", "a")
    trainer: Annotated[str, one_of(["naive", "heap"])] = option("who", "heap")
    switch: bool = option("whether", False)
    rest: Amount = option("how many", 0)
    inner: Inner = dataclasses.field(default_factory=Inner)


def test_words_are_converted():
    texts = {"switch": "true", "inner.width": "10", "inner.rate": "1e-3"}
    values = {**{name: Word(text) for name, text in texts.items()}, "paths": [Word("a"), "b"]}
    found = build(Outer, {**values, "folder": Path("f"), "rest": 0})
    assert found == Outer(
        switch=True, inner=Inner(width=10, rate=0.001), paths=("a", "b"), folder="f"
    )
    assert build(Outer, {"paths": [Path("a")]}).paths == "a"


def test_null_is_none_only_if_the_field_may_be_none():
    names = ("inner.rate", "folder", "name")
    found = build(Outer, dict.fromkeys(names, Word("null")))
    assert (found.inner.rate, found.folder, found.name) == (None, None, "null")


@pytest.mark.parametrize(
    ("values", "argument", "problem"),
    [
        ({"inner.widht": 3}, "inner.widht", "did you mean 'inner.width'?"),
        ({"width": 3}, "width", "did you mean 'inner.width'?"),
        ({"inner": 3}, "inner", "is not an option"),
        ({"inner.width": 0}, "inner.width", "at least 1, got 0"),
        ({"inner.width": 2**63}, "inner.width", "got 9223372036854775808"),
        ({"inner.width": True}, "inner.width", "an integer, got True"),
        ({"inner.width": "8"}, "inner.width", "an integer, got '8'"),
        ({"inner.rate": "1"}, "inner.rate", "a finite number such as 0.5 or 1e9, got '1'"),
        ({"switch": "true"}, "switch", "true or false, got 'true'"),
        ({"rest": -1}, "rest", "at least 0, got -1"),
        ({"inner.width": 7}, "inner.width", "even, got 7"),
        ({"inner.rate": Word("inf")}, "inner.rate", "got 'inf'"),
        ({"kind": "c"}, "kind", "'a' or 'b', got 'c'"),
        ({"trainer": "hep"}, "trainer", "'naive' or 'heap', got 'hep'"),
        ({"paths": []}, "paths", "a path or a list of paths, got []"),
        ({"paths": ["a", 3]}, "paths", "got ['a', 3]"),
        ({"folder": 3}, "folder", "got 3"),
        ({"name": "x" * 9, "rest": "y", "kind": "c"}, "rest", "an integer, got 'y'"),
    ],
)
def test_errors_name_the_field_and_the_value(values, argument, problem):
    with pytest.raises(InputError, match=re.escape(problem)) as error:
        build(Outer, values)
    assert error.value.argument == argument
    assert "\n" not in str(error.value)
