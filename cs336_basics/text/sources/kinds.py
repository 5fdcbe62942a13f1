"""Detect the format of a file (text, JSON Lines, CSV, Parquet, Arrow) from its name and content.

The content decides only in clear cases. Prose, code, Markdown tables and logs count as text.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
from collections.abc import Iterator

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.urls import is_url
from cs336_basics._support.warnings import warn
from cs336_basics.text.encodings import BEGINNING, check_signature, wide_encoding
from cs336_basics.text.storage import COMPRESSED_ENDINGS, decompressed_blocks, open_path

HEAD = 1 << 16
"""Number of bytes to examine at the start of a file."""

JSON = "json"
"""Provisional format of .json files. Their content shows whether they are JSON Lines or text."""

_ENDINGS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": JSON, ".csv": "csv", ".tsv": "csv",
    ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow",
}  # fmt: skip

_TEXT_ENDINGS = (
    ".txt", ".text", ".md", ".mdx", ".markdown", ".rst", ".adoc", ".org", ".tex", ".bib", ".srt",
    ".html", ".htm", ".xhtml", ".xml", ".css", ".less", ".scss", ".svelte", ".vue",
    ".c", ".h", ".cc", ".hh", ".cpp", ".hpp", ".cxx", ".hxx", ".cu", ".cuh", ".m", ".mm", ".zig",
    ".asm", ".s", ".cs", ".fs", ".vb", ".go", ".rs", ".nim", ".pas", ".f", ".f90", ".jl",
    ".java", ".kt", ".kts", ".groovy", ".gradle", ".scala", ".clj", ".dart", ".swift",
    ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".php", ".sol", ".wgsl", ".glsl",
    ".py", ".pyi", ".pyx", ".pxd", ".r", ".rb", ".pl", ".pm", ".lua", ".tcl", ".awk",
    ".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".cmake", ".mk",
    ".hs", ".ml", ".mli", ".ex", ".exs", ".erl", ".lisp", ".el", ".scm", ".rkt", ".lean", ".v",
    ".sv", ".vhd", ".sql", ".proto", ".toml", ".yaml", ".yml",
)  # fmt: skip

DELIMITERS = ",;\t|"
"""Characters that may separate the fields of a CSV file, the most frequent one first."""

_FIRST_LINES = 5
_FEWEST_BYTES = 32
"""Minimum number of bytes needed to classify a file as binary."""

_FEWEST_NULS = 16
"""Minimum number of NUL bytes in token ids."""

_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r\f\x1b")
_BEGINNING_OF_OBJECT = re.compile(r'\{\s*"(?:[^"\\\n]|\\.){0,200}"\s*:\s*["\[{\d\-tfn]')
_NAME_OF_COLUMN = re.compile(r"[A-Za-z_][\w.-]{0,60}")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def detected_format(path: str) -> str:
    """Return the format of a file, a name in FORMATS.

    Raises:
        ValueError: If a .json file is a single JSON value.
    """
    found = named_format(path)
    return format_of_json(head_of(path), path) if found == JSON else found


def named_format(path: str | os.PathLike[str]) -> str:
    """Return the format that a file's name indicates: a name in FORMATS, or JSON."""
    return _ENDINGS.get(ending_of(path), "text")


def has_known_ending(path: str | os.PathLike[str]) -> bool:
    """Return whether a file name has an ending for text or for rows that contain text."""
    ending = ending_of(path)
    return ending in _ENDINGS or ending in _TEXT_ENDINGS


