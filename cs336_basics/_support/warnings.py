"""warn: warnings that name the line of the program that called the library.

Many functions lead to one warning, at different depths, so that no fixed `stacklevel` fits.
"""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


def warn(message: str) -> None:
    """Raise a UserWarning at the line that called the package, from whatever depth within it.

    `warnings.warn` has `skip_file_prefixes` for this, from Python 3.12 on.
    """
    frame, level = sys._getframe(1), 2
    # By the name of the module: the methods that dataclasses generate are in no file.
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
