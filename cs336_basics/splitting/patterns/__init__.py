"""Split patterns: names, syntax and compiled tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import LazyModule

if TYPE_CHECKING:
    from cs336_basics.splitting.patterns import split_program
else:  # Compiles patterns. The named patterns are compiled already, in `named_programs.hpp`.
    split_program = LazyModule("cs336_basics.splitting.patterns.split_program")
