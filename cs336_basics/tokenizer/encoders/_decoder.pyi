"""Stub of _decoder.pyx."""

from typing import Any

import numpy as np
import numpy.typing as npt

class Decoder:
    def __init__(
        self, token_data: npt.NDArray[np.uint8], token_offsets: npt.NDArray[np.int64]
    ) -> None: ...
    def decode(self, ids: Any, as_text: bool) -> Any: ...
