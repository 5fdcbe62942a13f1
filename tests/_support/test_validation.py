"""Checked dataclasses: access by dotted name, parsing of text, and one-line messages."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

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
            raise ValueError(f"inner.width must be even, got {self.width}")


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
    ("values", "message"),
    [
        ({"inner.widht": 3}, "unknown option 'inner.widht'; did you mean 'inner.width'?"),
        ({"width": 3}, "unknown option 'width'; did you mean 'inner.width'?"),
        ({"inner": 3}, "unknown option 'inner'"),
        ({"inner.width": 0}, "inner.width must be at least 1, got 0"),
        ({"inner.width": 2**63}, "got 9223372036854775808"),
        ({"inner.width": True}, "inner.width must be an integer, got True"),
        ({"inner.width": "8"}, "inner.width must be an integer, got '8'"),
        ({"inner.rate": "1"}, "inner.rate must be a finite number such as 0.5 or 1e9, got '1'"),
        ({"switch": "true"}, "switch must be true or false, got 'true'"),
        ({"rest": -1}, "rest must be at least 0, got -1"),
        ({"inner.width": 7}, "inner.width must be even, got 7"),
        (
            {"inner.rate": Word("inf")},
            "inner.rate must be a finite number such as 0.5 or 1e9, got 'inf'",
        ),
        ({"kind": "c"}, "kind must be 'a' or 'b', got 'c'"),
        ({"trainer": "hep"}, "trainer must be 'naive' or 'heap', got 'hep'"),
        ({"paths": []}, "paths must be a path or a list of paths, got []"),
        ({"paths": ["a", 3]}, "paths must be text, got ['a', 3]"),
        ({"folder": 3}, "folder must be text, got 3"),
        ({"name": "x" * 9, "rest": "y", "kind": "c"}, "rest must be an integer, got 'y'"),
    ],
)
def test_errors_are_one_line(values, message):
    with pytest.raises(ValueError, match=r"\S") as error:
        build(Outer, values)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
