"""Ray clusters on this machine, for the tests."""

from __future__ import annotations

import contextlib
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.processes import wait

# By default, Ray takes 15 s to notice that a machine is gone.
QUICK_HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
}


@contextlib.contextmanager
def cluster_of(num_nodes):
    """Start a cluster with a head node without CPUs and nodes with one CPU each, and yield it."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

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


@contextlib.contextmanager
def a_worker_killed(function):
    """Kill a worker process that runs `function` while the body of the `with` statement runs."""
    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(wait, lambda: _kill_worker(function))
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
