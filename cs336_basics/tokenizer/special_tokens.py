"""Choose which special tokens in a text become ids and which raise an error."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from cs336_basics._support.errors import Argument, InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics.splitting import split_special_tokens

if TYPE_CHECKING:
    from cs336_basics.tokenizer.encoders.encoder import Encoder


class SpecialSets(NamedTuple):
    """Added tokens that become ids, and disallowed special tokens, which raise an error.

    All other special tokens are ordinary text. Added tokens that are not special are always
    allowed.
    """

    allowed: frozenset[str]
    disallowed: frozenset[str]

    def check(self, text: str, start: int = 0) -> None:
        """Check that a text contains no disallowed special token.

        Args:
            text: A text, or a part of a text that does not start or end within a special token.
            start: Position of `text` in the whole text, in characters.

        Raises:
            ValueError: If the text contains a disallowed special token. The message includes the
                token and its position.
        """
        if not self.disallowed:
            return
        for segment, is_special in split_special_tokens(text, sorted(self.found)):
            if is_special and segment in self.disallowed:
                raise InputError(
                    f"the text contains the special token {segment!r} at character {start:,}",
                    remedy="add it to allowed_special, or remove it from disallowed_special to "
                    "read it as text",
                )
            start += len(segment)

    @property
    def found(self) -> frozenset[str]:
        """The tokens of both sets."""
        return self.allowed | self.disallowed


def choose_special(
    encoder: Encoder,
    text: str | bytes,
    allowed_special: str | Collection[str] | None,
    disallowed_special: str | Collection[str],
) -> frozenset[str]:
    """Return the added tokens that become ids, after checking the text for disallowed ones.

    Args:
        encoder: Encoder of the tokenizer.
        text: The text. It may be bytes, even invalid UTF-8.
        allowed_special, disallowed_special: See `Tokenizer.encode`.
    """
    if allowed_special is None and _is_empty_tuple(disallowed_special):  # the usual case
        return encoder.all_added
    sets = special_sets(encoder, allowed_special, disallowed_special)
    if sets.disallowed:
        sets.check(text if isinstance(text, str) else text.decode("utf-8", "surrogateescape"))
    return sets.allowed


def special_sets(
    encoder: Encoder,
    allowed_special: str | Collection[str] | None,
    disallowed_special: str | Collection[str],
) -> SpecialSets:
    """Return the added tokens that become ids and the disallowed ones; see `choose_special`."""
    if allowed_special is None and _is_empty_tuple(disallowed_special):  # the usual case
        return encoder.all_sets
    all_special = encoder.all_special

    def named(name: str, tokens: Any, everything: frozenset[str]) -> frozenset[str]:
        """Return the special tokens given by the `name` argument; "all" means `everything`."""
        if isinstance(tokens, str) and tokens == "all":
            return everything
        if isinstance(tokens, (str, bytes, bytearray)) or not isinstance(tokens, Collection):
            raise (InputError if isinstance(tokens, str) else InputTypeError)(
                f"must be 'all' or a list of special tokens, got {short_repr(tokens)}",
                argument=name,
            )
        for token in tokens:
            if not isinstance(token, str) or token not in all_special:
                raise InputError(
                    f"must contain only special tokens of the tokenizer, "
                    f"{short_repr(sorted(all_special))}, got {short_repr(token)}",
                    argument=name,
                )
        return frozenset(tokens)

    if allowed_special is None:
        disallowed = named("disallowed_special", disallowed_special, all_special)
        allowed = all_special - disallowed
    else:
        allowed = named("allowed_special", allowed_special, all_special)
        disallowed = named("disallowed_special", disallowed_special, all_special - allowed)
    if both := allowed & disallowed:
        raise InputError(
            (
                f"must not contain {min(both)!r}, which is also in ",
                Argument("disallowed_special"),
            ),
            argument="allowed_special",
            remedy="remove it from one of them",
        )
    return SpecialSets(allowed | (encoder.all_added - all_special), disallowed)


def _is_empty_tuple(value: object) -> bool:
    """Return whether a value is the default of `disallowed_special`.

    An array would compare each of its elements with `()`.
    """
    return isinstance(value, tuple) and not value