def ending_of(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file name in lower case, without an ending for compression."""
    name = os.fspath(path).lower()
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    return os.path.splitext(name)[1]


def format_of_json(head: bytes, path: str) -> str:
    """Return the format of a .json file. `head` contains its first HEAD bytes, decompressed.

    Raises:
        ValueError: If the file is a single JSON value instead of one object per line.
    """
    if _is_json_lines(head):
        return "jsonl"
    if _starts_as_json(head):
        raise InputError(
            f"{path} is a single JSON value, not JSON Lines",
            remedy=(
                "convert it with `jq -c '.[]'`, leave it out with a glob such as 'data/**/*.txt', "
                "or pass ",
                Argument("format", "text"),
                " to read all files as plain text",
            ),
        )
    return "text"


def is_single_json(path: str, field: str | None) -> bool:
    """Return whether a .json file is a single JSON value instead of one object per line.

    A file with one line, such as a minified package.json, is JSON Lines if it has the field.
    """
    if named_format(path) != JSON:
        return False
    head = head_of(path)
    if not _is_json_lines(head):
        return _starts_as_json(head)
    line = _text_of(head).strip()
    return len(head) < HEAD and "\n" not in line and field not in json.loads(line)


def _starts_as_json(head: bytes) -> bool:
    return head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def head_of(path: str) -> bytes:
    """Return the first HEAD bytes of a file, decompressed.

    If the file cannot be read, return empty bytes; the error is reported when the text is read.
    """
    try:
        with open_path(path) as opened:
            return next(decompressed_blocks(opened, path, HEAD), b"")
    except (OSError, InputError):
        return b""


def check_beginning_of(path: str, errors: str, *, may_have_rows: bool) -> None:
    """Reject a local file that is evidently not text, based on its first bytes.

    Args:
        path: Path or URL of the file.
        errors: Name in ENCODING_ERRORS. With "bytes", text in every encoding is accepted.
        may_have_rows: Whether to accept JSON Lines, CSV and binary files.

    Raises:
        ValueError: If the file looks like UTF-16 or UTF-32 without a byte order mark, or like ids
            of 2 or 4 bytes, and `may_have_rows` is false. Also see `check_signature` and
            `check_is_text`.

    Warns:
        UserWarning: If the file looks like that, and `may_have_rows` is true.
    """
    if is_url(path):
        return
    head = head_of(path)
    is_exact = errors == "bytes"
    if not is_exact:
        check_signature(head[:BEGINNING], path)
    wide = None if is_exact else wide_encoding(head[:BEGINNING])
    if wide is not None and may_have_rows:
        warn(
            f"{path} looks like {wide} but is read as UTF-8, with NUL bytes as characters; "
            f"convert it with `iconv -f {wide} -t UTF-8`"
        )
    elif wide is not None:
        raise InputError(
            f"{path} looks like {wide} or like token ids, not like UTF-8",
            remedy=(
                f"convert text with `iconv -f {wide} -t UTF-8`, or pass ",
                Argument("format", "text"),
                " to read NUL bytes as characters",
            ),
        )
    elif not may_have_rows:
        check_is_text(head, path, may_be_binary=is_exact)


def check_is_text(head: bytes, path: str, *, may_be_binary: bool) -> None:
    """Reject a file that is evidently not plain text. For `head`, see `format_of_json`.

    Raises:
        ValueError: If the file contains JSON Lines or CSV, or is binary and `may_be_binary` is
            false.
    """
    as_text = (", or ", Argument("format", "text"), " to read it as plain text")
    if _is_json_lines(head):
        rows = ("pass ", Argument("format", "jsonl"), " and ", Argument("field"))
        raise InputError(f"{path} contains JSON Lines", remedy=(*rows, *as_text))
    if _is_csv(head):
        rows = ("pass ", Argument("format", "csv"), " and ", Argument("column"))
        raise InputError(f"{path} contains CSV rows", remedy=(*rows, *as_text))
    if not may_be_binary and _is_binary(head):
        raise InputError(f"{path} is binary, not text", remedy=("pass a text file", *as_text))


def _is_json_lines(head: bytes) -> bool:
    """Return whether the first lines are JSON objects, or a long first line starts like one."""
    text = _text_of(head)
    if not text.lstrip().startswith("{"):
        return False
    lines = [line for line in _whole_lines(text, len(head) < HEAD) if line.strip()]
    if not lines:
        return _BEGINNING_OF_OBJECT.match(text) is not None
    return all(map(_is_object, lines[:_FIRST_LINES]))


def _is_object(line: str) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and bool(value)


def _is_csv(head: bytes) -> bool:
    """Return whether a line of names is followed by rows with the same number of fields.

    In addition, at least one field must need its quotes, or one column must contain only numbers.
    """
    text = _text_of(head)
    return any(_is_divided_by(delimiter, text, len(head) < HEAD) for delimiter in DELIMITERS)


def _is_divided_by(delimiter: str, text: str, is_whole: bool) -> bool:
    """Return whether the start of a file is CSV with this delimiter; see `_is_csv`."""
    names = text.partition("\n")[0].rstrip("\r").split(delimiter)
    if len(set(names)) < max(2, len(names)) or not all(map(_NAME_OF_COLUMN.fullmatch, names)):
        return False
    rows: list[list[str]] = []
    reader = csv.reader(_whole_lines(text, is_whole), delimiter=delimiter, strict=True)
    try:
        rows.extend(row for row in reader if row)
    except csv.Error as error:
        if is_whole or "end of data" not in str(error):
            return False
    rows = rows[1:]
    if len(rows) < 2 or any(len(row) != len(names) for row in rows):
        return False
    columns = zip(*rows, strict=True)
    return any(re.search(f'[{delimiter}"\n]', field) for row in rows for field in row) or any(
        all(map(_NUMBER.fullmatch, column)) for column in columns
    )


def _is_binary(head: bytes) -> bool:
    """Return whether the bytes are token ids, or not UTF-8 and many control characters."""
    if len(head) < _FEWEST_BYTES:
        return False
    if _is_ids(head):
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return len(head) - len(head.translate(None, _CONTROLS)) > len(head) / 20
    return False


def _is_ids(head: bytes) -> bool:
    """Return whether the bytes are evidently token ids of 2 or 4 bytes, the lowest byte first.

    They may be valid UTF-8. Small ids have NUL bytes nearly always at odd offsets; in text, NUL
    bytes may be anywhere.
    """
    count = head.count(0)
    at_odd_offsets = head[1::2].count(0)
    return count >= _FEWEST_NULS and count > len(head) / 100 and at_odd_offsets > 0.9 * count


def _text_of(head: bytes) -> str:
    """Return the start of a file as text, without a byte order mark."""
    return head.decode("utf-8", "replace").removeprefix("\ufeff")


def _whole_lines(text: str, is_whole: bool) -> Iterator[str]:
    """Yield the lines at the start of a file. Drop the last line if it may be incomplete."""
    for line in io.StringIO(text, newline="\n"):
        if is_whole or line.endswith("\n"):
            yield line
