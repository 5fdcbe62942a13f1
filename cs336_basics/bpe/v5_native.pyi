from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.counting.word_counts import WordCounts

class NativeTrainer(BPE_Trainer):
    omit: tuple[str, ...]

def merge_state(
    word_counts: WordCounts, num_merges: int
) -> tuple[int, list[int], list[tuple[int, int, int, list[int]]]]: ...
