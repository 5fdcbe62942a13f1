"""`--fast auto`: what it chooses by rules, and by a calibration."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import cs336_basics.training.devices as devices
import cs336_basics.training.fast_path as fast_path
from cs336_basics.model import ModelConfig
from cs336_basics.training.calibration import Calibration, Candidate, Timing
from cs336_basics.training.config import OptimizerConfig, TrainConfig
from cs336_basics.training.fast_path import choose_fast_path

CPU = torch.device("cpu")
LONG = TrainConfig(fast="auto", model=ModelConfig(), batch_size=64, max_steps=20_000)
SHORT = dataclasses.replace(LONG, max_steps=2)
CHOSEN = {"precision", "compile", "loss_chunks", "fused_optimizer", "fast", "model"}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def machine(monkeypatch):
    """A CPU with fast bfloat16 and a compiler, on which a long run takes an hour."""
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    monkeypatch.setattr(fast_path, "product_seconds", product_times(rounded=0.002))
    monkeypatch.setattr(fast_path, "can_compile", lambda device: True)
    monkeypatch.setattr(
        fast_path, "shortest_time", lambda config, device: config.max_steps / 20_000 * 3600
    )
    return monkeypatch


def product_times(rounded):
    """Return a `product_seconds` by which a product takes four milliseconds in float32."""
    return lambda device, dtype: rounded if dtype == torch.bfloat16 else 0.004


def measured(**seconds):
    """Return a `calibrate` that reads its times from a table and records its calls."""
    calls = []
    configs = []

    def calibrate(config, device, candidates):
        calls.append(candidates)
        configs.append(config)
        timings = [
            Timing(Candidate(part, choice, precision, compiled), time, 5.0)
            for part, choices in (("block", candidates.attention), ("loss", candidates.loss_chunks))
            for choice in choices
            for precision in candidates.precision
            for compiled in candidates.compiled
            for time in [
                seconds.get(f"{part}_{choice}", 1.0)
                * (0.5 if compiled else 1.0)
                * seconds.get(precision, 1.0)
            ]
        ]
        return Calibration(16, tuple(timings))

    calibrate.calls = calls
    calibrate.configs = configs
    return calibrate


def test_calibration_decides_a_long_run(machine):
    calibrate = measured(block_blocked=0.2, loss_2=0.3, bfloat16=0.5)
    machine.setattr(fast_path, "calibrate", calibrate)
    told = []
    chosen, lines = choose_fast_path(LONG, CPU, report=told.append)
    assert told == ["calibrating for this machine and shape, which takes up to a minute"]
    assert chosen.fast == "off"
    assert (chosen.precision, chosen.compile) == ("bfloat16", True)
    assert chosen.loss_chunks == 8  # two for 16 sequences, and the batch has 64
    assert chosen.model.attention == "blocked"
    assert chosen.fused_optimizer
    assert lines[0].startswith("calibrated in ")
    assert (
        "loss_chunks 8: measured for a loss of 16 sequences: 2 75 ms, 4 250 ms, 8 250 ms" in lines
    )
    for field in dataclasses.fields(TrainConfig):
        if field.name not in CHOSEN:
            assert getattr(chosen, field.name) == getattr(LONG, field.name)


def test_calibration_is_cached_and_used_by_a_short_run(machine):
    calibrate = measured(block_reference=0.5)
    machine.setattr(fast_path, "calibrate", calibrate)
    first, _ = choose_fast_path(LONG, CPU)
    again, lines = choose_fast_path(LONG, CPU)
    assert again == first
    assert len(calibrate.calls) == 1
    assert lines[0].startswith("calibrated earlier, for this machine and shape (")
    short, _ = choose_fast_path(SHORT, CPU)
    assert short.model.attention == "reference"
    assert not short.compile  # which would take longer than the run
    assert len(calibrate.calls) == 1


def test_damaged_cache_is_reported_and_measured_again(machine):
    calibrate = measured()
    machine.setattr(fast_path, "calibrate", calibrate)
    choose_fast_path(LONG, CPU)
    fast_path.calibration_file().write_text("{")
    _, lines = choose_fast_path(LONG, CPU)
    assert len(calibrate.calls) == 2
    assert f"{fast_path.calibration_file()} is damaged: measuring again" in lines


def test_processes_calibrate_with_their_share_of_the_batch(machine):
    calibrate = measured(loss_2=0.3)
    machine.setattr(fast_path, "calibrate", calibrate)
    chosen, _ = choose_fast_path(LONG, CPU, num_processes=16)
    assert [config.batch_size for config in calibrate.configs] == [4]
    assert chosen.batch_size == 64
    assert chosen.loss_chunks == 2  # of 4 sequences, as timed
    # Another number of processes has another share, and so another calibration.
    choose_fast_path(LONG, CPU, num_processes=8)
    assert [config.batch_size for config in calibrate.configs] == [4, 8]


def test_the_memory_of_the_scores_is_that_of_all_processes(machine):
    machine.setattr(fast_path, "calibrate", measured(block_blocked=0.2))
    scores = 4 * LONG.model.num_layers * 64 * LONG.model.num_heads * LONG.model.context_length**2
    machine.setattr(fast_path, "_physical_memory", lambda: 8 * scores)
    chosen, _ = choose_fast_path(LONG, CPU, num_processes=4)
    assert chosen.model.attention == "sdpa"
    machine.setattr(fast_path, "_physical_memory", lambda: 8 * scores + 8)
    chosen, _ = choose_fast_path(LONG, CPU, num_processes=4)
    assert chosen.model.attention == "blocked"


def test_given_values_are_kept_and_no_others_are_measured(machine):
    calibrate = measured(block_blocked=0.2, bfloat16=0.5)
    machine.setattr(fast_path, "calibrate", calibrate)
    given = ["precision", "loss_chunks", "model.attention", "compile", "batch_size"]
    config = dataclasses.replace(LONG, loss_chunks=3)
    chosen, lines = choose_fast_path(config, CPU, given)
    assert (chosen.precision, chosen.loss_chunks, chosen.compile) == ("float32", 3, False)
    assert chosen.model.attention == "sdpa"
    assert "precision float32: as requested" in lines
    (candidates,) = calibrate.calls
    assert dataclasses.asdict(candidates) == {
        "attention": ("sdpa",),
        "loss_chunks": (3,),
        "precision": ("float32",),
        "compiled": (False,),
    }


def test_failed_calibration_falls_back_on_rules(machine):
    machine.setattr(fast_path, "calibrate", lambda *_: Calibration(1, ()))
    chosen, lines = choose_fast_path(LONG, CPU)
    assert lines[0] == "the calibration timed no complete step; chosen by rules"
    assert (chosen.precision, chosen.compile, chosen.loss_chunks) == ("bfloat16", True, 8)
    assert not fast_path.calibration_file().exists()


def test_incomplete_calibration_is_used_but_not_kept(machine):
    def calibrate(config, device, candidates):
        fewer = dataclasses.replace(candidates, attention=("blocked",))
        return measured()(config, device, fewer)

    machine.setattr(fast_path, "calibrate", calibrate)
    chosen, lines = choose_fast_path(LONG, CPU)
    assert chosen.model.attention == "blocked"
    assert lines[0].endswith("seconds, incompletely, so it is not kept")
    assert not fast_path.calibration_file().exists()


def test_short_run_is_not_calibrated_and_says_so(machine):
    machine.setattr(fast_path, "calibrate", None)  # a call would fail
    chosen, lines = choose_fast_path(SHORT, CPU)
    assert lines[0].startswith("not calibrated: the run may take only 0 seconds")
    assert not chosen.compile
    assert any("too short to pay for a minute of compilation" in line for line in lines)
    for word in ("precision bfloat16", "compile false", "loss_chunks 8", "fused_optimizer true"):
        assert any(line.startswith(word) for line in lines)


@pytest.mark.parametrize("rounded", [0.0035, 0.008])
def test_bfloat16_that_is_not_faster_is_not_chosen_by_rule(machine, rounded):
    machine.setattr(fast_path, "product_seconds", product_times(rounded))
    machine.setattr(fast_path, "shortest_time", lambda config, device: 0.0)
    chosen, lines = choose_fast_path(LONG, CPU)
    assert (chosen.precision, chosen.model.attention) == ("float32", "sdpa")
    assert (
        "precision float32: measured for a product of matrices: "
        f"4.0 ms in float32, {rounded * 1e3:.1f} ms in bfloat16"
    ) in lines
    requested = dataclasses.replace(LONG, precision="bfloat16")
    chosen, _ = choose_fast_path(requested, CPU, ["precision"])
    assert (chosen.precision, chosen.model.attention) == ("bfloat16", "blocked")


def test_rules_choose_only_what_the_machine_has(monkeypatch):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: False)
    monkeypatch.setattr(fast_path, "shortest_time", lambda config, device: 0.0)
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("PATH", "")
    chosen, lines = choose_fast_path(LONG, CPU)
    assert (chosen.precision, chosen.compile, chosen.model.attention) == ("float32", False, "sdpa")
    assert any("no C++ compiler" in line for line in lines)
    muon = dataclasses.replace(LONG, optimizer=OptimizerConfig(kind="muon"))
    chosen, lines = choose_fast_path(muon, CPU)
    assert not chosen.fused_optimizer
    assert "fused_optimizer false: muon has no fused implementation" in lines


def test_attention_with_quadratic_memory_is_no_candidate_where_it_needs_much(machine):
    machine.setattr(fast_path, "_physical_memory", lambda: 8 << 30)
    calibrate = measured(block_blocked=0.1)
    machine.setattr(fast_path, "calibrate", calibrate)
    long_context = dataclasses.replace(LONG.model, context_length=4096)
    chosen, _ = choose_fast_path(dataclasses.replace(LONG, model=long_context), CPU)
    assert chosen.model.attention == "sdpa"
    assert calibrate.calls[0].attention == ("sdpa",)


def test_shortest_time_follows_the_arithmetic():
    hours = fast_path.shortest_time(LONG, CPU)
    assert hours > 60  # 37 PFLOPs
    assert fast_path.shortest_time(SHORT, CPU) < hours / 100
