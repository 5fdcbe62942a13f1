import os
from collections.abc import Callable, Iterable, Sequence

from cs336_basics.counting.word_counts import Buffer

Buffers = tuple[Buffer, Buffer, Buffer]

def count_files(
    paths: Sequence[str | os.PathLike[str]],
    sizes: Sequence[int],
    special_tokens: Iterable[str],
    pattern: str,
    num_workers: int,
    errors: str,
    block_size: int,
    progress_callback: Callable[[int], object] | None = None,
    simd_level: str | None = None,
    most_own_words: int = ...,
    max_piece_bytes: int = ...,
) -> tuple[Buffers, dict[int, tuple[int, int, int]]]: ...
def first_repeated(data: Buffer, offsets: Buffer) -> int: ...

class TextCounter:
    def __init__(
        self,
        special_tokens: Iterable[str] = (),
        pattern: str = "gpt2",
        simd_level: str | None = None,
    ) -> None: ...
    def count(self, text: bytes) -> None: ...
    def add_words(self, data: Buffer, offsets: Buffer, counts: Buffer) -> None: ...
    def result(self) -> Buffers: ...
