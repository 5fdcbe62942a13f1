"""Read a `tokenizer.json` from a file, a directory, a repository on the hub or an object.

`parsing.py` converts the content of a file to a definition.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import open_regular, parse_json, unique_keys
from cs336_basics.formats.byte_strings import collection_paused
from cs336_basics.formats.huggingface.hub import find_or_download
from cs336_basics.formats.huggingface.parsing import (
    IGNORABLE,
    OWN_VERSION,
    parse_own,
    parse_tokenizer_json,
)
from cs336_basics.formats.recognition import is_tekken, recognized_content, recognized_directory
from cs336_basics.tokenizer.definition import TOKENIZER_FILE, TokenizerDefinition

if TYPE_CHECKING:
    from cs336_basics.formats.tiktoken import tekken
else:  # few files are Mistral's
    tekken = LazyModule("cs336_basics.formats.tiktoken.tekken")


def load_from_hub(
    source: Any,
    revision: str | None = None,
    ignore: Iterable[str] = (),
    *,
    own: bool = False,
) -> TokenizerDefinition:
    """Read a `tokenizer.json` from a file, a directory, a repository on the hub or an object.

    Args:
        source: See `find_or_download`. Also a `tokenizers.Tokenizer`, or a tokenizer of
            transformers that contains one.
        revision, ignore, own: See `find_or_download` and `load_tokenizer_json`.
    """
    if not isinstance(source, (str, os.PathLike)):
        return _parse_object(source, _checked_ignore(ignore))
    path = find_or_download(source, TOKENIZER_FILE, revision)
    return load_tokenizer_json(path, ignore, own=own)


@collection_paused()
def load_tokenizer_json(
    path: str | os.PathLike[str], ignore: Iterable[str] = (), *, own: bool = False
) -> TokenizerDefinition:
    """Read a `tokenizer.json`, or the `tekken.json` of Mistral.

    Args:
        path: File, or the directory that contains it.
        ignore: Parts to ignore. Must be keys of IGNORABLE.
        own: Whether to accept files with OWN_VERSION.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is malformed, or has a feature that `Tokenizer` does not have. If it
            is another kind of file, the message says which.
    """
    ignored = _checked_ignore(ignore)
    path = Path(os.path.expanduser(path))
    if path.is_dir() or not path.exists():
        directory, path = path, path / TOKENIZER_FILE
        if not path.exists():
            if (mistral := directory / "tekken.json").exists():
                path = mistral
            elif other := recognized_directory(directory):
                raise other
            else:
                raise FileNotFoundError(
                    f"{path} does not exist; create it with `python -m cs336_basics train-bpe`"
                )
    with open_regular(path) as file:
        data = file.read()
    if other := recognized_content(data, path):
        raise other
    content = parse_json(data, path, unique_keys)
    try:
        if isinstance(content, dict) and content.get("version") == OWN_VERSION:
            return parse_own(content, own)
        if is_tekken(content):
            return tekken.parse_tekken(content)
        return parse_tokenizer_json(content, ignored)
    except InputError as error:
        raise InputError(str(error), place=os.fspath(path)) from None


def _checked_ignore(ignore: Iterable[str]) -> list[str]:
    ignored = [ignore] if isinstance(ignore, str) else list(ignore)
    for name in ignored:
        if name not in [*IGNORABLE]:
            raise InputError(
                f"must contain only {', '.join(IGNORABLE)}, got {short_repr(name)}",
                argument="ignore",
            )
    return ignored


def _parse_object(source: Any, ignored: list[str]) -> TokenizerDefinition:
    """Convert a tokenizer of tokenizers or transformers to a definition."""
    inner = getattr(source, "backend_tokenizer", source)  # of transformers
    if not callable(getattr(inner, "to_str", None)):
        raise InputTypeError(
            "must be a path, the name of a repository, a tokenizers.Tokenizer or a fast tokenizer "
            f"of transformers, got {short_repr(source)}",
            argument="source",
        )
    return parse_tokenizer_json(json.loads(inner.to_str()), ignored)
