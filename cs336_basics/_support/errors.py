"""Errors that the library raises for values and files that its caller can change."""

from __future__ import annotations


class InputError(ValueError):
    """A value or file that the library cannot use. The message says why and what to do.

    Any other ValueError or TypeError that leaves the library is a bug in the library.

    Args:
        problem: What is wrong with which value.
        argument: Name of the Python argument that is wrong, if it is one argument.
        remedy: What to do about it.
    """

    def __init__(
        self, problem: str = "", *, argument: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.argument = argument
        self.remedy = remedy

    def __str__(self) -> str:
        return self.problem if self.remedy is None else f"{self.problem}; {self.remedy}"


class InputTypeError(InputError, TypeError):
    """A value of the wrong type."""
