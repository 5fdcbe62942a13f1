"""Counting the pre-tokens of files, rows and texts."""

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import lazy_names
from cs336_basics.counting.count_sample import count_sample
from cs336_basics.counting.count_texts import count_text, count_texts
from cs336_basics.counting.count_words import count_words
from cs336_basics.counting.word_counts import WordCounts

if TYPE_CHECKING:
    from cs336_basics.counting.sample import Sample
else:
    __getattr__, __dir__ = lazy_names(__name__, {"cs336_basics.counting.sample": "Sample"})

__all__ = ["Sample", "WordCounts", "count_sample", "count_text", "count_texts", "count_words"]
