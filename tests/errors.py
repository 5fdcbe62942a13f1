"""Checks of the fields of errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from cs336_basics._support.errors import InputError


@contextlib.contextmanager
def rejects(
    argument: str | None, *values: object, kind: type[InputError] = InputError
) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """Check that the `with` block raises an error about an argument.

    Args:
        argument: The error's `argument`.
        values: Values that the message must show.
        kind: Class of the error.
    """
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.argument == argument
    for value in values:
        assert str(value) in str(caught.value)
