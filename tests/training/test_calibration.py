"""The search of a calibration with a simulated clock, and a real calibration of a tiny model."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import cs336_basics.training.calibration as calibration_module
from cs336_basics.model import ModelConfig
from cs336_basics.training.calibration import (
    Calibration,
    Candidate,
    Candidates,
    Choice,
    Timing,
    Workload,
    calibrate,
    sequences_to_time,
)
from cs336_basics.training.config import TrainConfig

CPU = torch.device("cpu")
TINY = ModelConfig(vocab_size=50, context_length=12, d_model=16, num_layers=2, num_heads=2, d_ff=24)
CONFIG = TrainConfig(model=TINY, batch_size=4)
ALL = Candidates(
    attention=("sdpa", "blocked", "reference"),
    loss_chunks=(4, 2, 8),
    precision=("float32", "bfloat16"),
    compiled=(True, False),
)
SPEED = {"sdpa": 5.0, "blocked": 4.0, "reference": 6.0, 4: 3.0, 2: 2.0, 8: 4.0}


class FakeMachine:
    """A clock that only the runs of candidates advance, by the `cost` of each."""

    def __init__(self, cost, setup=0.0):
        self.now = 0.0
        self.cost = cost
        self.setup = setup
        self.runs = []

    def clock(self):
        return self.now

    def prepare(self, candidate):
        seconds = self.cost(candidate)
        self.now += self.setup

        def run():
            self.runs.append(candidate)
            self.now += seconds

        return run

    def calibrate(self, candidates):
        return calibrate(CONFIG, CPU, candidates, clock=self.clock, prepare=self.prepare)


def cost(candidate):
    seconds = SPEED[candidate.choice]
    if candidate.precision == "bfloat16":
        seconds /= 2
    return seconds / 10 if candidate.compiled else seconds / 5


def test_search_finds_the_fastest_combination():
    found = FakeMachine(cost).calibrate(ALL)
    assert found.choose(num_layers=2, passes=1000) == Choice("blocked", 2, "bfloat16", True)
    assert found.seconds("bfloat16", True, num_layers=2) == pytest.approx(2 * 0.2 + 0.1)
    assert found.sequences == 4


def test_search_chooses_float32_where_bfloat16_is_slower():
    machine = FakeMachine(lambda c: cost(c) * (8 if c.precision == "bfloat16" else 1))
    assert machine.calibrate(ALL).choose(2, 1000).precision == "float32"


def test_search_chooses_uncompiled_code_where_it_is_faster():
    machine = FakeMachine(lambda c: cost(c) * (8 if c.compiled else 1))
    assert not machine.calibrate(ALL).choose(2, 1000).compiled


def test_compilation_must_pay_within_the_run():
    found = FakeMachine(cost, setup=3.0).calibrate(ALL)
    saved = found.seconds("bfloat16", False, 2) - found.seconds("bfloat16", True, 2)
    pays_after = found.setup_seconds("bfloat16", 2) / saved
    assert found.choose(2, pays_after * 1.01).compiled
    assert not found.choose(2, pays_after * 0.99).compiled


def test_candidates_of_a_group_run_alternately():
    machine = FakeMachine(cost)
    machine.calibrate(dataclasses.replace(ALL, precision=("float32",), compiled=(False,)))
    kinds = [run.choice for run in machine.runs if run.part == "block"]
    assert len(kinds) == 3 * 5  # once to prepare and in four rounds
    assert kinds[3:] == ["sdpa", "blocked", "reference"] * 4


def test_the_median_of_the_times_decides():
    machine = FakeMachine(cost)
    only = Candidates(("sdpa",), (4,), ("float32",), (False,))
    slow_runs = iter([9.0, 1.0, 1.0, 80.0, 1.0, 9.0, 1.0, 1.0, 80.0, 1.0])
    machine.prepare = lambda candidate: (
        lambda: setattr(machine, "now", machine.now + next(slow_runs))
    )
    found = machine.calibrate(only)
    assert [timing.seconds for timing in found.timings] == [1.0, 1.0]
    assert [timing.setup_seconds for timing in found.timings] == [9.0, 9.0]


def test_failing_candidates_are_omitted():
    def fails(candidate):
        if candidate.choice == "blocked" or candidate.choice == 2:
            raise RuntimeError("not enough memory")
        return cost(candidate)

    assert FakeMachine(fails).calibrate(ALL).choose(2, 1000) == Choice("sdpa", 4, "bfloat16", True)


def test_without_a_working_compiler_everything_is_searched_uncompiled():
    def fails(candidate):
        if candidate.compiled:
            raise RuntimeError("g++ failed")
        return cost(candidate)

    compiled_only = dataclasses.replace(ALL, compiled=(True,))
    for candidates in (ALL, compiled_only):
        found = FakeMachine(fails).calibrate(candidates)
        assert found.choose(2, 1000) == Choice("blocked", 2, "bfloat16", False)


def test_nothing_is_prepared_after_the_time_is_up(monkeypatch):
    monkeypatch.setattr(calibration_module, "_BUDGET", 45.0)
    machine = FakeMachine(cost, setup=20.0)
    float32 = dataclasses.replace(ALL, precision=("float32",))
    found = machine.calibrate(float32)
    # Three kinds of loss fit; after that each group gets the one candidate that it needs.
    compiled = [t.candidate.choice for t in found.timings if t.candidate.compiled]
    uncompiled = [t.candidate.choice for t in found.timings if not t.candidate.compiled]
    assert (compiled, uncompiled) == (["sdpa", 2], [4, 2, 8, "sdpa"])
    assert found.choose(2, 1e6) == Choice("sdpa", 2, "float32", True)


def test_calibration_without_a_complete_step_is_refused():
    block = Candidate("block", "sdpa", "float32", False)
    with pytest.raises(ValueError, match="no complete step"):
        Calibration(1, (Timing(block, 1.0, 1.0),)).choose(2, 1)
    with pytest.raises(ValueError, match="no complete step"):
        Calibration(1, ()).choose(2, 1)


def test_large_batches_are_cut_down():
    assert sequences_to_time(CONFIG) == 4
    assert sequences_to_time(dataclasses.replace(CONFIG, accumulation=2)) == 2
    course = TrainConfig(model=ModelConfig(), batch_size=64)
    assert 8 <= sequences_to_time(course) < 64
    huge = ModelConfig(vocab_size=100_000, d_model=4096, d_ff=11_008, context_length=4096)
    assert sequences_to_time(TrainConfig(model=huge, batch_size=64)) == 1


@pytest.mark.parametrize("tied", [False, True])
def test_a_real_calibration_times_every_candidate_and_restores_the_state(tied):
    config = dataclasses.replace(
        CONFIG, model=dataclasses.replace(TINY, tied_embeddings=tied, qk_norm=True), num_workers=1
    )
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    candidates = dataclasses.replace(ALL, loss_chunks=(1, 2, 4), compiled=(False,))
    found = calibrate(config, CPU, candidates)
    assert (torch.get_num_threads(), torch.get_rng_state().tolist()) == (threads, state.tolist())
    assert not torch.are_deterministic_algorithms_enabled()
    assert all(0 < timing.seconds < 60 for timing in found.timings)
    choice = found.choose(2, 10)
    assert choice.attention in ALL.attention
    timed = {t.candidate.choice for t in found.timings if t.candidate.precision == choice.precision}
    assert timed == {"sdpa", "blocked", "reference", 1, 2, 4}


def test_a_run_of_the_workload_leaves_no_gradients():
    workload = Workload(CONFIG, CPU, 2)
    for part, choice in (("block", "blocked"), ("loss", 2)):
        run = workload.prepare(Candidate(part, choice, "float32", False))
        run()
        run()  # gradients of the first would add up, or a freed graph would fail


@pytest.mark.slow
def test_a_real_calibration_compiles():
    found = calibrate(CONFIG, CPU, Candidates(("blocked",), (2,), ("float32",), (True, False)))
    assert {timing.candidate.compiled for timing in found.timings} == {True, False}
