"""Errors that the library raises on purpose. Any other ValueError or RuntimeError is a bug in it.

Such an error stores its message as fields. Python prints the names of arguments, such as
`overwrite=True`. A command prints its own options for them, such as `--overwrite`.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


# Every command imports this module first: a typing.NamedTuple would cost it a millisecond.
class Argument(namedtuple("Argument", "name value", defaults=[...])):
    """An argument that a message mentions, with the value to pass, if there is one."""

    def __str__(self) -> str:
        return self.name if self.value is ... else f"{self.name}={self.value!r}"


Text = str | tuple[str | Argument, ...]
"""Text of a message, or its parts. The parts are joined without spaces."""


_OVERWRITE = ("choose another name, or pass ", Argument("overwrite", True), " to replace it")


class ReportedError(Exception):
    """Base class of errors that a command prints in one line, without a traceback.

    The message is `PLACE: ARGUMENT PROBLEM; REMEDY`, where all but the problem are optional.

    Args:
        problem: What is wrong with which value.
        argument: Name of the Python argument that is wrong.
        remedy: What to do about it.
        place: Where the error is, such as a file or the index of a text.
    """

    def __init__(
        self,
        problem: Text = "",
        *,
        argument: str | None = None,
        remedy: Text = "",
        place: str = "",
    ) -> None:
        # `args` stays what __new__ stored: pickle calls the class with it, then sets the fields.
        self.problem = problem
        self.argument = argument
        self.remedy = remedy
        self.place = place

    def message(self, shown: Callable[[Argument], str] = str) -> str:
        """Return the message.

        Args:
            shown: Function that formats an argument.
        """
        text = joined(self.problem, shown)
        if self.argument is not None:
            text = f"{shown(Argument(self.argument))} {text}"
        if self.place:
            text = f"{self.place}: {text}"
        return f"{text}; {joined(self.remedy, shown)}" if self.remedy else text

    def __str__(self) -> str:
        return self.message()

    def at(self, place: str) -> Self:
        """Return a copy of the error whose message starts with `place`."""
        error = self._copy()
        error.place = f"{place}: {self.place}" if self.place else place
        return error

    def renamed(self, rename: Callable[[str], str]) -> Self:
        """Return a copy for a caller that has other names for the arguments."""

        def text(parts: Text) -> Text:
            if isinstance(parts, str):
                return parts
            return tuple(
                part if isinstance(part, str) else part._replace(name=rename(part.name))
                for part in parts
            )

        error = self._copy()
        error.problem, error.remedy = text(self.problem), text(self.remedy)
        error.argument = None if self.argument is None else rename(self.argument)
        return error

    def _copy(self) -> Self:
        import copy  # needed only for errors

        return copy.copy(self)


class InputError(ReportedError, ValueError):
    """A value or file that the library cannot use."""


class InputTypeError(InputError, TypeError):
    """A value of the wrong type."""


class MissingFileError(InputError, FileNotFoundError):
    """An input that does not exist."""


class OutputExistsError(InputError, FileExistsError):
    """An output that exists. By default, the remedy is `overwrite=True`."""

    def __init__(self, problem: Text = "", *, remedy: Text = _OVERWRITE) -> None:
        super().__init__(problem, remedy=remedy)


class UnavailableError(InputError, ImportError):
    """A package or compiled extension that is needed but not installed."""


BUILD = (
    "run `python setup.py build_ext --inplace` in the checkout, or reinstall the package with a "
    "C++ compiler"
)
"""What to do if an extension is not built."""


class RunError(ReportedError, RuntimeError):
    """A failure that changing the arguments may not prevent, such as a killed worker process."""


def error_in_file(error: InputError, place: str) -> InputError:
    """Return an error about the content of a file, which the caller did not write.

    The names of arguments become plain text: they are parts of the file, so a command must not show
    options for them.
    """
    return InputError(str(error), place=place)


def joined(text: Text, shown: Callable[[Argument], str] = str) -> str:
    """Return a text whose arguments are formatted by `shown`."""
    if isinstance(text, str):
        return text
    return "".join(part if isinstance(part, str) else shown(part) for part in text)
