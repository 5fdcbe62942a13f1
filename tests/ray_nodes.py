"""Ray clusters on this machine, for the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# By default, Ray takes 15 s to notice that a machine is gone.
QUICK_HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
}


def python_path():
    """Return a PYTHONPATH with which workers can import the package even if it is not installed."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


@contextlib.contextmanager
def cluster_of(num_nodes, monkeypatch):
    """Start a cluster with a head node without CPUs and nodes with one CPU each, and yield it."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", python_path())
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "_system_config": QUICK_HEALTH_CHECKS},
    )
    try:
        for _ in range(num_nodes):
            cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()


def wait_until(condition, seconds=60):
    """Wait until `condition()` is true, and return its value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise TimeoutError(f"{condition} is still false after {seconds} s")


@contextlib.contextmanager
def a_worker_killed(function):
    """Kill a worker process that runs `function` while the body of the `with` statement runs."""
    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(wait_until, lambda: _kill_worker(function))
        yield
        killed.result()


def _kill_worker(function):
    psutil = pytest.importorskip("psutil")
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if f"ray::{function}" in " ".join(process.cmdline()):
                process.send_signal(signal.SIGKILL)
                return True
    return False
