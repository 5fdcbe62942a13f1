"""Reading a corpus, splitting its text into pre-tokens, and counting them."""

from cs336_basics.pretokenization.counting.count_texts import count_text, count_texts
from cs336_basics.pretokenization.counting.count_words import count_words
from cs336_basics.pretokenization.counting.word_counts import WordCounts
from cs336_basics.pretokenization.patterns.named_patterns import PATTERNS, resolve_pattern
from cs336_basics.pretokenization.reading.corpus import Corpus, MissingFieldError
from cs336_basics.pretokenization.splitter import Splitter, pretokenize, split_special_tokens

__all__ = [
    "PATTERNS",
    "Corpus",
    "MissingFieldError",
    "Splitter",
    "WordCounts",
    "count_text",
    "count_texts",
    "count_words",
    "pretokenize",
    "resolve_pattern",
    "split_special_tokens",
]
