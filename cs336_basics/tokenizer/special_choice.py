"""SpecialChoice: which special tokens of a text become ids, and which are refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from cs336_basics._messages import short_repr
from cs336_basics.pretokenization import split_special_tokens


class SpecialChoice:
    """The special tokens of a tokenizer, of which each call of `encode` allows some.

    Args:
        all_special: all of them.
        in_order: the same, as messages list them.
    """

    def __init__(self, all_special: frozenset[str], in_order: Sequence[str]) -> None:
        self._all = all_special
        self._in_order = in_order

    def choose(
        self,
        text: str | bytes,
        allowed_special: str | Collection[str] | None,
        disallowed_special: str | Collection[str],
    ) -> frozenset[str]:
        """Return the allowed special tokens, after refusing a text that holds disallowed ones.

        Bytes of the text need not be UTF-8. `allowed_special` None: all that are not disallowed.

        Raises:
            TypeError, ValueError: see `Tokenizer.encode`.
        """
        if allowed_special in (None, "all") and not disallowed_special:
            return self._all
        if allowed_special is None:
            disallowed = self._named("disallowed_special", disallowed_special, self._all)
            allowed = self._all - disallowed
        else:
            allowed = self._named("allowed_special", allowed_special, self._all)
            disallowed = self._named("disallowed_special", disallowed_special, self._all - allowed)
        if both := allowed & disallowed:
            raise ValueError(
                f"special token {min(both)!r} is both allowed and disallowed: remove it from one"
            )
        if disallowed:
            if isinstance(text, bytes):
                text = text.decode("utf-8", "surrogateescape")
            _check_contains_none_of(text, disallowed, allowed)
        return allowed

    def _named(
        self, name: str, tokens: str | Collection[str], everything: frozenset[str]
    ) -> frozenset[str]:
        """Return the special tokens that the argument `name` lists; "all" means `everything`."""
        if tokens == "all":
            return everything
        if isinstance(tokens, str):
            raise ValueError(
                f"{name} is {short_repr(tokens)}: it must be 'all' or a list of special tokens"
            )
        given: Any = tokens
        if isinstance(given, (bytes, bytearray)) or not isinstance(given, Collection):
            raise TypeError(
                f"{name} is {short_repr(tokens)}: it must be 'all' or a list of special tokens"
            )
        for token in tokens:
            if not isinstance(token, str) or token not in self._all:
                raise ValueError(
                    f"{name}: {short_repr(token)} is not a special token: use some of "
                    f"{short_repr(self._in_order)}"
                )
        return frozenset(tokens)


def _check_contains_none_of(text: str, disallowed: frozenset[str], allowed: frozenset[str]) -> None:
    """Raise ValueError for a text in which a disallowed special token occurs."""
    start = 0
    for segment, is_special in split_special_tokens(text, sorted(allowed | disallowed)):
        if is_special and segment in disallowed:
            raise ValueError(
                f"the text holds the special token {segment!r} at character {start:,}: add it to "
                "allowed_special, or remove it from disallowed_special to read it as text"
            )
        start += len(segment)
