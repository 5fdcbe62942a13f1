"""Benchmarks of this checkout. Most of them need its compiled extensions."""

from importlib.machinery import PathFinder
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "cs336_basics" / "pretokenization"

# Checked without importing the package, because some programs measure the memory of other
# libraries.
IS_BUILT = PathFinder.find_spec("_scanner", [str(_FOLDER)]) is not None
BUILD_FIRST = "extensions are not built; run python setup.py build_ext --inplace"
