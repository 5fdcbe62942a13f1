"""Text to counted words: split patterns, special tokens, safe byte ranges, counting."""

from cs336_basics.pretokenization.chunking import chunk_ranges, read_range, read_text_range
from cs336_basics.pretokenization.counting import count_text, count_words
from cs336_basics.pretokenization.patterns import PATTERNS, resolve_pattern
from cs336_basics.pretokenization.readers import count_texts
from cs336_basics.pretokenization.splitter import pretokenize, split_special_tokens
from cs336_basics.pretokenization.word_counts import WordCounts

__all__ = [
    "PATTERNS",
    "WordCounts",
    "chunk_ranges",
    "count_text",
    "count_texts",
    "count_words",
    "pretokenize",
    "read_range",
    "read_text_range",
    "resolve_pattern",
    "split_special_tokens",
]
