"""The stages of the trainer, measured: all of these programs need the compiled ones."""

import sys

from benchmarks import BUILD_FIRST, IS_BUILT

if not IS_BUILT and "pytest" not in sys.modules:  # conftest.py says so to pytest
    sys.exit(f"benchmarks: {BUILD_FIRST}")
