"""Read and write GPT-2's pair of files, `vocab.json` and `merges.txt`, which many programs read.

`vocab.json` maps tokens to ids. `merges.txt` contains the merges, one per line, in the order in
which they were learned. Both files use the alphabet of `byte_strings.py`. They contain neither the
split pattern nor a list of the special tokens. Programs that read the files split as GPT-2 does,
and the user must pass the special tokens, which `vocab.json` stores as plain text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cs336_basics._support.errors import Argument, InputError, MissingFileError, error_in_file
from cs336_basics._support.messages import counted, json_kind, short_repr
from cs336_basics._support.paths import checked_path
from cs336_basics._support.reading import decoded, open_regular, parse_json, unique_keys
from cs336_basics._support.warnings import warn
from cs336_basics.formats.agreement import Runtime
from cs336_basics.formats.byte_strings import (
    collection_paused,
    merges_of_lines,
    strings_of_vocab,
    token_to_string,
    vocab_of_strings,
)
from cs336_basics.formats.gpt2.added import added_beside
from cs336_basics.formats.recognition import recognized_directory
from cs336_basics.formats.unsaid_parts import check_only_plain_parts, warn_of_post_processor
from cs336_basics.splitting.patterns.named_patterns import GPT2, resolve_pattern
from cs336_basics.splitting.splitter import check_special_tokens, pretokenize
from cs336_basics.tokenizer.added_tokens import AddedToken
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.words import Pair

VOCAB_FILE = "vocab.json"
MERGES_FILE = "merges.txt"
OLD_NAMES = ("encoder.json", "vocab.bpe")
"""Names of the files that OpenAI published."""

VERSION_LINE = "#version: 0.2"

# --------------------------------------------------------------------- out


def contents(definition: TokenizerDefinition) -> dict[str, str]:
    """Return the content of each file by its name.

    Raises:
        ValueError: If the split pattern is not GPT-2's, because readers of the files would give
            different ids. Also see `check_only_plain_parts` and `strings_of_vocab`.

    Warns:
        UserWarning: If the tokenizer has a post-processor that adds ids.
    """
    if resolve_pattern(definition.pattern) != GPT2:
        raise InputError(
            f"must be gpt2, got {short_repr(definition.pattern)}; readers of vocab.json and "
            "merges.txt would split differently",
            argument="pattern",
            remedy="export to huggingface instead",
        )
    check_only_plain_parts(definition, "a reader of vocab.json and merges.txt")
    warn_of_post_processor(definition, "a reader of vocab.json and merges.txt")
    strings = strings_of_vocab(definition)
    # Always write the version line. Without it, readers would mistake a first merge that starts
    # with `#version:` for the version line.
    lines = [VERSION_LINE]
    lines += [f"{token_to_string(a)} {token_to_string(b)}" for a, b in definition.merges]
    return {
        MERGES_FILE: "\n".join(lines) + "\n",
        VOCAB_FILE: json.dumps(strings, ensure_ascii=False, indent=0) + "\n",
    }


def runtime(directory: Path, special_tokens: list[str]) -> Runtime:
    """Load the files with the tokenizers library."""
    import tokenizers

    model = tokenizers.models.BPE.from_file(
        str(directory / VOCAB_FILE), str(directory / MERGES_FILE)
    )
    theirs = tokenizers.Tokenizer(model)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = tokenizers.decoders.ByteLevel()
    theirs.add_special_tokens(
        [tokenizers.AddedToken(token, normalized=False) for token in special_tokens]
    )
    return Runtime(
        f"tokenizers {tokenizers.__version__}",
        lambda text: theirs.encode(text).ids,
        lambda ids, skip: str(theirs.decode(ids, skip_special_tokens=skip)),
    )


# --------------------------------------------------------------------- in


def load_gpt2(
    source: str | os.PathLike[str],
    merges_file: str | os.PathLike[str] | None = None,
    special_tokens: Iterable[str] | None = None,
) -> TokenizerDefinition:
    """Read the pair of files.

    Args:
        source: Directory that contains vocab.json and merges.txt, or encoder.json and vocab.bpe. If
            `merges_file` is given, the vocabulary file.
        merges_file: File that contains the merges.
        special_tokens: Special tokens. Defaults to the tokens that are not single bytes and that no
            merge produces, and the added tokens that other files of the directory list; see
            `added_beside`.

    Raises:
        FileNotFoundError: If a file is missing.
        TypeError, ValueError: If `special_tokens` is invalid. See `check_special_tokens`.
        ValueError: If a file is malformed, `source` is a file and `merges_file` is None, or the
            directory says that text is not split as GPT-2 does and `special_tokens` is None.

    Warns:
        UserWarning: If `special_tokens` is None and some of the special tokens look like words, as
            if merges were missing.
    """
    source = Path(checked_path("source", source))
    if special_tokens is not None:
        special_tokens = check_special_tokens(special_tokens)
    vocab_file = source
    added: dict[int, AddedToken] = {}
    if merges_file is None:
        if source.is_file():
            raise InputError(
                f"{source} is a file",
                remedy=("pass ", Argument("merges_file"), " too, or a directory with both"),
            )
        names = (VOCAB_FILE, MERGES_FILE)
        if not (source / VOCAB_FILE).exists() and (source / OLD_NAMES[0]).exists():
            names = OLD_NAMES
        vocab_file, merges_file = (source / name for name in names)
        if source.is_dir() and not vocab_file.exists():
            if other := recognized_directory(source):
                raise other
            raise MissingFileError(
                f"{vocab_file} does not exist",
                remedy=f"pass a directory with {' and '.join(names)}",
            )
        if special_tokens is None:
            added = added_beside(source)
    vocab, merges = load_vocab(vocab_file), load_merges(merges_file)
    try:
        if special_tokens is not None:
            return TokenizerDefinition(vocab, merges, special_tokens)
        ids = {token.content: token_id for token_id, token in added.items()}
        unmade = [token for token in _unmade_tokens(vocab, merges) if token not in ids]
        _warn_of_words(unmade)
        return TokenizerDefinition(vocab, merges, [*unmade, *added.values()], added_ids=ids)
    except InputError as error:
        raise error_in_file(error, os.fspath(source)) from None


def load_pair(
    vocab_file: str | os.PathLike[str],
    merges_file: str | os.PathLike[str],
    special_tokens: Iterable[str] | None,
    pattern: str,
) -> TokenizerDefinition:
    """Read the pair of files with the given special tokens and split pattern.

    Raises:
        FileNotFoundError: If a file is missing.
        TypeError, ValueError: If a file is malformed, or an argument is invalid.
    """
    vocab, merges = load_vocab(vocab_file), load_merges(merges_file)
    return TokenizerDefinition(vocab, merges, special_tokens, pattern)


def _unmade_tokens(vocab: Mapping[int, bytes], merges: Sequence[Pair]) -> list[str]:
    """Return, as text, the tokens that are not single bytes and that no merge produces."""
    made = {left + right for left, right in merges}
    try:
        return [
            vocab[token_id].decode()
            for token_id in sorted(vocab)
            if len(vocab[token_id]) > 1 and vocab[token_id] not in made
        ]
    except UnicodeDecodeError as error:
        raise InputError(
            f"token {short_repr(error.object)} is not produced by a merge, and cannot be a special "
            "token because it is not UTF-8",
            remedy="pass special_tokens",
        ) from None


def _warn_of_words(special_tokens: Sequence[str]) -> None:
    """Warn about special tokens that ordinary text can contain as a whole pre-token."""
    words = [token for token in special_tokens if len([*pretokenize(token)]) == 1]
    if words:
        listed = ", ".join(map(short_repr, words[:3]))
        warn(
            f"no merge produces {counted(len(words), 'word')} of the vocabulary, such as {listed}, "
            "so they are read as special tokens. If this is wrong, the file of merges is not "
            "complete; if it is right, pass special_tokens"
        )


@collection_paused()
def load_vocab(path: str | os.PathLike[str]) -> dict[int, bytes]:
    """Read vocab.json.

    Special tokens are plain text and may contain spaces, as in `<|end of text|>`. A key with a
    character outside the byte alphabet is therefore read as plain text and encoded as UTF-8.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not a vocabulary in this format.
    """
    strings = parse_json(_read(path), path, unique_keys)
    if not isinstance(strings, dict):
        raise InputError(f"{path} must contain an object of token -> id, got {json_kind(strings)}")
    if isinstance(strings.get("model"), dict):
        raise InputError(
            "is a tokenizer.json, not a vocab.json",
            place=os.fspath(path),
            remedy="call Tokenizer.from_directory",
        )
    try:
        return vocab_of_strings(strings, plain_text=True)
    except InputError as error:
        raise error_in_file(error, os.fspath(path)) from None


@collection_paused()
def load_merges(path: str | os.PathLike[str]) -> list[Pair]:
    """Read merges.txt.

    The first line may be `#version: ...`. Any later line that starts this way is a merge. Lines may
    end with LF or CRLF, and the file may end with empty lines.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a line is not a merge.
    """
    # `splitlines` would also split at other characters. The string that represents a token never
    # contains a carriage return.
    text = decoded(_read(path), path).replace("\r\n", "\n").rstrip("\r\n")
    first = 1  # number of the first line of `text`
    if text.startswith("#version:"):
        text, first = text.partition("\n")[2], 2
    return merges_of_lines(text, lambda index: f"{path}, line {first + index}")


def _read(path: str | os.PathLike[str]) -> bytes:
    if os.path.splitext(checked_path("path", path))[1] in (".pkl", ".pickle"):
        raise InputError(
            f"{path} is a pickle, which could run code",
            remedy="write vocab.json and merges.txt instead",
        )
    with open_regular(path) as file:
        return file.read()
