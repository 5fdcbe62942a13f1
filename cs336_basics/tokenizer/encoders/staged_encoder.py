"""StagedEncoder: an encoder for texts that pass through several stages; see `stages.py`.

Another encoder splits and merges what the stages leave: usually the whole text, because most texts
are normalized already and contain few added tokens.
"""

from __future__ import annotations

import copy
import functools
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

from cs336_basics._support.lazy import np, npt
from cs336_basics._support.ragged import repeated
from cs336_basics.text.cuts import safe_blocks
from cs336_basics.tokenizer import usual_calls
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.encoders.encoder import Encoder, LocatedWord
from cs336_basics.tokenizer.ids import TokenArray
from cs336_basics.tokenizer.stages import Part, Stages

if TYPE_CHECKING:
    from cs336_basics.text.cuts import Cuts
    from cs336_basics.tokenizer._usual_calls import UsualCalls
    from cs336_basics.tokenizer.dropout import Dropout, Place

_BLOCK = 1 << 19
"""Number of bytes or characters of a long text to normalize at a time."""

_MAX_CHOICES = 16
"""Maximum number of choices of added tokens to keep the stages for."""


class StagedEncoder(Encoder):
    """Finds added tokens and normalizes, and hands the rest to another encoder.

    Args:
        inner: Encoder of the same definition. It looks only for the tokens that it is told to.
        stages: The stages with all added tokens. They are built on first use by default.
    """

    def __init__(self, inner: Encoder, stages: Stages | None = None) -> None:
        super().__init__(inner.definition)
        self._inner = inner
        self._stages = {} if stages is None else {self.all_added: stages}

    @property
    def releases_gil(self) -> bool:
        """See `Encoder`."""
        return self._inner.releases_gil

    @functools.cached_property
    def usual_calls(self) -> UsualCalls | None:
        """See `Encoder`. Texts that are not ASCII are checked for characters to normalize."""
        inner = self._inner.usual_calls
        if inner is None or usual_calls.CheckedCalls is None:  # not built
            return None
        stages = self._stages_for(self.all_added)
        return usual_calls.CheckedCalls(inner, stages.doubtful_runs if stages.in_one else None)

    def with_own_cache(self, cache_size: int) -> StagedEncoder:
        """See `Encoder`."""
        encoder = copy.copy(self)
        encoder._inner = self._inner.with_own_cache(cache_size)
        return encoder

    def extended(self, definition: TokenizerDefinition) -> Encoder | None:
        """See `Encoder`."""
        inner = self._inner.extended(definition)
        return None if inner is None else StagedEncoder(inner)

    def _stages_for(self, special: frozenset[str]) -> Stages:
        stages = self._stages.get(special)
        if stages is None:
            if len(self._stages) >= _MAX_CHOICES:
                self._stages.clear()
            stages = self._stages[special] = Stages(self.definition, special)
        return stages

    def encode(self, text: str, special: frozenset[str]) -> list[int]:
        """See `Encoder`."""
        stages = self._stages_for(special)
        if stages.in_one and (not stages.doubtful_runs(text) or stages.is_normalized(text)):
            return self._inner.encode(text, special)
        parts = stages.parts(_utf8(text))
        ids: list[int] = []
        if len(parts) > 8:  # then one call for all pieces is faster
            ids = self._encode_parts([parts], stages, 1)[0].tolist()
            return ids
        for part in parts:
            if isinstance(part, bytes):
                ids += self._inner.encode(part.decode(), stages.rest)
            else:
                ids.append(part)
        return ids

    def encode_array(
        self, text: str | bytes, special: frozenset[str], num_workers: int
    ) -> TokenArray:
        """See `Encoder`."""
        stages = self._stages_for(special)
        if stages.in_one and (given := stages.normalized_text(text)) is not None:
            return self._inner.encode_array(given, special, num_workers)
        if len(text) <= _BLOCK:
            parts = stages.parts(_utf8(text))
            if len(parts) == 1 and isinstance(parts[0], bytes):
                return self._inner.encode_array(parts[0], stages.rest, 1)
            return self._encode_parts([parts], stages, 1)[0]
        # Most blocks are normalized, and only the others are copied. The memory for a few blocks is
        # used again, while the memory for a whole text would be new.
        encoded = []
        blocks = safe_blocks(_utf8_blocks(text), stages.safe_cuts, max_bytes=sys.maxsize)
        while some := list(itertools.islice(blocks, 4 * num_workers)):
            encoded.append(self.encode_documents(some, special, num_workers)[0])
        return np.concatenate(encoded)

    def encode_batch(
        self, texts: list[str], special: frozenset[str], num_workers: int
    ) -> list[list[int]]:
        """See `Encoder`."""
        stages = self._stages_for(special)
        if stages.in_one and all(map(stages.is_normalized, texts)):
            return self._inner.encode_batch(texts, special, num_workers)
        ids, lengths = self.encode_documents(texts, special, num_workers)
        flat, ends = ids.tolist(), np.cumsum(lengths).tolist()
        return [
            flat[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True)
        ]

    def encode_documents(
        self, texts: list[Any], special: frozenset[str], num_workers: int = 1
    ) -> tuple[TokenArray, npt.NDArray[np.int64]]:
        """See `Encoder`."""
        stages = self._stages_for(special)
        is_given = np.array([stages.in_one and stages.is_normalized(text) for text in texts], bool)
        given = list(itertools.compress(texts, is_given))
        if len(given) == len(texts):
            return self._inner.encode_documents(texts, special, num_workers)
        others = itertools.compress(texts, ~is_given)
        encoded = self._encode_parts(
            [stages.parts(_utf8(text)) for text in others], stages, num_workers
        )
        if not given:
            return encoded
        ids_of_given, lengths_of_given = self._inner.encode_documents(given, special, num_workers)
        lengths = np.empty(len(texts), np.int64)
        lengths[is_given], lengths[~is_given] = lengths_of_given, encoded[1]
        in_given = repeated(is_given, lengths)
        ids = np.empty(len(in_given), ids_of_given.dtype)
        ids[in_given], ids[~in_given] = ids_of_given, encoded[0]
        return ids, lengths

    def encode_dropped(
        self,
        texts: list[Any],
        special: frozenset[str],
        dropout: Dropout,
        places: list[Place],
        num_workers: int = 1,
    ) -> tuple[TokenArray, npt.NDArray[np.int64]]:
        """See `Encoder`."""
        stages = self._stages_for(special)
        if stages.in_one:
            given = [stages.normalized_text(text) for text in texts]
            if None not in given:
                return self._inner.encode_dropped(given, special, dropout, places, num_workers)
        return super().encode_dropped(texts, special, dropout, places, num_workers)

    def _encode_parts(
        self, texts: list[list[bytes | int]], stages: Stages, num_workers: int
    ) -> tuple[TokenArray, npt.NDArray[np.int64]]:
        """Return the concatenated ids of texts given in parts, and the number of ids of each."""
        pieces = [part for parts in texts for part in parts if isinstance(part, bytes)]
        ids, num_ids = self._inner.encode_documents(pieces, stages.rest, num_workers)
        ends = np.concatenate([[0], np.cumsum(num_ids)])
        added: list[int] = []
        after: list[int] = []  # number of pieces before each added token
        stops: list[int] = []  # number of pieces up to the end of each text
        num_added: list[int] = []  # number of added tokens in each text
        num_pieces = 0
        for parts in texts:
            before = len(added)
            for part in parts:
                if isinstance(part, bytes):
                    num_pieces += 1
                else:
                    added.append(part)
                    after.append(num_pieces)
            stops.append(num_pieces)
            num_added.append(len(added) - before)
        lengths = np.diff(ends[stops], prepend=0) + np.array(num_added, np.int64)
        if added:
            ids = np.insert(ids, ends[after], np.array(added, ids.dtype))
        return ids, lengths.astype(np.int64)

    def safe_cuts(self, special: frozenset[str]) -> Cuts:
        """See `Encoder`."""
        return self._stages_for(special).safe_cuts

    def located_words(self, text: str, special: frozenset[str]) -> Iterator[LocatedWord]:
        """See `Encoder`."""
        stages = self._stages_for(special)
        for part in stages.located_parts(text):
            if part.token_id is not None:
                yield LocatedWord(part.start, part.stop, part.text, part.token_id)
                continue
            for word in self._inner.located_words(part.text, stages.rest):
                yield _moved(word, part)

    # The rest is the other encoder's.

    def split(self, text: str) -> Iterable[str]:
        """See `Encoder`."""
        return self._inner.split(text)

    def encode_word(self, word: str) -> list[int]:
        """See `Encoder`."""
        return self._inner.encode_word(word)

    def encode_words(self, words: Iterable[str]) -> Iterable[int]:
        """See `Encoder`."""
        return self._inner.encode_words(words)

    def drop_words(self, words: list[str], dropout: Dropout, places: list[Place]) -> Iterable[int]:
        """See `Encoder`."""
        return self._inner.drop_words(words, dropout, places)

    def decode_bytes(self, ids: Iterable[SupportsIndex]) -> bytes:
        """See `Encoder`."""
        return self._inner.decode_bytes(ids)

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """See `Encoder`."""
        return self._inner.decode(ids)


def _utf8_blocks(text: str | bytes) -> Iterator[bytes]:
    """Yield a text as UTF-8, a block at a time; UnicodeEncodeError if it contains a surrogate."""
    for start in range(0, len(text), _BLOCK):
        yield _utf8(text[start : start + _BLOCK])


def _utf8(text: str | bytes) -> bytes:
    """Return a text as UTF-8; UnicodeEncodeError if it contains a surrogate."""
    return text if isinstance(text, bytes) else str.encode(text)


def _moved(word: LocatedWord, part: Part) -> LocatedWord:
    """Return a word of a part as a word of the whole text."""
    if part.origins is None:
        moved = word.origins and [part.start + origin for origin in word.origins]
        return word._replace(
            start=part.start + word.start, stop=part.start + word.stop, origins=moved
        )
    own = range(word.start, word.stop) if word.origins is None else word.origins
    origins = [part.origins[origin] for origin in own]
    return word._replace(start=origins[0], stop=origins[-1] + 1, origins=origins)
