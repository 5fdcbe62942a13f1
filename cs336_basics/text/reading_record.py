"""ReadingRecord: what happened while text was read.

Invalid UTF-8 is read as U+FFFD, which should not go unnoticed. Counting and encoding record the
replaced sequences and warn once at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cs336_basics._support.errors import Argument, InputError, InputTypeError
from cs336_basics._support.messages import counted, short_reason
from cs336_basics._support.warnings import warn
from cs336_basics.text.encodings import check_byte_order_mark
from cs336_basics.text.storage import invalid_utf8_error
from cs336_basics.text.utf8 import (
    count_invalid,
    is_valid_utf8,
    joined_surrogates,
    lone_surrogate,
    replace_invalid,
)

if TYPE_CHECKING:
    from cs336_basics.text.sources.source import TextBlock

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Replaced:
    """Invalid UTF-8 sequences that were read as U+FFFD.

    Attributes:
        sequences: Number of sequences, as counted by `bytes.decode`.
        num_bytes: Total number of bytes in the sequences.
        first: Location of the first sequence: an offset in bytes, or a phrase such as "at byte 3 of
            row 5".
    """

    sequences: int
    num_bytes: int
    first: int | str


@dataclass
class ReadingRecord:
    """The amount of text that was read, and the invalid UTF-8 replaced in it.

    Attributes:
        num_bytes: Size of the text in bytes, before replacements.
        replaced: Mapping from file names ("" for text in memory) to the sequences replaced there.
    """

    num_bytes: int = 0
    replaced: dict[str, Replaced] = field(default_factory=dict)

    def add(self, other: ReadingRecord) -> None:
        """Add the record of another text."""
        self.num_bytes += other.num_bytes
        for name, found in other.replaced.items():
            self.add_replaced(name, found)

    def add_replaced(self, name: str, found: Replaced) -> None:
        """Add the sequences replaced in a file."""
        if not found.sequences:
            return
        before = self.replaced.get(name)
        if before is None:
            self.replaced[name] = found
            return
        first = before.first
        if isinstance(first, int) and isinstance(found.first, int):
            first = min(first, found.first)
        self.replaced[name] = Replaced(
            before.sequences + found.sequences, before.num_bytes + found.num_bytes, first
        )

    def utf8_of_block(self, block: TextBlock, errors: str) -> bytes:
        """Return the text of a block as valid UTF-8, and record its size and replacements.

        Args:
            block: Text from a source.
            errors: See `utf8_of`.

        Raises:
            ValueError: See `utf8_of`.
        """
        text = block.text
        if isinstance(text, str):
            try:
                data = text.encode()
            except UnicodeEncodeError:
                data = self._without_surrogates(text, errors, block.file, block.row)
            self.num_bytes += len(data)
            return data
        self.num_bytes += len(text)
        if is_valid_utf8(text):
            return text
        return self.utf8_of(text, errors, file=block.file, start=block.offset or 0, row=block.row)

    def utf8_of(
        self,
        text: Any,
        errors: str,
        *,
        file: str = "",
        start: int = 0,
        row: str | int | None = None,
    ) -> bytes:
        """Return a text as valid UTF-8, and record the replaced sequences.

        Args:
            text: A str, which may contain lone surrogates, or bytes.
            errors: `"replace"` reads invalid UTF-8 as U+FFFD; `"strict"` rejects it.
            file: Name of the file, or "" for text in memory.
            start: Offset of the text in the file.
            row: Location of the row in the file, or index of the text in memory.

        Raises:
            TypeError: If `text` is neither str nor bytes.
            ValueError: If the text starts with the byte order mark of UTF-16 or UTF-32, or if
                `errors` is "strict" and the text is not valid.
        """
        if isinstance(text, str):
            try:
                return text.encode()
            except UnicodeEncodeError:
                return self._without_surrogates(text, errors, file, row)
        if not isinstance(text, bytes):
            raise InputTypeError(
                f"must be str or bytes, got {type(text).__name__}",
                argument="text" if row is None else "texts",
                place=_named(row) or "",
                remedy=("pass ", Argument("field", "text")) if isinstance(text, Mapping) else "",
            )
        data = bytes(text)
        if is_valid_utf8(data):
            return data
        named = _named(row)
        where = ", ".join(filter(None, (file, named)))
        if start == 0:
            check_byte_order_mark(data, where or "the text")
        sequences, num_bytes, offset = count_invalid(data)
        if errors == "strict":
            raise invalid_utf8_error(where or None, data[offset], start + offset)
        first = start + offset if named is None else f"at byte {offset:,} of {named}"
        self.add_replaced(file, Replaced(sequences, num_bytes, first))
        return replace_invalid(data)

    def _without_surrogates(
        self, text: str, errors: str, file: str, row: str | int | None
    ) -> bytes:
        """Encode a str that contains surrogates; see `utf8_of`."""
        named = _named(row) or "the text"
        if errors == "strict" and (index := lone_surrogate(text)) is not None:
            raise InputError(
                f"the lone surrogate U+{ord(text[index]):04X} at character {index:,} cannot be "
                "encoded as UTF-8",
                place=", ".join(filter(None, (file, _named(row)))),
            )
        replaced = joined_surrogates(text, "replace")
        number = replaced.count(_REPLACEMENT) - text.count(_REPLACEMENT)
        self.add_replaced(file, Replaced(number, 3 * number, f"a lone surrogate in {named}"))
        return replaced.encode()

    def as_json(self) -> dict[str, Any]:
        """Return the record as a dict that can be written as JSON; see `from_json`."""
        from cs336_basics._support.paths import printable_path  # not needed by counting

        replaced = {printable_path(name): vars(found) for name, found in self.replaced.items()}
        return {"num_bytes": self.num_bytes, "replaced": replaced}

    @classmethod
    def from_json(cls, content: Any) -> ReadingRecord:
        """Return the record that `as_json` describes.

        Raises:
            ValueError: If `content` does not have this form.
        """
        try:
            replaced = {name: Replaced(**found) for name, found in content["replaced"].items()}
            record = cls(content["num_bytes"], replaced)
            numbers = [record.num_bytes]
            for found in replaced.values():
                numbers += [found.sequences, found.num_bytes]
                numbers += [] if isinstance(found.first, str) else [found.first]
            if any(type(number) is not int or number < 0 for number in numbers):
                raise InputTypeError(f"numbers must be non-negative ints, got {numbers}")
            return record
        except (AttributeError, KeyError, TypeError) as error:
            raise InputError(f"not a record of reading: {short_reason(error)}") from None

    def warn(self) -> None:
        """Warn if sequences were replaced."""
        if self.replaced:
            warn(self._replaced_message())

    def _replaced_message(self) -> str:
        name, most = max(self.replaced.items(), key=lambda item: item[1].num_bytes)
        first = f"at offset {most.first:,}" if isinstance(most.first, int) else most.first
        total = sum(found.sequences for found in self.replaced.values())
        num_bytes = sum(found.num_bytes for found in self.replaced.values())
        others = len(self.replaced) - 1
        message = (
            f"the text is not all UTF-8: {counted(total, 'invalid sequence')} "
            f"({_share(num_bytes, self.num_bytes)} of the text) {'was' if total == 1 else 'were'} "
            "read as U+FFFD; the first"
            f"{f' in {name}' if name else ''} is {first}"
        )
        if others:
            message += f"; {others:,} other file{'s are' if others > 1 else ' is'} affected"
        return f"{message}; convert text in other encodings to UTF-8 first, for example with iconv"


def _named(row: str | int | None) -> str | None:
    return f"text {row:,}" if isinstance(row, int) else row


def _share(part: int, whole: int) -> str:
    """Format a share as a percentage. Only exact values are shown as 0% or 100%."""
    percent = 100 * part / max(whole, 1)
    if 0 < percent < 0.01:
        return "less than 0.01%"
    if 99.99 < percent < 100:
        return "more than 99.99%"
    return f"{percent:.2f}%"
