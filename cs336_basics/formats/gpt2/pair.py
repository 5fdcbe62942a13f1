"""GPT-2's pair of files, which many programs read: `vocab.json` and `merges.txt`.

`vocab.json` maps tokens to ids, and `merges.txt` holds one merge per line, in the order in which
they were learned, both in the alphabet of `byte_strings.py`. The pair names neither special tokens
nor the split pattern: its readers split as GPT-2 does, and have to be told the special tokens,
which `vocab.json` holds as plain text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from cs336_basics._support.reading import decoded, open_regular, parse_json, unique_keys
from cs336_basics.formats.byte_strings import (
    collection_paused,
    merges_of_lines,
    strings_of_vocab,
    token_to_string,
    vocab_of_strings,
)
from cs336_basics.pretokenization.patterns.named_patterns import GPT2, resolve_pattern
from cs336_basics.pretokenization.splitter import check_special_tokens
from cs336_basics.tokenizer.vocabulary import Pair, TokenizerParts

VOCAB_FILE = "vocab.json"
MERGES_FILE = "merges.txt"
OLD_NAMES = ("encoder.json", "vocab.bpe")
"""The names that OpenAI published them under."""

VERSION_LINE = "#version: 0.2"

# --------------------------------------------------------------------- out


def contents(parts: TokenizerParts) -> dict[str, str]:
    """Return name -> content of the two files.

    Raises:
        ValueError: a pattern other than GPT-2's, with which the readers would give different ids;
            or see `strings_of_vocab`.
    """
    if resolve_pattern(parts.pattern) != GPT2:
        raise ValueError(
            f"the tokenizer's pattern is {parts.pattern!r}: readers of vocab.json and "
            "merges.txt split as GPT-2 does and would give different ids; export to huggingface, "
            "which names the pattern"
        )
    strings = strings_of_vocab(parts)
    # The version line is always written: without it, a first merge of a token `#version:` would be
    # read as one.
    lines = [VERSION_LINE]
    lines += [f"{token_to_string(a)} {token_to_string(b)}" for a, b in parts.merges]
    return {
        MERGES_FILE: "\n".join(lines) + "\n",
        VOCAB_FILE: json.dumps(strings, ensure_ascii=False, indent=0) + "\n",
    }


def runtime(directory: Path, special_tokens: list[str]) -> tuple[str, Callable[[str], list[int]]]:
    """Load the pair with tokenizers, as its GPT-2 does; return its name and what encodes."""
    import tokenizers

    model = tokenizers.models.BPE.from_file(
        str(directory / VOCAB_FILE), str(directory / MERGES_FILE)
    )
    theirs = tokenizers.Tokenizer(model)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.add_special_tokens(
        [tokenizers.AddedToken(token, normalized=False) for token in special_tokens]
    )
    return f"tokenizers {tokenizers.__version__}", lambda text: theirs.encode(text).ids


# --------------------------------------------------------------------- in


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
        ValueError: a file is malformed; or the source is a file, and `merges_file` is None.
    """
    source = Path(source)
    if special_tokens is not None:
        special_tokens = check_special_tokens(special_tokens)
    vocab_file = source
    if merges_file is None:
        if source.is_file():
            raise ValueError(f"{source} is a file: give merges_file too, or a directory of both")
        names = (VOCAB_FILE, MERGES_FILE)
        if not (source / VOCAB_FILE).exists() and (source / OLD_NAMES[0]).exists():
            names = OLD_NAMES
        vocab_file, merges_file = (source / name for name in names)
    vocab, merges = load_vocab(vocab_file), load_merges(merges_file)
    if special_tokens is None:
        special_tokens = _unmade_tokens(source, vocab, merges)
    return TokenizerParts(vocab, merges, list(special_tokens), "gpt2")


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


@collection_paused()
def load_vocab(path: str | os.PathLike[str]) -> dict[int, bytes]:
    """Read vocab.json.

    Special tokens are plain text, such as `<|end of text|>` with spaces. A key with a character
    outside the byte alphabet is therefore read as that text in UTF-8.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not such a vocabulary; names the file, and the line or item.
    """
    strings = parse_json(_read(path), path, unique_keys)
    if not isinstance(strings, dict):
        raise ValueError(
            f"{path} holds a value of type {type(strings).__name__}, not an object of token -> id"
        )
    try:
        return vocab_of_strings(strings, plain_text=True)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@collection_paused()
def load_merges(path: str | os.PathLike[str]) -> list[Pair]:
    """Read merges.txt.

    The first line may be `#version: ...`; any other line that begins so is a merge. Line ends
    may be LF or CRLF, and the file may end with empty lines.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file does not hold merges; names the file and the line.
    """
    # Not `splitlines`, which breaks lines at more than line feeds. A carriage return never occurs
    # in the string of a token.
    text = decoded(_read(path), path).replace("\r\n", "\n").rstrip("\r\n")
    first = 1  # number of the first line of `text`
    if text.startswith("#version:"):
        text, first = text.partition("\n")[2], 2
    return merges_of_lines(text, lambda index: f"{path}, line {first + index}")


def _read(path: str | os.PathLike[str]) -> bytes:
    if Path(path).suffix in (".pkl", ".pickle"):
        raise ValueError(
            f"{path} is a pickle, which could run code: write vocab.json and merges.txt instead"
        )
    with open_regular(path) as file:
        return file.read()
