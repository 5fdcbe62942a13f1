"""A tokenizer for tiktoken: ranks, what a file of ranks lacks, and the Python that loads both."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from cs336_basics._support.files import json_text, printable_path
from cs336_basics.formats.agreement import Agreement, compare_ids, probe_texts
from cs336_basics.formats.foreign_patterns import to_fancy_regex
from cs336_basics.formats.outputs import write_directory
from cs336_basics.formats.tiktoken.tiktoken_files import (
    ENCODING_FILE,
    RANKS_FILE,
    ranks_as_bytes,
    tiktoken_ranks,
)
from cs336_basics.tokenizer import Tokenizer

SNIPPET_FILE = "encoding.py"

SNIPPET = '''\
"""Loads the tokenizer of this directory with tiktoken: `encoding = load()`."""

import base64
import json
from pathlib import Path

import tiktoken


def load(directory=Path(__file__).parent):
    # (tiktoken's own load_tiktoken_bpe caches files by their path, even if they change.)
    lines = Path(directory, "ranks.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    settings = json.loads(Path(directory, "encoding.json").read_text(encoding="utf-8"))
    return tiktoken.Encoding(mergeable_ranks=ranks, **settings)


if __name__ == "__main__":
    encoding = load()
    ids = encoding.encode("Once upon a time", allowed_special="all")
    print(ids, encoding.decode(ids))
'''


def write(tokenizer: Tokenizer, output: Path) -> None:
    """Write ranks.tiktoken, encoding.json and encoding.py; see `export_tokenizer`."""
    vocab, merges, special_tokens, _, ignore_merges = tokenizer.parts()
    ranks = tiktoken_ranks(vocab, merges, special_tokens, ignore_merges)
    settings: dict[str, Any] = {
        "name": printable_path(output.resolve().name),
        "pat_str": to_fancy_regex(tokenizer.pattern),
        "special_tokens": {
            token: tokenizer.special_token_id(token) for token in tokenizer.special_tokens
        },
    }
    contents: dict[str, str | bytes] = {
        SNIPPET_FILE: SNIPPET,
        ENCODING_FILE: json_text(settings),
        RANKS_FILE: ranks_as_bytes(ranks),
    }
    write_directory(output, contents)


def check(tokenizer: Tokenizer, output: Path) -> Agreement:
    """Run the Python that was written, and compare ids."""
    import tiktoken

    encoding = runpy.run_path(str(output / SNIPPET_FILE))["load"](output)
    line = compare_ids(
        tokenizer,
        lambda text: encoding.encode(text, allowed_special="all"),
        probe_texts(tokenizer),
    )
    return Agreement(f"tiktoken {tiktoken.__version__}", (line,))
