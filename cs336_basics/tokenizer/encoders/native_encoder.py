"""The `native` backend: compiled encoding and decoding (`_encoder.pyx`)."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from cs336_basics._support.lazy import np, npt
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.encoders import _encoder
from cs336_basics.tokenizer.encoders._decoder import Decoder
from cs336_basics.tokenizer.encoders.encoder import Encoder
from cs336_basics.tokenizer.id_gaps import max_array_size
from cs336_basics.tokenizer.ids import TokenArray
from cs336_basics.tokenizer.words import CompiledWords

if TYPE_CHECKING:
    from cs336_basics.tokenizer.dropout import Dropout, Place

MAX_VOCAB_SIZE = (1 << 32) - 1
"""Maximum size of a vocabulary. The compiled encoder stores ids in 32 bits, and the highest value
stands for no id."""

# Maximum number of subsets of the special tokens to cache. Programs rarely use more.
_MAX_SPECIAL_SETS = 16


class NativeWordEncoder(Encoder):
    """Compiled merging, caching and decoding for split patterns without a scanner.

    The text is split in Python.

    Args:
        definition: See `Encoder`.
        cache_size: Bytes of memory for cached words, shared by all threads; 0 disables the cache.
    """

    _worker: _encoder.Worker | None = None  # has its own cache; see `with_own_cache`

    def __init__(self, definition: TokenizerDefinition, cache_size: int) -> None:
        super().__init__(definition)
        self._compiled = compile_encoder(definition, cache_size)

    @functools.cached_property
    def _decoder(self) -> Decoder:
        self.usual_calls.decoder = decoder = compile_decoder(self.definition)
        return decoder

    @functools.cached_property
    def usual_calls(self) -> _encoder.CompiledCalls:
        """See `Encoder`. Ids are declined until the decoder is compiled."""
        return _encoder.CompiledCalls(self._compiled, self._usual_special)

    @property
    def _usual_special(self) -> _encoder.SpecialSet | None:
        return None

    def extended(self, definition: TokenizerDefinition) -> Encoder | None:
        """See `Encoder`."""
        if definition.size > MAX_VOCAB_SIZE or not self._compiled.grow(definition.size):
            return None
        encoder = super().extended(definition)
        for of_old_definition in ("_decoder", "usual_calls"):
            vars(encoder).pop(of_old_definition, None)
        return encoder

    def with_own_cache(self, cache_size: int) -> NativeWordEncoder:
        """See `Encoder`."""
        encoder = copy.copy(self)
        encoder._worker = self._compiled.streaming_worker(cache_size)
        return encoder

    def encode_word(self, word: str) -> list[int]:
        """See `Encoder`."""
        return self._compiled.encode_words([word], self._worker)

    def encode_words(self, words: Iterable[str]) -> list[int]:
        """See `Encoder`."""
        return self._compiled.encode_words(words, self._worker)

    def drop_words(self, words: list[str], dropout: Dropout, places: list[Place]) -> Iterable[int]:
        """See `Encoder`."""
        return self._compiled.drop_words(words, compile_dropout(dropout, places))

    # The compiled decoder handles lists and arrays of valid ids. It returns None for other
    # iterables and for invalid ids.

    def decode_bytes(self, ids: Iterable[SupportsIndex]) -> bytes:
        """See `Encoder`."""
        data: bytes | None = self._decoder.decode(ids, False)
        return super().decode_bytes(ids) if data is None else data

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """See `Encoder`."""
        text: str | None = self._decoder.decode(ids, True)
        return super().decode(ids) if text is None else text


class NativeEncoder(NativeWordEncoder):
    """Compiled splitting, merging and decoding for split patterns with a scanner.

    It encodes in several threads, without holding the GIL.
    """

    def _set_definition(self, definition: TokenizerDefinition) -> None:
        super()._set_definition(definition)
        self._special_sets = _SpecialSets(definition)

    @property
    def _usual_special(self) -> _encoder.SpecialSet:
        return self._special_sets[self.all_added]

    @property
    def file_encoder(self) -> NativeEncoder:
        """See `Encoder`."""
        return self

    def encode(self, text: str, special: frozenset[str]) -> list[int]:
        """See `Encoder`."""
        return self._compiled.encode(text, self._special_sets[special], self._worker)

    def encode_array(
        self, text: str | bytes, special: frozenset[str], num_workers: int
    ) -> TokenArray:
        """See `Encoder`."""
        return self._compiled.encode_array(text, self._special_sets[special], num_workers)

    def encode_batch(
        self, texts: list[str], special: frozenset[str], num_workers: int
    ) -> list[list[int]]:
        """See `Encoder`."""
        return self._compiled.encode_batch(texts, self._special_sets[special], num_workers)

    def encode_documents(
        self, texts: list[Any], special: frozenset[str], num_workers: int = 1
    ) -> tuple[TokenArray, npt.NDArray[np.int64]]:
        """See `Encoder`."""
        return self._compiled.encode_documents(texts, self._special_sets[special], num_workers)

    def encode_dropped(
        self,
        texts: list[Any],
        special: frozenset[str],
        dropout: Dropout,
        places: list[Place],
        num_workers: int = 1,
    ) -> tuple[TokenArray, npt.NDArray[np.int64]]:
        """See `Encoder`."""
        compiled = compile_dropout(dropout, places)
        return self._compiled.encode_dropped(
            texts, self._special_sets[special], num_workers, compiled
        )

    def encode_files(
        self,
        files: Sequence[str],
        sizes: Sequence[int],
        *,
        block_size: int,
        num_workers: int,
        errors: str,
        separator: int | None,
        max_piece_bytes: int,
    ) -> _encoder.FileEncoding:
        """Return an iterator over the blocks of plain-text files; see `_encoder.FileEncoding`."""
        special = self._special_sets[self.all_added]
        return _encoder.FileEncoding(
            self._compiled, files, sizes, special, block_size, num_workers, errors, separator,
            max_piece_bytes,
        )  # fmt: skip


class _SpecialSets(dict[frozenset[str], _encoder.SpecialSet]):
    """Mapping from sets of special tokens to compiled sets, which are created on first use."""

    def __init__(self, definition: TokenizerDefinition) -> None:
        super().__init__()
        self._added_ids = definition.added_ids

    def __missing__(self, special: frozenset[str]) -> _encoder.SpecialSet:
        if len(self) >= _MAX_SPECIAL_SETS:
            self.clear()
        pairs = [(token, self._added_ids[token]) for token in special]
        self[special] = made = _encoder.SpecialSet(pairs)
        return made


def compile_encoder(
    definition: TokenizerDefinition, cache_size: int, **options: str
) -> _encoder.Encoder:
    """Return the compiled encoder for a definition with all bytes of UTF-8.

    `options` are passed to its constructor.
    """
    # The other bytes never reach the encoder: its text is valid UTF-8.
    byte_ids = [max(token_id, 0) for token_id in definition.byte_ids]
    assert isinstance(definition.words, CompiledWords)
    return _encoder.Encoder(
        byte_ids,
        definition.words,
        definition.size,
        definition.split_pattern,
        cache_size,
        merged_only=definition.ids_of_added if definition.ignore_merges else None,
        **options,
    )


def compile_dropout(dropout: Dropout, places: list[Place]) -> _encoder.WordDropout:
    """Return the compiled dropout for texts or pre-tokens at some places."""
    return _encoder.WordDropout(dropout.state, dropout.shares, places)


def compile_decoder(definition: TokenizerDefinition) -> Decoder:
    """Return the compiled decoder for a definition, which is empty if the ids have huge gaps."""
    size, words, more = definition.size, definition.words, definition.more_tokens
    assert isinstance(words, CompiledWords)
    if size > max_array_size(len(words) + len(more)):
        size = 0
    return Decoder(*words.tables(more, size))
