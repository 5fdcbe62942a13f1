"""Files of a corpus, one class for each format. Only this folder asks for the format of a file."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cs336_basics._support.arguments import check_choice
from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.lazy import lazy_names
from cs336_basics._support.messages import short_repr
from cs336_basics._support.urls import is_url
from cs336_basics.text.sources.kinds import detected_format
from cs336_basics.text.sources.plain import PlainText
from cs336_basics.text.sources.source import (
    DEFAULT_BLOCK_SIZE,
    DivisibleSource,
    MissingFieldError,
    Piece,
    Source,
    TextBlock,
)

if TYPE_CHECKING:
    from cs336_basics.text.sources.jsonl import JsonLines
else:
    __getattr__, __dir__ = lazy_names(__name__, {"cs336_basics.text.sources.jsonl": "JsonLines"})

__all__ = [
    "DEFAULT_BLOCK_SIZE",
    "FORMATS",
    "DivisibleSource",
    "JsonLines",
    "MissingFieldError",
    "Piece",
    "PlainText",
    "Source",
    "TextBlock",
    "check_options_are_used",
    "formats_of",
    "open_sources",
]

FORMATS = {
    "text": "plain.PlainText",
    "jsonl": "jsonl.JsonLines",
    "csv": "csv.Csv",
    "parquet": "tables.Parquet",
    "arrow": "tables.Arrow",
}
"""Format -> module and name of the class of its sources. The modules are imported when they are
needed: most training reads only plain text."""

_FILES_WITH = {
    "field": "JSON Lines (.jsonl, .ndjson)",
    "column": "Parquet, Arrow or CSV (.parquet, .arrow, .feather, .csv)",
}
_EXAMPLE_WITH = {"field": "jsonl", "column": "csv"}


def _class_of(format: str) -> type[Source]:
    """Return the class of a format's sources."""
    module, name = FORMATS[format].split(".")
    found: type[Source] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return found


def formats_of(files: Iterable[str], format: str | None = None) -> list[type[Source]]:
    """Return the class of each file's source: that of `format` if given, or a detected one.

    Raises:
        ValueError: If `format` is unknown, or a .json file is a single JSON value.
    """
    if format is not None:
        check_choice("format", format, FORMATS, ", or None")
    return [_class_of(format or detected_format(file)) for file in files]


def open_sources(
    files: Sequence[str],
    *,
    field: str | None,
    column: str | None,
    errors: str,
    format: str | None,
    max_piece_bytes: int,
) -> tuple[Source, ...]:
    """Check files as far as possible without reading their text, and return their sources.

    Args:
        files: Paths and URLs of the files.
        field, column, errors, format, max_piece_bytes: See `Corpus`.

    Raises:
        ValueError, FileNotFoundError, ImportError: See `Corpus`.
    """
    formats = formats_of(files, format)
    names = {"field": field, "column": column}
    if not any(is_url(file) or os.path.getsize(file) for file in files):
        shown = ", ".join(map(repr, files[:3])) + (", ..." if len(files) > 3 else "")
        raise InputError("no text", place=shown, remedy="pass a file that contains text")
    return tuple(
        source.opened(
            file,
            None if source.option is None else names[source.option],
            format is not None,
            errors=errors,
            max_piece_bytes=max_piece_bytes,
        )
        for file, source in zip(files, formats, strict=True)
    )


def check_options_are_used(
    sources: Iterable[Source | type[Source]],
    *,
    field: str | None,
    column: str | None,
) -> None:
    """Check that at least one source needs each option that was given.

    Args:
        sources: All sources that the options were given for, or their classes.
        field, column: See `Corpus`.

    Raises:
        ValueError: If an option is given but no source needs it.
    """
    needed = {source.option for source in sources}
    for option, given in (("field", field), ("column", column)):
        if given is not None and option not in needed:
            raise InputError(
                f"{short_repr(given)} applies only to {_FILES_WITH[option]}",
                argument=option,
                remedy=("omit it, or pass ", Argument("format", _EXAMPLE_WITH[option])),
            )
