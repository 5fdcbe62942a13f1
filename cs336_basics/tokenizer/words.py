"""Words: the tokens of a vocabulary and its merges, checked and indexed once.

If the extensions are built, C++ holds them (`_vocabulary.Words`). The mapping of id -> token and
the list of merges are made only if somebody looks at them: a tokenizer that is loaded from a file
and encodes a text needs neither. `PythonWords` is the readable version.
"""

from __future__ import annotations

from typing import Any, Protocol

from cs336_basics._support.vocabularies import checked_merge_ids, checked_token_ids

try:
    from cs336_basics.tokenizer._vocabulary import Words as CompiledWords
except ImportError:  # the extension is not built
    CompiledWords = None  # type: ignore[assignment, misc]

__all__ = ["CompiledWords", "Pair", "PythonWords", "Row", "Words", "words_of"]

Pair = tuple[bytes, bytes]

Row = tuple[int, int, int]
"""Ids of the left, right and joined token of a merge."""


class Words(Protocol):
    """The tokens and merges that encode words."""

    @property
    def size(self) -> int:
        """Highest id plus one."""

    @property
    def num_merges(self) -> int:
        """Number of merges."""

    def __len__(self) -> int:
        """Return the number of tokens."""

    def get(self, token: bytes, default: Any = None) -> Any:
        """Return the id of a token, or the default."""

    def has_id(self, token_id: int) -> bool:
        """Return whether a token has this id."""

    def tokens(self) -> dict[int, bytes]:
        """Return a new mapping of id -> token."""

    def merges(self, tokens: dict[int, bytes]) -> list[Pair]:
        """Return a new list of the merges, as pairs of the objects in `tokens`."""

    def merge_rows(self) -> list[Row]:
        """Return the ids of each merge."""


class PythonWords:
    """See `Words`.

    Args:
        tokens: Mapping of id -> token.
        merges: The merges.

    Raises:
        TypeError, ValueError: See `Tokenizer`.
    """

    def __init__(self, tokens: dict[int, bytes], merges: list[Any]) -> None:
        self._ids = checked_token_ids(tokens)
        self._rows = checked_merge_ids(merges, self._ids)
        self._tokens = {token_id: token for token, token_id in self._ids.items()}
        self.size = max(self._tokens, default=-1) + 1
        self.num_merges = len(self._rows)

    def __len__(self) -> int:
        return len(self._ids)

    def get(self, token: bytes, default: Any = None) -> Any:
        """See `Words`."""
        return self._ids.get(token, default)

    def has_id(self, token_id: int) -> bool:
        """See `Words`."""
        return token_id in self._tokens

    def tokens(self) -> dict[int, bytes]:
        """See `Words`."""
        return self._tokens.copy()

    def merges(self, tokens: dict[int, bytes]) -> list[Pair]:
        """See `Words`."""
        return [(tokens[left], tokens[right]) for left, right, _ in self._rows]

    def merge_rows(self) -> list[Row]:
        """See `Words`."""
        return self._rows


def words_of(tokens: dict[int, bytes], merges: list[Any]) -> Words:
    """Return the words of a mapping of id -> token and of merges, after checking both.

    Raises:
        TypeError, ValueError: See `Tokenizer`. The message includes the offending item.
    """
    if CompiledWords is None:
        return PythonWords(tokens, merges)
    found = CompiledWords.of(tokens, merges)
    if found is None:  # Find the mistake for the message, or what only Python accepts.
        checked = PythonWords(tokens, merges)
        plain = {token_id: bytes(token) for token_id, token in checked.tokens().items()}
        found = CompiledWords.of(plain, checked.merges(plain))
        return checked if found is None else found
    return found
