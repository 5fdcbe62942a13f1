"""Benchmarks of the checkout that they are in: most need its extensions."""

from importlib.machinery import PathFinder
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "cs336_basics" / "pretokenization"

# Found without an import: some programs here measure the memory of other libraries.
IS_BUILT = PathFinder.find_spec("_scanner", [str(_FOLDER)]) is not None
BUILD_FIRST = "the extensions of this checkout are not built: python setup.py build_ext --inplace"
