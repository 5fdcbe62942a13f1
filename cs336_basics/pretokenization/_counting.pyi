import os
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

Arrays = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]

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
    replaced: list[tuple[int, int, int, int]] | None = None,
) -> Arrays: ...
def first_repeated(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> int: ...

class TextCounter:
    def __init__(
        self,
        special_tokens: Iterable[str] = (),
        pattern: str = "gpt2",
        errors: str = "replace",
        simd_level: str | None = None,
    ) -> None: ...
    def count(self, text: bytes) -> int: ...
    def add_words(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
    ) -> None: ...
    def result(self) -> Arrays: ...
