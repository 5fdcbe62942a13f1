"""The pair of files of GPT-2, `vocab.json` and `merges.txt`, for and from other programs.

The pair names neither special tokens nor the split pattern: its readers split as GPT-2 does, and
have to be told the special tokens, which `vocab.json` holds as plain text. (`vocab_files.py` has
the same pair with a third file that says both.)
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import read_json_object
from cs336_basics.formats.gpt2.vocab_files import (
    MERGES_FILE,
    METADATA_FILE,
    VOCAB_FILE,
    Pair,
    load_pair,
    merges_as_text,
)
from cs336_basics.formats.huggingface.tokenizer_json import check_has_all_bytes, token_strings
from cs336_basics.pretokenization.patterns.named_patterns import GPT2, resolve_pattern
from cs336_basics.pretokenization.splitter import check_special_tokens
from cs336_basics.tokenizer.vocabulary import TokenizerParts

_OLD_NAMES = ("encoder.json", "vocab.bpe")
"""The names that OpenAI published them under."""

_MAX_METADATA = 1 << 24  # bytes


def gpt2_contents(
    vocab: Mapping[int, bytes], merges: Sequence[Pair], special_tokens: Iterable[str], pattern: str
) -> dict[str, str]:
    """Return name -> content of the two files.

    Raises:
        ValueError: a pattern other than GPT-2's, with which the readers would give different ids;
            or a byte or special token that the pair cannot hold, see `token_strings`.
    """
    if resolve_pattern(pattern) != GPT2:
        raise ValueError(
            f"the tokenizer's pattern is {pattern!r}: readers of vocab.json and merges.txt split "
            "as GPT-2 does and would give different ids; export to huggingface, which names the "
            "pattern"
        )
    strings = token_strings(vocab, merges, special_tokens)
    check_has_all_bytes(vocab)
    return {
        MERGES_FILE: merges_as_text(merges),
        VOCAB_FILE: json.dumps(strings, ensure_ascii=False, indent=0) + "\n",
    }


def load_gpt2(
    source: str | os.PathLike[str],
    merges_file: str | os.PathLike[str] | None = None,
    special_tokens: Iterable[str] | None = None,
) -> TokenizerParts:
    """Read the pair of files.

    Args:
        source: a directory that holds vocab.json and merges.txt, or encoder.json and vocab.bpe; or
            the first file of a pair, with `merges_file`.
        merges_file: the second file.
        special_tokens: None = the tokens that are neither a byte nor made by a merge.

    Raises:
        FileNotFoundError: a file is missing.
        TypeError, ValueError: `special_tokens` is not a list of str; see `check_special_tokens`.
        ValueError: a file is malformed; the source is a file, and `merges_file` is None; or
            `Tokenizer.save` wrote the directory, and the split pattern is not GPT-2's.
    """
    source = Path(source)
    if special_tokens is not None:
        special_tokens = check_special_tokens(special_tokens)
    if merges_file is not None:
        vocab, merges = load_pair(source, merges_file)
    elif source.is_dir():
        names = (VOCAB_FILE, MERGES_FILE)
        if not (source / VOCAB_FILE).exists() and (source / _OLD_NAMES[0]).exists():
            names = _OLD_NAMES
        _check_is_gpt2(source)
        vocab, merges = load_pair(source / names[0], source / names[1])
    elif source.exists():
        raise ValueError(f"{source} is a file: give merges_file as well, or a directory of both")
    else:
        raise FileNotFoundError(f"{source} does not exist: name a directory with {VOCAB_FILE} and "
                                f"{MERGES_FILE}")  # fmt: skip
    if special_tokens is None:
        special_tokens = _unmade_tokens(source, vocab, merges)
    return TokenizerParts(vocab, merges, list(special_tokens), "gpt2")


def _check_is_gpt2(directory: Path) -> None:
    """Refuse a directory of `Tokenizer.save` whose split pattern is not GPT-2's."""
    path = directory / METADATA_FILE
    if not path.exists():
        return
    pattern = read_json_object(path, _MAX_METADATA).get("pattern")
    if pattern not in (None, "gpt2", GPT2):
        raise ValueError(
            f"{path} says that the split pattern is {short_repr(pattern)}: read the directory with "
            "Tokenizer.from_directory"
        )


def _unmade_tokens(source: Path, vocab: Mapping[int, bytes], merges: Sequence[Pair]) -> list[str]:
    """Return the tokens, as text, that no text without special tokens can have."""
    made = {left + right for left, right in merges}
    try:
        return [
            vocab[token_id].decode()
            for token_id in sorted(vocab)
            if len(vocab[token_id]) > 1 and vocab[token_id] not in made
        ]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{source}: token {error.object!r} is not made by a merge and is not text: it "
            "cannot be a special token either: give special_tokens"
        ) from None
