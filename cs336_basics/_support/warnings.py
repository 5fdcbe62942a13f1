"""warn: warnings that name the line of the program that called the library.

A fixed `stacklevel` does not work, because callers reach a warning at different depths.
"""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


def warn(message: str) -> None:
    """Issue a UserWarning at the line that called the package.

    From Python 3.12 on, `warnings.warn` has `skip_file_prefixes` for this.
    """
    frame, level = sys._getframe(1), 2
    # Compare module names: methods that dataclasses generate are in no file.
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
