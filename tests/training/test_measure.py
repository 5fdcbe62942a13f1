"""Measuring a few training steps in a separate process."""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from cs336_basics.model import ModelConfig
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.measure import measure_steps, take_steps
from cs336_basics.training.memory import step_memory
from cs336_basics.training.optimizers import AdamWSettings
from tests.errors import rejects
from tests.training.tiny_runs import changed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report the peak")
@pytest.mark.parametrize(
    "values",
    [
        pytest.param(
            {
                "loss_chunks": 4,
                "optimizer": AdamWSettings(fused=True),
                "batch_size": 1,
                "model": ModelConfig(context_length=64),
            },
            id="short",
        ),
        pytest.param({}, id="readable"),
        pytest.param({"compile": True, "loss_chunks": 4}, id="compiled"),
        pytest.param({"checkpoint_activations": True}, id="recompute"),
    ],
)
def test_the_tensors_are_a_large_part_of_the_peak_of_a_run(values):
    tiny = changed(device="cpu")  # its peak is the memory of Python and torch
    config = TrainConfig(device="cpu", **{"batch_size": 2, **values})
    # One process suffices, because the peak of a process only grows.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        (base, _), (peak, tokens_per_second) = pool.map(take_steps, [tiny, config])
    assert tokens_per_second > 0
    tensors = step_memory(config).total
    assert tensors < peak
    assert tensors - step_memory(tiny).total > 0.6 * (peak - base)


def test_steps_are_taken_in_a_new_process():
    peak, tokens_per_second = measure_steps(changed(device="cpu"))
    assert peak > 50_000_000 or sys.platform == "win32"
    assert tokens_per_second > 0


def test_steps_that_fail_are_an_error():
    with rejects("device", "cuda:99"):
        measure_steps(changed(device="cuda:99"))
