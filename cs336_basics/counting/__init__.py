"""Counting the pre-tokens of files, rows and texts."""

from cs336_basics.counting.count_texts import count_text, count_texts
from cs336_basics.counting.count_words import count_words
from cs336_basics.counting.word_counts import WordCounts

__all__ = ["WordCounts", "count_text", "count_texts", "count_words"]
