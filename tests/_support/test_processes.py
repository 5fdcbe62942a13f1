"""Worker processes end with their parents."""

import os
import signal

import pytest

from tests.processes import run_python

KILLED_PARENT = """
import os
from cs336_basics.execution.parallel import map_ordered
next(map_ordered(os.getpid, ((),) * 100, 2))
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_workers_end_when_their_parent_is_killed():
    # The workers share the parent's standard output, so this call returns only when they end.
    assert run_python(KILLED_PARENT, check=False).returncode == -signal.SIGKILL
