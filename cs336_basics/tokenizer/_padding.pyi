"""Stub of _padding.pyx."""

from typing import Any

import numpy as np
import numpy.typing as npt

def fill_rows(
    ids: npt.NDArray[np.integer[Any]],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    pad_id: int,
    at_left: bool,
    padded: npt.NDArray[np.int64],
    mask: npt.NDArray[np.uint8],
) -> None: ...
