"""Encoder: convert text to ids and back. This interface has three implementations.

| backend | file | splits | merges |
|---|---|---|---|
| `reference` | `reference.py` | Python | every word, as the papers describe it |
| `python` | `python_encoder.py` | Python | each distinct word once, as ids |
| `native` | `native_encoder.py` | C++ | C++, without the GIL |

All backends return the same ids and raise the same errors; `backends.py` chooses one. The base
class implements every operation with `encode_word`. Subclasses override the operations that they
can perform faster.
"""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import short_repr
from cs336_basics._support.ragged import offsets_of
from cs336_basics.splitting.splitter import (
    Splitter,
    located_pretokens,
    pretokenize,
    split_special_tokens,
)
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.encoders.absent_bytes import check_word
from cs336_basics.tokenizer.ids import EncodedBatch, TokenArray, plain_ids, token_dtype
from cs336_basics.tokenizer.special_tokens import SpecialSets

if TYPE_CHECKING:
    from cs336_basics.text.cuts import Cuts
    from cs336_basics.tokenizer._usual_calls import UsualCalls
    from cs336_basics.tokenizer.dropout import Dropout, Place
    from cs336_basics.tokenizer.encoders.native_encoder import NativeEncoder
    from cs336_basics.tokenizer.words import Pair


class UnknownIdError(InputError):
    """Raised for an id that is not in the vocabulary."""


class LocatedWord(NamedTuple):
    """A pre-token or an added token of a text."""

    start: int
    """Position of the word in the text, in characters."""
    stop: int
    text: str
    """The word, after normalization."""
    token_id: int | None = None
    """Id of an added token, or None for a pre-token."""
    origins: list[int] | None = None
    """Position, in the text, of the character that each character of the word comes from. None
    means `start`, `start + 1`, ..."""


