"""Errors whose messages are fields."""

from __future__ import annotations

import copy
import pickle

import pytest

from cs336_basics._support.errors import (
    Argument,
    InputError,
    InputTypeError,
    OutputExistsError,
    ReportedError,
    RunError,
    UnavailableError,
)

KINDS = {
    InputError: ValueError,
    InputTypeError: TypeError,
    OutputExistsError: FileExistsError,
    UnavailableError: ImportError,
    RunError: RuntimeError,
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_also_a_builtin_error(kind):
    with pytest.raises(KINDS[kind], match="is wrong"):
        raise kind("is wrong")


def test_a_message_has_a_place_an_argument_a_problem_and_a_remedy():
    error = InputError(
        ("must be less than ", Argument("size"), ", got 4"),
        argument="width",
        remedy=("pass ", Argument("force", True)),
    )
    assert str(error) == "width must be less than size, got 4; pass force=True"
    assert str(error.at("a.txt")) == f"a.txt: {error}"
    assert str(error.at("line 3").at("a.txt")) == f"a.txt: line 3: {error}"
    assert str(InputError("is wrong")) == "is wrong"


def test_the_caller_of_message_decides_how_arguments_look():
    error = InputError("is 3, not ", argument="a", remedy=("pass ", Argument("b", "x")))
    assert error.message(lambda argument: f"<{argument.name}>") == "<a> is 3, not ; pass <b>"


def test_renaming_changes_all_arguments_and_nothing_else():
    error = InputError(
        ("must exceed ", Argument("b")), argument="a", remedy=("pass a=", Argument("a", "a"))
    )
    renamed = error.at("a").renamed(lambda name: f"data.{name}")
    assert str(renamed) == "a: data.a must exceed data.b; pass a=data.a='a'"
    assert str(error) == "a must exceed b; pass a=a='a'"


@pytest.mark.parametrize("kind", KINDS)
def test_errors_cross_processes(kind):
    error = kind(("is ", Argument("x", 3))).at("here")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert vars(other) == vars(error)
        assert str(other) == str(error)


def test_every_reported_error_of_the_library_is_an_input_or_a_run_error():
    others = {kind for kind in ReportedError.__subclasses__() if kind not in (InputError, RunError)}
    assert all(issubclass(kind, OSError) for kind in others)
