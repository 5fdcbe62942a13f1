"""Splitting text into pre-tokens, the units that BPE merges within."""

from cs336_basics.splitting.patterns.named_patterns import PATTERNS, resolve_pattern
from cs336_basics.splitting.splitter import Splitter, pretokenize, split_special_tokens

__all__ = ["PATTERNS", "Splitter", "pretokenize", "resolve_pattern", "split_special_tokens"]
