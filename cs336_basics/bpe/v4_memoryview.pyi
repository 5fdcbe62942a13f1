from cs336_basics.bpe.base import BPE_Trainer, Pair
from cs336_basics.bpe.trace import MergeTrace

class MemoryviewTrainer(BPE_Trainer):
    def _learn_merges(
        self, words: list[bytes], counts: list[int], num_merges: int
    ) -> list[Pair]: ...

class MergeLoop:
    seconds_finding: float
    seconds_updating: float
    trace: list[MergeTrace]
    def __init__(
        self,
        words: list[bytes],
        counts: list[int],
        min_frequency: int = 1,
        max_token_length: int | None = None,
        tie_break: str = "lexicographic",
        traced: bool = False,
    ) -> None: ...
    def run(self, num_merges: int) -> int: ...
    def merges(self) -> list[Pair]: ...
