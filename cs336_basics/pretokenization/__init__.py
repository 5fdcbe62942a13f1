"""Text to counted words: corpora, split patterns, special tokens, safe cuts, counting."""

from cs336_basics.pretokenization.corpus import Corpus, MissingFieldError
from cs336_basics.pretokenization.counting import count_words
from cs336_basics.pretokenization.patterns import PATTERNS, resolve_pattern
from cs336_basics.pretokenization.splitter import Splitter, pretokenize, split_special_tokens
from cs336_basics.pretokenization.text_counting import count_text, count_texts
from cs336_basics.pretokenization.word_counts import WordCounts

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
