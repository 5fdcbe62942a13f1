"""Stub of _vocabulary.pyx."""

import numpy as np
import numpy.typing as npt

def index_merges(
    merges: list[tuple[bytes, bytes]], token_ids: dict[bytes, int]
) -> npt.NDArray[np.uint32] | None: ...
