"""What a figure must say about where it was measured, and the peak memory of a whole process."""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cs336_basics.pretokenization.parallel import resolve_num_workers

ROOT = Path(__file__).parents[1]


def machine_info():
    info = {
        "cpu": cpu_model(),
        "cores": resolve_num_workers(None),
        "python": platform.python_version(),
    }
    for package in ("numpy", "torch", "regex", "tiktoken", "tokenizers"):
        try:
            info[package] = version(package)
        except PackageNotFoundError:
            info[package] = "not installed"
    return info


def cpu_model():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


# VmHWM, not ru_maxrss: on Linux the latter begins with the memory of the process that forked.
_MEASURE = """
import json, sys
{code}
peak = 0
try:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                peak = int(line.split()[1]) * 1024
except OSError:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
print(json.dumps(peak))
"""


def peak_memory(code):
    """Run Python code in a process of its own; return its peak resident memory in bytes.

    Worker processes that it starts are not included.
    """
    run = subprocess.run(
        [sys.executable, "-c", _MEASURE.format(code=code)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return int(json.loads(run.stdout.splitlines()[-1]))
