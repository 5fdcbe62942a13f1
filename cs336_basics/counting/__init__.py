"""Counting the pre-tokens of files, rows and texts."""

from cs336_basics.counting.count_sample import count_sample
from cs336_basics.counting.count_texts import count_text, count_texts
from cs336_basics.counting.count_words import count_words
from cs336_basics.counting.sample import Sample
from cs336_basics.counting.word_counts import WordCounts

__all__ = ["Sample", "WordCounts", "count_sample", "count_text", "count_texts", "count_words"]
