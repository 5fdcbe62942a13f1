"""A tokenizer for Hugging Face's transformers and tokenizers: tokenizer.json and its settings."""

from __future__ import annotations

from pathlib import Path

from cs336_basics._support.files import json_text
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.formats.agreement import Agreement, compare_ids, probe_texts
from cs336_basics.formats.huggingface.tokenizer_json import (
    CONFIG_FILE,
    TOKENIZER_FILE,
    tokenizer_config,
    tokenizer_json,
)
from cs336_basics.formats.outputs import write_directory
from cs336_basics.tokenizer import Tokenizer

STALE = ("special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt")
"""Files that AutoTokenizer reads as well, and that another program may have left there."""


def write(tokenizer: Tokenizer, output: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json; see `export_tokenizer`."""
    write_directory(output, tokenizer_contents(tokenizer), STALE)


def tokenizer_contents(tokenizer: Tokenizer, context_length: int | None = None) -> dict[str, str]:
    """Return name -> content of the files of a tokenizer, `tokenizer.json` last.

    Args:
        tokenizer: its `<|endoftext|>`, if it has one, ends texts and pads them.
        context_length: the longest sequence of the model, in tokens; None: not limited.

    Raises:
        ValueError: the format cannot represent the tokenizer; see `tokenizer_json`.
    """
    content = tokenizer_json(*tokenizer.parts())
    end_of_text = END_OF_TEXT if END_OF_TEXT in tokenizer.special_tokens else None
    config = tokenizer_config(content, context_length=context_length, end_of_text=end_of_text)
    return {CONFIG_FILE: json_text(config), TOKENIZER_FILE: json_text(content)}


def check(tokenizer: Tokenizer, output: Path) -> Agreement:
    """Load the directory with transformers, or tokenizers alone, and compare ids."""
    try:
        return _check_transformers(tokenizer, output)
    except ImportError:
        import tokenizers

    theirs = tokenizers.Tokenizer.from_file(str(output / TOKENIZER_FILE))
    line = compare_ids(tokenizer, lambda text: theirs.encode(text).ids, probe_texts(tokenizer))
    return Agreement(f"tokenizers {tokenizers.__version__}", (line,))


def _check_transformers(tokenizer: Tokenizer, output: Path) -> Agreement:
    import transformers

    theirs = transformers.AutoTokenizer.from_pretrained(str(output), local_files_only=True)
    # A text that is longer than the context is not an error here: verbose=False.
    line = compare_ids(
        tokenizer, lambda text: theirs(text, verbose=False)["input_ids"], probe_texts(tokenizer)
    )
    return Agreement(f"transformers {transformers.__version__}", (line,))
