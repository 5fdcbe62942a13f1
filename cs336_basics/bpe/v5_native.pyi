from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.symbols import Pair
from cs336_basics.pretokenization.counting.word_counts import Buffer

class NativeTrainer(BPE_Trainer):
    omit: tuple[str, ...]
    def _learn_merges(
        self, words: list[bytes], counts: list[int], num_merges: int
    ) -> list[Pair]: ...
    def _learn_merges_flat(
        self,
        data: Buffer,
        offsets: Buffer,
        counts: Buffer,
        num_merges: int,
    ) -> list[Pair]: ...

def merge_state(
    words: list[bytes], counts: list[int], num_merges: int
) -> tuple[int, list[int], list[tuple[int, int, int, list[int]]]]: ...
