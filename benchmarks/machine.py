"""The description of a machine that every figure needs, and the peak memory of a process."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[1]


def machine_info():
    from cs336_basics.pretokenization.counting.parallel import resolve_num_workers

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


def peak_memory_of_this_process():
    """Peak resident memory in bytes."""
    try:
        # VmHWM, not ru_maxrss: on Linux that one begins with the memory of the process that forked.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def peak_memory(code):
    """Run Python code in a new process; return its peak resident memory in bytes.

    Worker processes that it starts are not included.
    """
    code += (
        "\nfrom machine import peak_memory_of_this_process\nprint(peak_memory_of_this_process())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])},
    )
    return int(run.stdout.splitlines()[-1])
