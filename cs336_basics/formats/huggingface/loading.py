"""Read a `tokenizer.json` from a file, a directory, a repository on the hub or an object.

`parsing.py` converts the content of a file to a definition.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cs336_basics._support.arguments import check_choice, check_is_iterable
from cs336_basics._support.errors import InputError, InputTypeError, MissingFileError, error_in_file
from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import short_repr
from cs336_basics._support.paths import checked_path
from cs336_basics._support.reading import open_regular, parse_json, unique_keys
from cs336_basics.formats.byte_strings import collection_paused, read_vocabulary
from cs336_basics.formats.huggingface.hub import find_or_download
from cs336_basics.formats.huggingface.parsing import (
    IGNORABLE,
    OWN_VERSION,
    MistakeInFileError,
    parse_own,
    parse_tokenizer_json,
)
from cs336_basics.formats.recognition import is_tekken, recognized_content, recognized_directory
from cs336_basics.tokenizer.definition import TOKENIZER_FILE, TokenizerDefinition

if TYPE_CHECKING:
    from cs336_basics.formats._byte_strings import TokenizerFile
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
    path = checked_path("directory", path)
    if os.path.isdir(path) or not os.path.exists(path):
        directory, path = path, os.path.join(path, TOKENIZER_FILE)
        if not os.path.exists(path):
            mistral = os.path.join(directory, "tekken.json")
            if os.path.exists(mistral):
                path = mistral
            elif other := recognized_directory(directory):
                raise other
            else:
                raise MissingFileError(
                    f"{path} does not exist",
                    remedy="create it with `python -m cs336_basics train-bpe`, or save a tokenizer "
                    "of the Hugging Face hub there: "
                    "Tokenizer.from_pretrained(NAME).save(DIRECTORY)",
                )
    with open_regular(path) as file:
        data = file.read()
    if other := recognized_content(data, path):
        raise other
    for content, vocabulary in _contents(data, path):
        try:
            return _parsed(content, vocabulary, ignored, own)
        except MistakeInFileError:  # whose message comes from the whole content
            continue
        except InputError as error:
            raise error_in_file(error, path) from None
    raise AssertionError("the last content has all parts")


def _contents(data: bytes, path: str) -> Iterator[tuple[Any, TokenizerFile | None]]:
    """Yield the content of a file, first without the vocabulary that the compiled reader has read.

    What is unusual or wrong in a file is found in its whole content.
    """
    file = read_vocabulary(data)
    if file is not None:
        rest = None
        with contextlib.suppress(InputError):
            rest = parse_json(file.rest, path, unique_keys)
        if rest is not None:
            yield rest, file
    with collection_paused():
        content = parse_json(data, path, unique_keys)
    yield content, None


def _parsed(
    content: Any, file: TokenizerFile | None, ignored: list[str], own: bool
) -> TokenizerDefinition:
    """Convert the content of a file to a definition; see `parse_tokenizer_json`."""
    if isinstance(content, dict) and content.get("version") == OWN_VERSION:
        if file is not None:
            raise MistakeInFileError
        return parse_own(content, own)
    if is_tekken(content):
        return tekken.parse_tekken(content)
    with collection_paused():
        return parse_tokenizer_json(content, ignored, file)


def _checked_ignore(ignore: Iterable[str]) -> list[str]:
    if isinstance(ignore, str):
        ignore = [ignore]
    check_is_iterable("ignore", ignore, "parts")
    ignored = list(ignore)
    for name in ignored:
        check_choice("ignore", name, IGNORABLE)
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
