"""Stub of _byte_strings.pyx."""

import numpy as np
import numpy.typing as npt

def strings_to_tokens(
    strings: list[str], byte_of_code: npt.NDArray[np.uint16]
) -> list[bytes | None]: ...
def merges_of_strings(
    pairs: list[object], byte_of_code: npt.NDArray[np.uint16]
) -> list[tuple[bytes, bytes]] | None: ...
def merges_of_lines(
    text: str, byte_of_code: npt.NDArray[np.uint16]
) -> list[tuple[bytes, bytes]] | None: ...
