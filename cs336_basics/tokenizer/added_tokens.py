"""Added tokens: texts that are cut out of a text before it is split and become one id each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cs336_basics._support.arguments import checked_bool
from cs336_basics.splitting.splitter import check_special_tokens


class AddedToken(NamedTuple):
    """A text that becomes one id, and how it is found. The names are Hugging Face's.

    A str in a list of special tokens stands for `AddedToken(content)`.

    Example:
        >>> from cs336_basics.tokenizer import AddedToken, Tokenizer
        >>> tokenizer = Tokenizer({i: bytes([i]) for i in range(256)}, [])
        >>> tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
        [256]
        >>> tokenizer.encode("a  <mask>b")
        [97, 256, 98]
    """

    content: str
    special: bool = True
    """Whether it is a special token: `decode` can leave it out, and `allowed_special` and
    `disallowed_special` apply to it. Other added tokens, such as runs of spaces, always become
    ids."""
    normalized: bool = False
    """Whether it is found in the normalized text instead of the original text. These tokens are
    found after all others."""
    lstrip: bool = False
    """Whether it includes the whitespace before it."""
    rstrip: bool = False
    """Whether it includes the whitespace after it."""
    single_word: bool = False
    """Whether it is found only between characters that are not letters, digits or underscores."""

    @property
    def is_plain(self) -> bool:
        """Whether all flags have their default values."""
        return self[1:] == _DEFAULT_FLAGS


_DEFAULT_FLAGS = AddedToken("")[1:]


def check_added_tokens(special_tokens: Iterable[str | AddedToken] | None) -> list[AddedToken]:
    """Check added tokens and return them as a list of AddedToken. None becomes an empty list.

    Raises:
        TypeError, ValueError: See `check_special_tokens`. Also raised if a flag is not a bool.
    """
    if isinstance(special_tokens, (str, bytes, Mapping, set, frozenset)) or not isinstance(
        special_tokens, Iterable
    ):
        return list(map(AddedToken, check_special_tokens(special_tokens)))
    items = list(special_tokens)
    contents = [item.content if isinstance(item, AddedToken) else item for item in items]
    check_special_tokens(contents)
    for item in items:
        if isinstance(item, AddedToken):
            _check_flags(item)
    return [item if isinstance(item, AddedToken) else AddedToken(item) for item in items]


def _check_flags(token: AddedToken) -> None:
    """Raise TypeError if a flag of an added token is not a bool."""
    for name, value in zip(token._fields[1:], token[1:], strict=True):
        checked_bool(name, value)
