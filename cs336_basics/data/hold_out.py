"""Hold out the end of a corpus for validation, at a document boundary if there is one.

At most one file is split, and its two parts are written to new files. All other files are used in
place.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.data.preparation_record import Stages
from cs336_basics.splitting.safe_cuts import SafeCuts
from cs336_basics.text.arrow import TableFile
from cs336_basics.text.chunking import next_cut
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.csv_rows import column_texts
from cs336_basics.text.readers import next_line
from cs336_basics.text.storage import (
    decompressed_blocks,
    is_compressed,
    open_path,
)

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Window:
    """The range of offsets where a sequence may be cut, and the preferred offset, `target`.

    Offsets count bytes, rows or tokens.
    """

    earliest: int
    target: int
    latest: int

    @classmethod
    def of(cls, size: int, fraction: float) -> Window:
        """Return the window of cuts that hold out between half and twice `fraction`."""
        shares = (1 - 2 * fraction, 1 - fraction, 1 - fraction / 2)
        return cls(*(max(1, round(size * share)) for share in shares))

    def within(self, start: int, size: int) -> Window:
        """Return the window relative to a file of `size` that starts at `start`."""
        offsets = (self.earliest, self.target, self.latest)
        return Window(*(min(max(0, offset - start), size) for offset in offsets))

    def scaled(self, size: int, new_size: int) -> Window:
        """Scale the window from a sequence of length `size` to a sequence of length `new_size`."""
        offsets = (self.earliest, self.target, self.latest)
        return Window(*(offset * new_size // max(size, 1) for offset in offsets))


def hold_out(
    corpus: Corpus, fraction: float, directory: Path, stages: Stages
) -> tuple[Corpus, Corpus]:
    """Split off the last documents of a corpus as a validation corpus.

    The validation corpus contains about `fraction` of the stored bytes. The cut is between two
    files if such a cut holds out between half and twice `fraction`. Otherwise, it is within a file.
    A file with rows is cut between two rows. Plain text is cut after an end-of-text token, or
    between two words if no such token is near.

    Args:
        corpus: The text.
        fraction: Fraction to hold out, between 0 and 1.
        directory: Directory for the two parts of the file that is cut. The parts are named train
            and valid, with the extension .txt, .jsonl, .csv or .parquet.
        stages: Record of the finished stages.

    Returns:
        The training corpus and the validation corpus.

    Raises:
        ValueError: If the corpus cannot be cut, or the file to cut is damaged.
    """
    sizes, files = corpus.sizes, corpus.files
    window = Window.of(sum(sizes), fraction)
    ends = list(itertools.accumulate(sizes))
    near = [i for i in range(1, len(files)) if window.earliest <= ends[i - 1] <= window.latest]
    if near:
        cut = min(near, key=lambda i: abs(ends[i - 1] - window.target))
        return corpus.only(files[:cut]), corpus.only(files[cut:])

    index = next(index for index, end in enumerate(ends) if end >= window.target)
    file, size = files[index], sizes[index]
    divided = _DividedFile(
        corpus.only([file]),
        fraction,
        window.within(ends[index] - size, size),
        has_before=index > 0,
        has_after=index + 1 < len(files),
    )
    kind = corpus.kinds[index]
    ending = {"text": "txt", "jsonl": "jsonl", "csv": "csv"}.get(kind, "parquet")
    parts = train, valid = directory / f"train.{ending}", directory / f"valid.{ending}"
    window = divided.window
    inputs = {
        "source": stages.sha256_of(file),
        "window": [window.earliest, window.target, window.latest],
        "column": corpus.column,
    }
    directory.mkdir(parents=True, exist_ok=True)
    divisions = {"parquet": divided.divide_table, "csv": divided.divide_csv}
    divide = divisions.get(ending, divided.divide_text)
    stages.run("text", inputs, parts, lambda: divide(train, valid))
    before, after = files[:index], files[index + 1 :]
    return corpus.only([*before, str(train)]), corpus.only([str(valid), *after])


@dataclass(frozen=True)
class _DividedFile:
    """The file to cut, as a corpus of its own, and the window of the cut in stored bytes."""

    corpus: Corpus
    fraction: float
    """Fraction of the whole corpus to hold out."""
    window: Window
    has_before: bool
    """Whether earlier files contain training text."""
    has_after: bool
    """Whether later files contain validation text."""

    def divide_text(self, train: Path, valid: Path) -> None:
        """Write the two parts of plain text or JSON Lines, uncompressed."""
        name = self.corpus.files[0]
        with open_path(name) as file, atomic_writer(train, "w+b") as out:
            if is_compressed(name):
                for block in decompressed_blocks(file, name, _BLOCK):
                    out.write(block)
            else:
                shutil.copyfileobj(file, out, _BLOCK)
            size = out.tell()
            if self.has_before or self.has_after:
                window = self.window.scaled(self.corpus.sizes[0], size)
            else:  # cut where the uncompressed file would be cut
                window = Window.of(size, self.fraction)
            out.seek(self._cut_in(out, window, size))
            cut = out.tell()
            with atomic_writer(valid) as rest:
                shutil.copyfileobj(out, rest, _BLOCK)
            out.truncate(cut)

    def _cut_in(self, file: IO[bytes], window: Window, size: int) -> int:
        """Return the byte offset of the cut in plain text or JSON Lines of `size` bytes."""
        if self.corpus.kinds[0] == "text":
            cut = cut_near(file, window, size)
            return self._checked([] if cut is None else [cut], size)
        end = _end_of_content(file, size)
        return self._checked(_lines_near(file, window.target, end), end)

    def divide_csv(self, train: Path, valid: Path) -> None:
        """Write the two parts of a CSV file, keeping only the text column."""
        cut = self._row_cut(sum(1 for _ in self._csv_texts()))
        texts = self._csv_texts()
        for path, part in ((train, itertools.islice(texts, cut)), (valid, texts)):
            with atomic_writer(path) as file:
                text = io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="")
                writer = csv.writer(text, quoting=csv.QUOTE_ALL)
                writer.writerow([self.corpus.column])
                writer.writerows([row] for row in part)
                text.detach()

    def _csv_texts(self) -> Iterator[str]:
        name, column = self.corpus.files[0], self.corpus.column
        assert column is not None
        with open_path(name) as file:
            for _, row in column_texts(file, name, column, self.corpus.max_piece_bytes):
                yield row if isinstance(row, str) else row.decode("utf-8", "surrogateescape")

    def divide_table(self, train: Path, valid: Path) -> None:
        """Write the two parts of a table as Parquet files, keeping only the text column."""
        import pyarrow.parquet as parquet

        cut = self._row_cut(sum(batch.num_rows for batch in self._batches()))
        row, batches = 0, self._batches()
        schema = next(batches).schema
        with (
            atomic_writer(train) as first,
            atomic_writer(valid) as second,
            parquet.ParquetWriter(first, schema) as before,
            parquet.ParquetWriter(second, schema) as after,
        ):
            for batch in batches:
                at = min(max(cut - row, 0), batch.num_rows)
                row += batch.num_rows
                for writer, part in ((before, batch.slice(0, at)), (after, batch.slice(at))):
                    if part.num_rows:
                        writer.write_batch(part)

    def _batches(self) -> Iterator[Any]:
        """Yield an empty table, which has the schema even if there are no rows, and the batches."""
        import pyarrow

        name, column = self.corpus.files[0], self.corpus.column
        assert column is not None
        with open_path(name) as file:
            table = TableFile(file, name, self.corpus.kinds[0])
            yield pyarrow.schema([table.schema.field(column)]).empty_table()
            yield from table.batches(column)

    def _row_cut(self, num_rows: int) -> int:
        """Return the number of rows to train on."""
        target = self.window.scaled(self.corpus.sizes[0], num_rows).target
        return self._checked([max(0, min(max(target, 1), num_rows - 1)), target], num_rows)

    def _checked(self, cuts: list[int], end: int) -> int:
        """Return the first of `cuts`, 0 and `end` that leaves text on both sides."""
        for cut in (*cuts, 0, end):
            if (cut > 0 or self.has_before) and (cut < end or self.has_after):
                return cut
        raise InputError(
            f"{self.corpus.files[0]}: the file cannot be cut to hold out {self.fraction:.0%} for "
            "validation; set data.valid_path"
        )


def cut_near(file: IO[bytes], window: Window, size: int) -> int | None:
    """Return an offset where a text can be cut, or None if there is no such offset.

    The offset is within the window if possible. If the text has few word boundaries, the offset may
    be past the end of the window.
    """
    # The first pattern never splits, so it allows cuts only after end-of-text tokens. The second
    # pattern allows cuts between words, but never inside such a token.
    for cuts in (SafeCuts([END_OF_TEXT], r"[\s\S]+"), SafeCuts()):
        for start in (window.target, window.earliest):
            with contextlib.suppress(ValueError):  # no such cut within 64 MB
                cut = next_cut(file, max(1, start), cuts)
                if cut <= window.latest and cut < size:
                    return cut
    cut = next_cut(file, max(1, window.earliest), SafeCuts())
    return cut if cut < size else None


def _lines_near(file: IO[bytes], target: int, end: int) -> list[int]:
    """Return the starts of the lines before and after `target`, the nearer one first.

    Starts at or after `end` are excluded.
    """
    offset = min(max(target, 1), end)
    found = [next_line(file, offset, end)]
    offset -= 1
    while offset > 0:
        start = max(0, offset - _BLOCK)
        file.seek(start)
        index = file.read(offset - start).rfind(b"\n")
        if index >= 0:
            found.append(start + index + 1)
            break
        offset = start
    else:
        found.append(0)
    inside = [cut for cut in found if cut < end]
    return sorted(inside, key=lambda cut: abs(cut - target))


def _end_of_content(file: IO[bytes], size: int) -> int:
    """Return the offset after the last byte that is not whitespace."""
    while size > 0:
        start = max(0, size - _BLOCK)
        file.seek(start)
        kept = len(file.read(size - start).rstrip())
        if kept:
            return start + kept
        size = start
    return 0
