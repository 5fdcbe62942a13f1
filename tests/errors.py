"""Checks of the fields of errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from cs336_basics._support.errors import InputError, ReportedError


@contextlib.contextmanager
def rejects(
    argument: str | None,
    *values: object,
    place: object = "",
    kind: type[ReportedError] = InputError,
) -> Iterator[pytest.ExceptionInfo[ReportedError]]:
    """Check the fields of the error that the `with` block raises.

    Args:
        argument: The error's `argument`.
        values: Values that the message must show.
        place: Text that the error's `place` must contain.
        kind: Class of the error.
    """
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.argument == argument
    assert str(place) in caught.value.place
    for value in values:
        assert str(value) in str(caught.value)
