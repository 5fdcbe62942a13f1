"""Merges to ids: the tokenizer, its files, and token files."""

from cs336_basics.tokenizer.encode_files import encode_file
from cs336_basics.tokenizer.extend import extend, token_parts
from cs336_basics.tokenizer.streaming_decoder import StreamingDecoder
from cs336_basics.tokenizer.token_files import load_document_starts, load_token_file
from cs336_basics.tokenizer.tokenizer import Tokenizer

__all__ = [
    "StreamingDecoder",
    "Tokenizer",
    "encode_file",
    "extend",
    "load_document_starts",
    "load_token_file",
    "token_parts",
]
