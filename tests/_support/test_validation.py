"""Checked dataclasses: access by dotted name, parsing of text, and one-line messages."""

from __future__ import annotations

import dataclasses
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
from tests.errors import rejects


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
    ("values", "argument", "shown"),
    [
        ({"inner.widht": 3}, "inner.widht", "'inner.width'"),
        ({"width": 3}, "width", "'inner.width'"),
        ({"inner": 3}, "inner", ""),
        ({"inner.width": 0}, "inner.width", "0"),
        ({"inner.width": 2**63}, "inner.width", "9223372036854775808"),
        ({"inner.width": True}, "inner.width", "True"),
        ({"inner.width": "8"}, "inner.width", "'8'"),
        ({"inner.rate": "1"}, "inner.rate", "'1'"),
        ({"switch": "true"}, "switch", "'true'"),
        ({"rest": -1}, "rest", "-1"),
        ({"inner.width": 7}, "inner.width", "7"),
        ({"inner.rate": Word("inf")}, "inner.rate", "'inf'"),
        ({"kind": "c"}, "kind", "'c'"),
        ({"trainer": "hep"}, "trainer", "'hep'"),
        ({"paths": []}, "paths", "[]"),
        ({"paths": ["a", 3]}, "paths", "['a', 3]"),
        ({"folder": 3}, "folder", "3"),
        ({"name": "x" * 9, "rest": "y", "kind": "c"}, "rest", "'y'"),
    ],
)
def test_errors_name_the_field_and_the_value(values, argument, shown):
    with rejects(argument, shown) as error:
        build(Outer, values)
    assert error.value.argument == argument
    assert "\n" not in str(error.value)
