"""Stub of _loading.pyx."""

import numpy as np
import numpy.typing as npt

def vocab_of_strings(
    strings: dict[str, object], byte_of_code: npt.NDArray[np.uint16], max_id: int
) -> dict[int, bytes] | None: ...
def merges_of_text(
    text: str, byte_of_code: npt.NDArray[np.uint16]
) -> list[tuple[bytes, bytes]] | None: ...
def index_merges(
    merges: list[tuple[bytes, bytes]], token_ids: dict[bytes, int]
) -> npt.NDArray[np.uint32] | None: ...
def hash_lines(ids: list[int], tokens: list[bytes], merges: list[tuple[bytes, bytes]]) -> bytes: ...
