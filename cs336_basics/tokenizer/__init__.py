"""From merges to ids: the tokenizer, its files, and token files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import lazy_names

__all__ = [
    "AddedToken",
    "Dropout",
    "IncrementalEncoder",
    "MergeStep",
    "MergedWord",
    "PostProcessor",
    "Pruned",
    "StreamingDecoder",
    "TextPart",
    "TextToken",
    "TextTokens",
    "Tokenizer",
    "TokenizerDefinition",
    "WithoutResidue",
    "count_steps",
    "count_token_file",
    "count_tokens",
    "encode_file",
    "encode_rows",
    "extend",
    "load_document_starts",
    "load_token_file",
    "merge_steps",
    "never_used",
    "only_steps",
    "parts_of",
    "prune",
    "token_origins",
    "token_parts",
    "tokens_of",
    "translate_token_file",
    "visible",
    "visible_parts",
    "without_residue",
]

if TYPE_CHECKING:
    from cs336_basics._support.visible import visible, visible_parts
    from cs336_basics.tokenizer.added_tokens import AddedToken
    from cs336_basics.tokenizer.definition import TokenizerDefinition
    from cs336_basics.tokenizer.dropout import Dropout
    from cs336_basics.tokenizer.editing.extend import extend, token_origins, token_parts
    from cs336_basics.tokenizer.editing.prune import Pruned, prune
    from cs336_basics.tokenizer.editing.residue import (
        WithoutResidue,
        count_steps,
        only_steps,
        without_residue,
    )
    from cs336_basics.tokenizer.editing.token_counts import (
        count_token_file,
        count_tokens,
        never_used,
    )
    from cs336_basics.tokenizer.editing.translate import translate_token_file
    from cs336_basics.tokenizer.files.encode_files import encode_file
    from cs336_basics.tokenizer.files.encode_rows import encode_rows
    from cs336_basics.tokenizer.files.token_files import load_document_starts, load_token_file
    from cs336_basics.tokenizer.merged_words import MergedWord, MergeStep, merge_steps
    from cs336_basics.tokenizer.post_processor import PostProcessor
    from cs336_basics.tokenizer.streaming.incremental_encoder import IncrementalEncoder
    from cs336_basics.tokenizer.streaming.streaming_decoder import StreamingDecoder
    from cs336_basics.tokenizer.text_parts import TextPart, parts_of
    from cs336_basics.tokenizer.text_tokens import TextToken, TextTokens, tokens_of
    from cs336_basics.tokenizer.tokenizer import Tokenizer
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cs336_basics._support.visible": "visible visible_parts",
            "cs336_basics.tokenizer.added_tokens": "AddedToken",
            "cs336_basics.tokenizer.definition": "TokenizerDefinition",
            "cs336_basics.tokenizer.dropout": "Dropout",
            "cs336_basics.tokenizer.editing.extend": "extend token_origins token_parts",
            "cs336_basics.tokenizer.editing.prune": "Pruned prune",
            "cs336_basics.tokenizer.editing.residue": (
                "WithoutResidue count_steps only_steps without_residue"
            ),
            "cs336_basics.tokenizer.editing.token_counts": (
                "count_token_file count_tokens never_used"
            ),
            "cs336_basics.tokenizer.editing.translate": "translate_token_file",
            "cs336_basics.tokenizer.files.encode_files": "encode_file",
            "cs336_basics.tokenizer.files.encode_rows": "encode_rows",
            "cs336_basics.tokenizer.files.token_files": "load_document_starts load_token_file",
            "cs336_basics.tokenizer.merged_words": "MergedWord MergeStep merge_steps",
            "cs336_basics.tokenizer.post_processor": "PostProcessor",
            "cs336_basics.tokenizer.streaming.incremental_encoder": "IncrementalEncoder",
            "cs336_basics.tokenizer.streaming.streaming_decoder": "StreamingDecoder",
            "cs336_basics.tokenizer.text_parts": "TextPart parts_of",
            "cs336_basics.tokenizer.text_tokens": "TextToken TextTokens tokens_of",
            "cs336_basics.tokenizer.tokenizer": "Tokenizer",
        },
    )
