from typing import Any

from numpy.typing import NDArray

from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.rules import Rules
from cs336_basics.bpe.starting_vocabulary import StartingVocabulary
from cs336_basics.counting.word_counts import WordCounts

class MemoryviewTrainer(BPE_Trainer): ...

class MergeLoop:
    seconds_finding: float
    seconds_updating: float
    trace: list[tuple[Any, ...]]
    token: memoryview
    next_position: memoryview
    previous_position: memoryview
    same_next: memoryview
    same_previous: memoryview
    word: memoryview
    pair_left: memoryview
    pair_right: memoryview
    pair_count: memoryview
    pair_head: memoryview
    num_pairs: int
    heap_count: memoryview
    heap_pair: memoryview
    heap_size: int
    def __init__(self, word_counts: WordCounts, rules: Rules, traced: bool = False) -> None: ...
    def run(self, num_merges: int) -> list[tuple[int, int]]: ...

def split_words(
    word_counts: WordCounts, start: StartingVocabulary
) -> tuple[NDArray[Any], NDArray[Any]]: ...
