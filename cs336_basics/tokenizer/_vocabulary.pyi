"""Stub of _vocabulary.pyx."""

from typing import Any

import numpy as np
import numpy.typing as npt

class TokenIds:
    is_valid: bool
    def __init__(self, tokens: dict[Any, Any]) -> None: ...
    def get(self, token: bytes, default: Any = None) -> Any: ...
    def index_merges(self, merges: list[Any]) -> npt.NDArray[np.uint32] | None: ...

def rank_splits(tokens: list[bytes]) -> list[int]: ...
