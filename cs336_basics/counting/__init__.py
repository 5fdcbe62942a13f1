"""Counting the pre-tokens of files, rows and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import lazy_names

__all__ = ["WordCounts", "count_text", "count_texts", "count_words"]

if TYPE_CHECKING:
    from cs336_basics.counting.count_texts import count_text, count_texts
    from cs336_basics.counting.count_words import count_words
    from cs336_basics.counting.word_counts import WordCounts
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cs336_basics.counting.count_texts": "count_text count_texts",
            "cs336_basics.counting.count_words": "count_words",
            "cs336_basics.counting.word_counts": "WordCounts",
        },
    )
