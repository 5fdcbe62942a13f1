"""Measuring a few training steps in a separate process."""

from __future__ import annotations

import pytest

from cs336_basics.training.measure import measure_steps
from tests.training.tiny_runs import changed


def test_a_few_steps_are_measured():
    peak, tokens_per_second = measure_steps(changed())
    assert peak == 0 or peak > 50_000_000  # Python with torch
    assert tokens_per_second > 0


def test_steps_that_fail_are_an_error():
    with pytest.raises(RuntimeError, match="cuda:99"):
        measure_steps(changed(device="cuda:99"))
