"""Hold out the end of a corpus for validation, at a document boundary if there is one.

At most one file is split, and its two parts are written to new files. All other files are used in
place.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_names
from cs336_basics._support.paths import printable_path
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.data.preparation_record import Stages
from cs336_basics.splitting.patterns.split_sequences import NO_SPLIT
from cs336_basics.splitting.safe_cuts import SafeCuts
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.sources import DivisibleSource, Source

_BLOCK = 1 << 20
_MOST_NAMED = 3


@dataclass(frozen=True)
class Window:
    """The range of offsets where a sequence may be cut, and the preferred offset, `target`.

    Offsets count bytes or tokens.
    """

    earliest: int
    target: int
    latest: int

    @classmethod
    def of(cls, size: int, fraction: float) -> Window:
        """Return the window of cuts that keep between half and twice `fraction` for validation."""
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


class Division(NamedTuple):
    """A corpus divided into a part for training and a part for validation."""

    train: Corpus
    valid: Corpus
    held_out: str
    """The validation part in words, such as `the end of a.txt`."""


class IndivisibleError(InputError):
    """A corpus that cannot be divided."""


def hold_out(
    corpus: Corpus, fraction: float, directory: Path, stages: Stages, name: str = "text"
) -> Division:
    """Split off the last documents of a corpus as a validation corpus.

    The validation corpus contains about `fraction` of the stored bytes. The cut is between two
    files if such a cut holds out between half and twice `fraction`. Otherwise, it is within a file.
    A file with rows is cut between two rows. Plain text is cut after an end-of-text token, or
    between two words if no such token is near.

    Args:
        corpus: The text.
        fraction: Fraction to hold out, between 0 and 1.
        directory: Directory for the two parts of the file that is cut: train.txt and valid.txt for
            plain text, train.jsonl and valid.jsonl for a file with rows. The parts are not
            compressed, and contain only the text of the rows.
        stages: Record of the finished stages.
        name: Name of the stage that cuts a file.

    Raises:
        IndivisibleError: If the corpus cannot be cut. It is a subclass of ValueError.
        ValueError: If the file to cut is damaged.
    """
    sources = corpus.sources
    sizes = [source.num_bytes for source in sources]
    window = Window.of(sum(sizes), fraction)
    ends = list(itertools.accumulate(sizes))
    near = [i for i in range(1, len(sizes)) if window.earliest <= ends[i - 1] <= window.latest]
    if near:
        cut = min(near, key=lambda i: abs(ends[i - 1] - window.target))
        held_out = names_of([source.path for source in sources[cut:]])
        return Division(
            Corpus.of_sources(sources[:cut]), Corpus.of_sources(sources[cut:]), held_out
        )

    index = next(index for index, end in enumerate(ends) if end >= window.target)
    source, before, after = sources[index], sources[:index], sources[index + 1 :]
    window = window.within(ends[index] - sizes[index], sizes[index])
    parts = train, valid = tuple(
        directory / f"{name}{source.copy_ending}" for name in ("train", "valid")
    )
    divided = _DividedFile(source, fraction, window, bool(before), bool(after))
    inputs = {
        "sha256": stages.sha256_of(source.path),
        "window": [window.earliest, window.target, window.latest],
        **source.settings(),
    }
    directory.mkdir(parents=True, exist_ok=True)
    stages.run(name, inputs, parts, lambda: divided.write(train, valid))
    held_out = f"the end of {names_of([source.path])}"
    if after:
        held_out += f", and {names_of([other.path for other in after])}"
    return Division(
        Corpus.of_sources([*before, source.copy_at(str(train))]),
        Corpus.of_sources([source.copy_at(str(valid)), *after]),
        held_out,
    )


def names_of(files: Sequence[str]) -> str:
    """Return the names of files as words. Of many files, only the first are named."""
    names = list(map(printable_path, files))
    if len(names) > _MOST_NAMED + 1:
        return f"{short_names(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED:,} more files"
    return short_names(names)


@dataclass(frozen=True)
class _DividedFile:
    """The file to cut, and the window of the cut in stored bytes."""

    source: Source
    fraction: float
    """Fraction of the whole corpus to hold out."""
    window: Window
    has_before: bool
    """Whether earlier files contain training text."""
    has_after: bool
    """Whether later files contain validation text."""

    def write(self, train: Path, valid: Path) -> None:
        """Write the two parts: all documents to the first one, whose end is then moved."""
        with atomic_writer(train, "w+b") as file:
            self.source.write_copy(file, SafeCuts())
            size = file.tell()
            cut = self._cut_in(file, self.source.copy_at(str(train)), size)
            file.seek(cut)
            with atomic_writer(valid) as rest:
                shutil.copyfileobj(file, rest, _BLOCK)
            file.truncate(cut)

    def _cut_in(self, file: IO[bytes], source: DivisibleSource, size: int) -> int:
        """Return an offset that leaves text on both sides, in a copy of `size` bytes."""
        if self.has_before or self.has_after:
            window = self.window.scaled(self.source.num_bytes, size)
        else:
            window = Window.of(size, self.fraction)
        for cut in itertools.chain(_cuts_near(file, source, window, size), (0, size)):
            if (cut > 0 or self.has_before) and (cut < size or self.has_after):
                return cut
        raise IndivisibleError(
            f"the file cannot be cut to hold out {self.fraction:.0%} for validation",
            place=self.source.path,
            remedy=("set ", Argument("data.valid_path")),
        )


def _cuts_near(
    file: IO[bytes], source: DivisibleSource, window: Window, size: int
) -> Iterator[int]:
    """Yield offsets where a file can be cut, the best one first.

    They are within the window if possible. Otherwise, they follow its start, or are before it.
    """
    # The first pattern never splits, so it allows cuts only after end-of-text tokens. The second
    # pattern allows cuts between words, but never inside such a token.
    for cuts in (SafeCuts([END_OF_TEXT], NO_SPLIT), SafeCuts()):
        for start in (window.target, window.earliest):
            with contextlib.suppress(InputError):  # no such cut within the limit
                cut = source.boundary(file, max(1, start), cuts)
                if cut <= window.latest and cut < size:
                    yield cut
    start = window.earliest
    while start:
        cut = source.boundary(file, start, SafeCuts())
        if cut < size:
            yield cut
        start //= 2
