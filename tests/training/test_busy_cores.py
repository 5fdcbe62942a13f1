"""A warning says when torch's threads wait actively for cores that other programs use."""

import warnings

import pytest
import torch

from cs336_basics.training import busy_cores


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that sets the number of runnable threads on a machine with 4 cores."""
    path = tmp_path / "loadavg"
    monkeypatch.setattr(busy_cores, "_LOAD", path)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    return lambda runnable: path.write_text(f"0.50 0.40 0.30 {runnable}/200 4000\n")


def test_a_busy_core_is_a_warning_with_the_remedy(load):
    load(2)
    with pytest.warns(UserWarning, match="OMP_WAIT_POLICY=passive"):
        busy_cores.warn_if_threads_spin()


def test_there_is_no_warning_on_an_idle_machine_or_when_threads_sleep(load, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        busy_cores.warn_if_threads_spin()  # no /proc, as on macOS and Windows
        load(1)
        busy_cores.warn_if_threads_spin()
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
        load(4)
        busy_cores.warn_if_threads_spin()
        monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
        load(9)
        busy_cores.warn_if_threads_spin()
