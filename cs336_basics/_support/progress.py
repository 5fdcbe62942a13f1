"""Progress bars that cost nothing when hidden."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cs336_basics._support.arguments import checked_bool
from cs336_basics._support.visible import without_controls

if TYPE_CHECKING:
    from tqdm import tqdm


class HiddenBar:
    """A progress bar that is never shown.

    Importing `tqdm` takes as long as encoding a few megabytes, and a disabled bar still imports
    `multiprocessing` for its lock.
    """

    disable = True
    n: float = 0

    def update(self, n: float) -> None:
        self.n += n

    def __enter__(self) -> HiddenBar:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def checked_progress(progress: bool) -> bool:
    """Check a bool. If bars appear, import all of `tqdm`, so that no clock counts these imports."""
    if checked_bool("progress", progress) and _is_terminal():
        from tqdm import tqdm

        tqdm.get_lock()  # type: ignore[no-untyped-call]
    return progress


def progress_bar(show: bool, **options: Any) -> tqdm[Any] | HiddenBar:
    """Return a `tqdm` bar that appears only on a terminal, or a hidden bar if `show` is false."""
    if not checked_bool("progress", show) or not _is_terminal():
        return HiddenBar()
    from tqdm import tqdm

    return tqdm(**options)


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def byte_bar(show: bool, total: int, desc: str) -> tqdm[Any] | HiddenBar:
    """Return a progress bar that counts bytes; see `progress_bar`. `desc` may name a file."""
    return progress_bar(show, total=total, desc=without_controls(desc), unit="B", unit_scale=True)


def title_of(files: Sequence[str]) -> str:
    """Return a progress bar's title: the name of a single file, or the number of files."""
    return os.path.basename(files[0]) if len(files) == 1 else f"{len(files):,} files"
