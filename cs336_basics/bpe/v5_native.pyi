import numpy as np
from numpy.typing import NDArray

from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.symbols import Pair

class NativeTrainer(BPE_Trainer):
    omit: tuple[str, ...]
    def _learn_merges(
        self, words: list[bytes], counts: list[int], num_merges: int
    ) -> list[Pair]: ...
    def _learn_merges_flat(
        self,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        counts: NDArray[np.int64],
        num_merges: int,
    ) -> list[Pair]: ...

def merge_state(
    words: list[bytes], counts: list[int], num_merges: int
) -> tuple[int, list[int], list[tuple[int, int, int, list[int]]]]: ...
