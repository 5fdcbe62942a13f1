"""Progress bars that cost nothing where nobody asked for one."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm


class HiddenBar:
    """What the library needs of a bar, for one that is never shown.

    (A `tqdm` that is disabled still makes its lock, for which it imports `multiprocessing`: 5 to 8
    milliseconds of a first call.)
    """

    disable = True
    n: float = 0

    def update(self, n: float) -> None:
        self.n += n

    def __enter__(self) -> HiddenBar:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def progress_bar(show: bool, **options: Any) -> tqdm[Any] | HiddenBar:
    """Return a bar of `tqdm` with these options, on a terminal only; a hidden one unless `show`."""
    return tqdm(**options, disable=None) if show else HiddenBar()


def byte_bar(show: bool, total: int, desc: str) -> tqdm[Any] | HiddenBar:
    """Return a bar that counts bytes."""
    return progress_bar(show, total=total, desc=desc, unit="B", unit_scale=True)