class Encoder(ABC):
    """Encodes text and decodes ids, as a definition says.

    Callers check the arguments. In every method, `special` contains the added tokens of the
    definition that become ids. Other added tokens are ordinary text.

    Attributes:
        definition: The argument.
        pattern: Its `split_pattern`.
        all_added: All its added tokens.
        all_sets: The sets with all added tokens allowed.

    Every encoding method raises:
        AbsentByteError: If the vocabulary does not contain a byte of the text. `absent_bytes_in`
            finds it.
        UnicodeEncodeError: If the text contains a lone surrogate.
    """

    def __init__(self, definition: TokenizerDefinition) -> None:
        self._set_definition(definition)

    def _set_definition(self, definition: TokenizerDefinition) -> None:
        self.definition = definition
        self.pattern = definition.split_pattern
        self.all_added = frozenset(definition.added_ids)
        self.all_sets = SpecialSets(self.all_added, frozenset())

    @property
    def all_special(self) -> frozenset[str]:
        """The special tokens among `all_added`."""
        return self.definition.all_special

    @property
    def file_encoder(self) -> NativeEncoder | None:
        """This encoder if it reads plain-text files itself and releases the GIL, else None."""
        return None

    @property
    def releases_gil(self) -> bool:
        """Whether several threads can encode at the same time."""
        return self.file_encoder is not None

    @property
    def usual_calls(self) -> UsualCalls | None:
        """The compiled calls that this encoder has; see `_usual_calls.pyx`."""
        return None

    def extended(self, definition: TokenizerDefinition) -> Encoder | None:
        """Return an encoder that shares everything but the definition, or None if it cannot.

        Args:
            definition: This encoder's definition with more added tokens, and the same words
                (see `TokenizerDefinition.has_words_of`).
        """
        encoder = copy.copy(self)
        encoder._set_definition(definition)
        return encoder

    @abstractmethod
    def encode_word(self, word: str) -> list[int]:
        """Return the ids of one pre-token."""

    def split(self, text: str) -> Iterable[str]:
        """Return the pre-tokens of a text without special tokens."""
        return pretokenize(text, self.pattern)

    def encode_words(self, words: Iterable[str]) -> Iterable[int]:
        """Return the ids of pre-tokens, concatenated."""
        return chain.from_iterable(map(self.encode_word, words))

    def encode(self, text: str, special: frozenset[str]) -> list[int]:
        """Return the ids of a text."""
        if not text.isascii():
            text.encode()  # raises UnicodeEncodeError
        ids: list[int] = []
        for segment, is_special in split_special_tokens(text, special):
            if is_special:
                ids.append(self.definition.added_ids[segment])
            else:
                ids.extend(self.encode_words(self.split(segment)))
        return ids

    def encode_array(
        self, text: str | bytes, special: frozenset[str], num_workers: int
    ) -> TokenArray:
        """Return the ids of a text (str or valid UTF-8 bytes) as an array of `token_dtype`."""
        dtype = token_dtype(self.definition.size)
        characters = text.decode() if isinstance(text, bytes) else text
        return np.array(self.encode(characters, special), dtype)

    def encode_batch(
        self, texts: list[str], special: frozenset[str], num_workers: int
    ) -> list[list[int]]:
        """Return the ids of each text."""
        return [self.encode(text, special) for text in texts]

    def encode_batch_array(
        self, texts: list[str], special: frozenset[str], num_workers: int
    ) -> EncodedBatch:
        """Return the ids of several texts; see `encode_documents`."""
        ids, lengths = self.encode_documents(texts, special, num_workers)
        return EncodedBatch(ids, offsets_of(lengths))

    def encode_documents(
        self, texts: list[Any], special: frozenset[str], num_workers: int = 1
    ) -> tuple[TokenArray, npt.NDArray[np.int64]]:
        """Return the concatenated ids of several texts, and the number of ids of each.

        Args:
            texts: Texts, each as str or valid UTF-8 bytes.
            special: See the class.
            num_workers: Number of threads.

        Returns:
            Ids of shape (num_tokens,) and dtype `token_dtype`; lengths of shape (num_texts,).
        """
        decoded = (text if isinstance(text, str) else text.decode() for text in texts)
        return self._concatenated([self.encode(text, special) for text in decoded])

    def encode_dropped(
        self,
        texts: list[Any],
        special: frozenset[str],
        dropout: Dropout,
        places: list[Place],
        num_workers: int = 1,
    ) -> tuple[TokenArray, npt.NDArray[np.int64]]:
        """Like `encode_documents`, with dropout.

        Args:
            texts, special, num_workers: See `encode_documents`.
            dropout: How to leave out merges.
            places: Place of each text.
        """
        decoded = (text if isinstance(text, str) else text.decode() for text in texts)
        return self._concatenated(
            [
                self._encode_dropped(text, special, dropout, place)
                for text, place in zip(decoded, places, strict=True)
            ]
        )

    def _encode_dropped(
        self, text: str, special: frozenset[str], dropout: Dropout, place: Place
    ) -> list[int]:
        data = text.encode()  # may raise UnicodeEncodeError
        document, start = place
        # The number of bytes before each character.
        offsets: Sequence[int] = range(start, start + len(text))
        if len(data) > len(text):
            starts = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
            offsets = (np.flatnonzero(starts) + start).tolist()
        ids: list[int] = []
        words: list[str] = []
        places: list[Place] = []
        for word in self.located_words(text, special):
            if word.token_id is None:
                words.append(word.text)
                places.append((document, offsets[word.start]))
                continue
            ids += self.drop_words(words, dropout, places)
            ids.append(word.token_id)
            words, places = [], []
        return [*ids, *self.drop_words(words, dropout, places)]

    def drop_words(self, words: list[str], dropout: Dropout, places: list[Place]) -> Iterable[int]:
        """Return the ids of pre-tokens, concatenated, with dropout. Each has its place."""
        # Few programs use dropout.
        from cs336_basics.bpe.reference import split_bytes
        from cs336_basics.tokenizer.dropout import merge_with_dropout

        token_ids = self.definition.token_ids
        ids: list[int] = []
        for word, place in zip(words, places, strict=True):
            data = word.encode()
            check_word(data, token_ids)
            tokens = merge_with_dropout(split_bytes(data), self._pair_ranks, dropout.kept(place))
            ids += [token_ids[token] for token in tokens]
        return ids

    @functools.cached_property
    def _pair_ranks(self) -> dict[Pair, int]:
        return {pair: rank for rank, pair in enumerate(self.definition.merges)}

    def _concatenated(self, lists: list[list[int]]) -> tuple[TokenArray, npt.NDArray[np.int64]]:
        """Return the ids of several texts as one array, and the number of ids of each."""
        ids = np.fromiter(chain.from_iterable(lists), token_dtype(self.definition.size))
        return ids, np.array([len(ids_of_text) for ids_of_text in lists], np.int64)

    def with_own_cache(self, cache_size: int) -> Encoder:
        """Return an encoder for one thread with its own word cache of `cache_size` bytes."""
        return self

    def safe_cuts(self, special: frozenset[str]) -> Cuts:
        """Return the finder of offsets where a text can be cut without changing its ids."""
        tokens = [token for token in self.definition.splitter.special_tokens if token in special]
        return Splitter(self.pattern, tokens).safe_cuts

    def located_words(self, text: str, special: frozenset[str]) -> Iterator[LocatedWord]:
        """Yield the pre-tokens and added tokens of a text, from left to right."""
        start = 0
        for segment, is_added in split_special_tokens(text, special):
            if is_added:
                token_id = self.definition.added_ids[segment]
                yield LocatedWord(start, start + len(segment), segment, token_id)
            else:
                for word, origins in located_pretokens(segment, self.pattern):
                    first, last = start + origins[0], start + origins[-1] + 1
                    moved = None
                    if not isinstance(origins, range):
                        moved = [start + origin for origin in origins]
                    yield LocatedWord(first, last, word, None, moved)
            start += len(segment)

    def decode_bytes(self, ids: Iterable[SupportsIndex]) -> bytes:
        """Return the bytes of a sequence of ids.

        Raises:
            UnknownIdError: If an id is not in the vocabulary.
        """
        tokens: list[bytes] = []
        for token_id in plain_ids(ids):
            token = self.definition.vocab.get(token_id)
            if token is None:
                raise UnknownIdError(
                    f"id {short_repr(token_id)} is not in the vocabulary; the highest id is "
                    f"{self.definition.size - 1}"
                )
            tokens.append(token)
        return b"".join(tokens)

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """Return the text of a sequence of ids; invalid UTF-8 becomes U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")
