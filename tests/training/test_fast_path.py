"""The choices that `--fast auto` makes by rules and by timing."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import cs336_basics.training.devices as devices
import cs336_basics.training.fast_path as fast_path
from cs336_basics.model import ModelConfig
from cs336_basics.training.config import OptimizerConfig, TrainConfig
from cs336_basics.training.fast_path import choose_fast_path

CPU = torch.device("cpu")
LONG = TrainConfig(fast="auto", model=ModelConfig(), batch_size=64, max_steps=20_000)
SHORT = dataclasses.replace(LONG, max_steps=2)
CHOSEN = {"precision", "products", "compile", "loss_chunks", "fused_optimizer", "fast", "model"}


class Machine:
    """A fake CPU with fast bfloat16, a compiler and fixed times."""

    def __init__(self, monkeypatch):
        self.products = {torch.float32: 0.004, torch.bfloat16: 0.002}
        self.linear = {"torch": 0.5, "onednn": 0.4}
        self.error = 1.1
        monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
        monkeypatch.setattr(fast_path, "product_seconds", lambda _, dtype: self.products[dtype])
        monkeypatch.setattr(fast_path, "can_compile", lambda device: True)
        monkeypatch.setattr(fast_path, "has_onednn", lambda: True)
        monkeypatch.setattr(fast_path, "compare_products", lambda *_: (self.linear, self.error))


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


def test_a_long_run_uses_every_fast_implementation(machine):
    chosen, _ = choose_fast_path(LONG, CPU)
    assert (chosen.fast, chosen.precision, chosen.compile) == ("off", "bfloat16", True)
    assert (chosen.loss_chunks, chosen.fused_optimizer) == (8, True)
    assert chosen.model.attention == "blocked"
    for field in dataclasses.fields(TrainConfig):
        if field.name not in CHOSEN:
            assert getattr(chosen, field.name) == getattr(LONG, field.name)


def test_blocked_attention_is_only_for_bfloat16(machine):
    assert choose_fast_path(LONG, CPU, ["precision"])[0].model.attention == "sdpa"


def test_each_process_computes_its_share_of_the_batch(machine):
    chosen, _ = choose_fast_path(LONG, CPU, num_processes=16)
    assert (chosen.batch_size, chosen.loss_chunks) == (64, 4)


def test_the_memory_limit_counts_the_scores_of_all_processes(machine, monkeypatch):
    scores = 4 * LONG.model.num_layers * 64 * LONG.model.num_heads * LONG.model.context_length**2
    for memory, attention in ((8 * scores, "sdpa"), (8 * scores + 8, "blocked")):
        monkeypatch.setattr(fast_path, "_physical_memory", lambda memory=memory: memory)
        assert choose_fast_path(LONG, CPU, num_processes=4)[0].model.attention == attention


def test_given_values_are_kept(machine):
    given = ["precision", "loss_chunks", "model.attention", "compile", "batch_size"]
    config = dataclasses.replace(LONG, loss_chunks=3)
    chosen, lines = choose_fast_path(config, CPU, given)
    assert (chosen.precision, chosen.loss_chunks, chosen.compile) == ("float32", 3, False)
    assert chosen.model.attention == "sdpa"
    assert "precision float32: as requested" in lines


def test_a_short_run_is_not_compiled(machine):
    chosen, lines = choose_fast_path(SHORT, CPU)
    assert not chosen.compile
    for word in ("precision bfloat16", "compile false", "loss_chunks 8", "fused_optimizer true"):
        assert any(line.startswith(word) for line in lines)


@pytest.mark.parametrize("rounded", [0.0035, 0.008])
def test_slow_bfloat16_is_not_chosen(machine, rounded):
    machine.products[torch.bfloat16] = rounded
    chosen, lines = choose_fast_path(SHORT, CPU)
    assert chosen.precision == "float32"
    assert any(f"4.0 ms in float32, {rounded * 1e3:.1f} ms in bfloat16" in line for line in lines)


def test_timing_chooses_the_products_of_a_run_in_float32(machine):
    assert choose_fast_path(LONG, CPU)[0].products == "torch"  # in bfloat16
    machine.products[torch.bfloat16] = 0.004
    chosen, lines = choose_fast_path(LONG, CPU)
    assert (chosen.precision, chosen.products) == ("float32", "onednn")
    assert any("torch 500 ms, onednn 400 ms" in line for line in lines)
    assert choose_fast_path(SHORT, CPU)[0].products == "torch"
    assert choose_fast_path(LONG, CPU, ["products"])[0].products == "torch"
    machine.linear["onednn"] = 0.49
    assert choose_fast_path(LONG, CPU)[0].products == "torch"


def test_products_of_rounded_factors_are_not_chosen(machine):
    machine.products[torch.bfloat16] = 0.004
    machine.error = 3000.0
    chosen, lines = choose_fast_path(LONG, CPU)
    assert chosen.products == "torch"
    assert any("the error of oneDNN's products is 3e+03 times as large" in line for line in lines)


def test_requested_products_decide_the_precision(machine):
    config = dataclasses.replace(LONG, products="onednn")
    chosen, _ = choose_fast_path(config, CPU, ["products"])
    assert (chosen.precision, chosen.products) == ("float32", "onednn")


def test_rules_choose_only_features_of_the_machine(monkeypatch):
    monkeypatch.setattr(fast_path, "has_onednn", lambda: False)
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("PATH", "")
    chosen, lines = choose_fast_path(LONG, CPU)
    assert (chosen.precision, chosen.compile, chosen.model.attention) == ("float32", False, "sdpa")
    assert any("no C++ compiler" in line for line in lines)
    assert "products torch: torch has no oneDNN here" in lines


@pytest.mark.parametrize("kind", ["muon", "sgd"])
def test_optimizers_without_a_fused_form_are_not_fused(machine, kind):
    config = dataclasses.replace(SHORT, optimizer=OptimizerConfig(kind=kind))
    assert not choose_fast_path(config, CPU)[0].fused_optimizer


def test_a_small_vocabulary_has_as_many_chunks(machine):
    small = dataclasses.replace(SHORT, model=dataclasses.replace(SHORT.model, vocab_size=500))
    assert choose_fast_path(small, CPU)[0].loss_chunks == 8


def test_gpus_follow_rules_without_timing(monkeypatch):
    monkeypatch.setattr(fast_path, "has_bfloat16", lambda device: True)
    monkeypatch.setattr(fast_path, "device_name", lambda device: "NVIDIA H100")
    chosen, _ = choose_fast_path(LONG, torch.device("cuda"))
    assert (chosen.precision, chosen.compile, chosen.model.attention) == ("bfloat16", True, "sdpa")
    assert not choose_fast_path(LONG, torch.device("mps"))[0].compile
