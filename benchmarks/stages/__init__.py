"""Benchmarks of the trainers. All of them need the compiled trainers."""

import sys

from benchmarks import BUILD_FIRST, IS_BUILT

if not IS_BUILT and "pytest" not in sys.modules:  # conftest.py reports this to pytest
    sys.exit(f"benchmarks: {BUILD_FIRST}")
