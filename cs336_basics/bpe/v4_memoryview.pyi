from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.starting_vocabulary import StartingVocabulary
from cs336_basics.bpe.symbols import Pair
from cs336_basics.bpe.trace import MergeTrace

class MemoryviewTrainer(BPE_Trainer):
    def _learn_merges(
        self, words: list[bytes], counts: list[int], num_merges: int
    ) -> list[Pair]: ...

class MergeLoop:
    seconds_finding: float
    seconds_updating: float
    trace: list[MergeTrace]
    token: memoryview
    next_position: memoryview
    previous_position: memoryview
    same_next: memoryview
    same_previous: memoryview
    word: memoryview
    word_count: memoryview
    pair_left: memoryview
    pair_right: memoryview
    pair_count: memoryview
    pair_head: memoryview
    pair_tail: memoryview
    num_pairs: int
    slots: memoryview
    heap_count: memoryview
    heap_pair: memoryview
    heap_size: int
    def __init__(
        self,
        words: list[bytes],
        counts: list[int],
        min_frequency: int = 1,
        max_token_length: int | None = None,
        tie_break: str = "lexicographic",
        traced: bool = False,
        start: StartingVocabulary | None = None,
    ) -> None: ...
    def run(self, num_merges: int) -> int: ...
    def merges(self) -> list[Pair]: ...
