"""SpecialChoice: which special tokens of a text become ids, and which are refused."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from cs336_basics._support.messages import short_repr
from cs336_basics.pretokenization import Splitter, split_special_tokens


class SpecialSets(NamedTuple):
    """The special tokens that become ids, and those that are refused; the others are text."""

    allowed: frozenset[str]
    disallowed: frozenset[str]

    def check(self, text: str, start: int = 0) -> None:
        """Refuse a text that holds a disallowed special token.

        Args:
            text: a text, or a part of one that no special token crosses.
            start: where it begins in the whole text, in characters.

        Raises:
            ValueError: it does; names the token and its position.
        """
        if not self.disallowed:
            return
        for segment, is_special in split_special_tokens(
            text, sorted(self.allowed | self.disallowed)
        ):
            if is_special and segment in self.disallowed:
                raise ValueError(
                    f"the text holds the special token {segment!r} at character {start:,}: add it "
                    "to allowed_special, or remove it from disallowed_special to read it as text"
                )
            start += len(segment)

    def splitter(self, splitter: Splitter) -> Splitter:
        """Return a splitter that cuts out these special tokens and no others."""
        found = self.allowed | self.disallowed
        special_tokens = [token for token in splitter.special_tokens if token in found]
        if len(special_tokens) == len(splitter.special_tokens):
            return splitter
        return Splitter(splitter.pattern, special_tokens)


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
        none_disallowed = isinstance(disallowed_special, (tuple, list)) and not disallowed_special
        if allowed_special in (None, "all") and none_disallowed:
            return self._all
        sets = self.sets(allowed_special, disallowed_special)
        if sets.disallowed:
            sets.check(text if isinstance(text, str) else text.decode("utf-8", "surrogateescape"))
        return sets.allowed

    def sets(
        self,
        allowed_special: str | Collection[str] | None,
        disallowed_special: str | Collection[str],
    ) -> SpecialSets:
        """Return which special tokens are allowed, and which are refused; see `choose`.

        Raises:
            TypeError, ValueError: see `Tokenizer.encode`.
        """
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
        return SpecialSets(allowed, disallowed)

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
