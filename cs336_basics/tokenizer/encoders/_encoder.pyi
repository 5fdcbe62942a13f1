"""Stub of _encoder.pyx."""

import os
from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cs336_basics.tokenizer._usual_calls import UsualCalls
from cs336_basics.tokenizer._vocabulary import Words
from cs336_basics.tokenizer.encoders._decoder import Decoder

_Ids = npt.NDArray[np.unsignedinteger[Any]]

class SpecialSet:
    def __init__(self, tokens_and_ids: Iterable[tuple[str, int]]) -> None: ...

class WordDropout:
    def __init__(self, state: int, shares: list[int], places: list[tuple[int, int]]) -> None: ...

class Worker: ...

class Encoder:
    dtype: np.dtype[Any]
    def __init__(
        self,
        byte_ids: Sequence[int],
        words: Words,
        vocab_size: int,
        pattern: str,
        cache_size: int,
        simd_level: str | None = None,
        merged_only: Container[int] | None = None,
    ) -> None: ...
    def grow(self, vocab_size: int) -> bool: ...
    def streaming_worker(self, cache_size: int) -> Worker: ...
    def encode(
        self, text: str | bytes, special: SpecialSet, worker: Worker | None = None
    ) -> list[int]: ...
    def encode_words(self, words: Iterable[str], worker: Worker | None = None) -> list[int]: ...
    def encode_batch(
        self, texts: list[Any], special: SpecialSet, num_workers: int
    ) -> list[list[int]]: ...
    def encode_array(self, text: str | bytes, special: SpecialSet, num_workers: int) -> _Ids: ...
    def drop_words(self, words: Iterable[str], dropout: WordDropout) -> list[int]: ...
    def encode_dropped(
        self, texts: list[Any], special: SpecialSet, num_workers: int, dropout: WordDropout
    ) -> tuple[_Ids, npt.NDArray[np.int64]]: ...
    def encode_documents(
        self, texts: list[Any], special: SpecialSet, num_workers: int
    ) -> tuple[_Ids, npt.NDArray[np.int64]]: ...

class CompiledCalls(UsualCalls):
    decoder: Decoder | None
    def __init__(self, encoder: Encoder, special: SpecialSet | None) -> None: ...

class FileEncoding:
    def __init__(
        self,
        encoder: Encoder,
        paths: Iterable[str | os.PathLike[str]],
        sizes: Iterable[int],
        special: SpecialSet,
        block_size: int,
        num_workers: int,
        errors: str,
        separator: int | None,
        max_piece_bytes: int,
    ) -> None: ...
    def __iter__(self) -> FileEncoding: ...
    def __next__(
        self,
    ) -> tuple[int, _Ids, npt.NDArray[np.int64], int, tuple[int, int, int]]: ...
    def close(self) -> None: ...
