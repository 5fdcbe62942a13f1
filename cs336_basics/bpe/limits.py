"""Limits: which tokens a training run may learn.

A trainer asks about a pair when the pair is the most frequent one, and skips the pair for the rest
of the run if the limits refuse it. The trainers therefore ask about the same pairs in the same
order, and limits cost nothing for the pairs that are never chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cs336_basics._support.arguments import MAX_INT64, checked_bool, checked_integer, utf8_of
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr

if TYPE_CHECKING:
    import regex

MAX_SEARCH_SECONDS = 10.0
"""Maximum time to search one token for `forbid`. Some expressions take exponential time."""

Veto = Callable[[bytes, bytes, int], object]
"""Function of the left token, the right token and the count of a pair. If the result is true, the
pair is not merged."""


@dataclass(frozen=True)
class Limits:
    """Limits of the tokens that merges produce; see `BPE_Trainer`.

    Raises:
        ValueError, TypeError: If a limit is invalid.
    """

    max_token_length: int | None = None
    """Maximum length in bytes."""
    max_words: int | None = None
    """Maximum number of words, which are separated by whitespace."""
    whole_characters: bool = False
    """Whether a token must consist of whole characters or be a part of one character."""
    forbid: str | None = None
    """Regular expression that must not match any part of a token."""
    veto: Veto | None = None

    def __post_init__(self) -> None:
        for name in ("max_token_length", "max_words"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, checked_integer(name, value, 1, MAX_INT64))
        checked_bool("whole_characters", self.whole_characters)
        if self.forbid is not None and not isinstance(self.forbid, str):
            raise InputTypeError(
                f"must be a regular expression, got {short_repr(self.forbid)}", argument="forbid"
            )
        if self.forbid == "":
            raise InputError(
                "must not be empty, because it would match every token", argument="forbid"
            )
        if self.forbid is not None:
            utf8_of("forbid", self.forbid)
        self._forbidden  # noqa: B018  # compiles the expression
        if self.veto is not None and not callable(self.veto):
            raise InputTypeError(
                f"must be callable or None, got {short_repr(self.veto)}", argument="veto"
            )

    def given(self) -> dict[str, Any]:
        """Return the limits that differ from their defaults, by name."""
        return {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        }

    def record(self) -> dict[str, Any]:
        """Return the given limits for a JSON file. A veto is represented by its name."""
        given = self.given()
        if self.veto is not None:
            given["veto"] = getattr(self.veto, "__qualname__", type(self.veto).__qualname__)
        return given

    @cached_property
    def _are_given(self) -> bool:
        return bool(self.given())

    def __bool__(self) -> bool:
        """Whether there is any limit. Trainers ask before every merge, so the answer is kept."""
        return self._are_given

    def refuse(self, left: bytes, right: bytes, count: int) -> bool:
        """Return whether a pair must not be merged."""
        token = left + right
        return bool(
            (self.max_token_length is not None and len(token) > self.max_token_length)
            or (self.whole_characters and mixes_characters(token))
            or (self.max_words is not None and num_words(token) > self.max_words)
            or (self._forbidden and self._is_forbidden(token))
            or (self.veto and self._is_vetoed(left, right, count))
        )

    def _is_vetoed(self, left: bytes, right: bytes, count: int) -> object:
        assert self.veto is not None
        try:
            return self.veto(left, right, count)
        except StopIteration as error:
            # In a generator, Python would replace it by a RuntimeError; elsewhere, it would look
            # like the end of an iteration.
            raise InputError(
                f"raised StopIteration for the pair {short_repr((left, right))}",
                argument="veto",
                remedy="return True or False",
            ) from error

    def _is_forbidden(self, token: bytes) -> bool:
        assert self._forbidden is not None
        text = token.decode(errors="replace")
        try:
            return self._forbidden.search(text, timeout=MAX_SEARCH_SECONDS) is not None
        except TimeoutError:
            raise InputError(
                f"{short_repr(self.forbid)} takes more than {MAX_SEARCH_SECONDS:g} s to search the "
                f"token {short_repr(token)}",
                argument="forbid",
                remedy="write it without nested repetitions",
            ) from None

    @cached_property
    def _forbidden(self) -> regex.Pattern[str] | None:
        if self.forbid is None:
            return None
        import regex

        try:
            return regex.compile(self.forbid)
        except regex.error as error:
            raise InputError(
                f"{short_repr(self.forbid)} is not a regular expression: {error}",
                argument="forbid",
            ) from None


def mixes_characters(token: bytes) -> bool:
    """Return whether a token of UTF-8 text has a part of one character and bytes of another."""
    if all(0x80 <= byte < 0xC0 for byte in token[1:]):
        return False  # at most one character starts in the token: at its first byte
    try:
        token.decode()
    except UnicodeDecodeError:
        return True
    return False


def num_words(token: bytes) -> int:
    """Return the number of words in a token. Words are separated by whitespace."""
    return len(token.decode(errors="replace").split())
