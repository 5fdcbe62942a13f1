import numpy as np
from numpy.typing import NDArray

def merge_words(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], merges: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...
