from typing import Any

import numpy as np
from numpy.typing import NDArray

from cs336_basics.bpe.starting_vocabulary import StartingVocabulary

def split_words(
    words: list[bytes], start: StartingVocabulary
) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64]]: ...
def merge_words(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], merges: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...
