"""The choices that `--fast auto` makes by rules and by timing."""

from __future__ import annotations

import dataclasses

import psutil
import pytest
import torch

import cs336_basics.training.devices as devices
import cs336_basics.training.fast_path as fast_path
from cs336_basics.model import ModelConfig
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.fast_path import choose_fast_path
from cs336_basics.training.optimizers import OPTIMIZERS, AdamWSettings, MuonSettings

CPU = torch.device("cpu")
LONG = TrainConfig(model=ModelConfig(), batch_size=64, max_steps=20_000)
CHOSEN = {"precision", "products", "compile", "loss_chunks", "optimizer", "model"}


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
    assert (chosen.precision, chosen.compile) == ("bfloat16", True)
    assert (chosen.loss_chunks, chosen.optimizer) == (8, AdamWSettings(fused=True))
    assert chosen.model.attention == "blocked"
    for field in dataclasses.fields(TrainConfig):
        if field.name not in CHOSEN:
            assert getattr(chosen, field.name) == getattr(LONG, field.name)


@pytest.mark.parametrize(
    ("changes", "given", "expected", "line"),
    [
        ({}, ["precision"], {"attention": "sdpa"}, "precision float32: as requested"),
        ({"batch_size": 4}, [], {"batch_size": 4, "loss_chunks": 4}, "loss_chunks 4"),
        ({"vocab_size": 500}, [], {"loss_chunks": 8}, "loss_chunks 8"),
        ({"kind": "muon"}, [], {"optimizer": MuonSettings()}, "loss_chunks 8"),
        ({}, ["optimizer.fused"], {"optimizer": AdamWSettings()}, "optimizer.fused false: as req"),
        ({"max_steps": 2}, [], {"compile": False}, "optimizer.fused true: one pass"),
        ({"bfloat16": 0.0035}, [], {"precision": "float32"}, "4.0 ms in float32, 3.5 ms in bf"),
        ({"bfloat16": 0.008}, [], {"precision": "float32"}, "4.0 ms in float32, 8.0 ms in bf"),
        ({}, [], {"precision": "bfloat16", "products": "torch"}, "precision bfloat16: measured"),
        ({"products": "onednn"}, ["products"], {"precision": "float32"}, "onednn: as requested"),
        ({"bfloat16": 1}, [], {"products": "onednn"}, "torch 500 ms, onednn 400 ms"),
        ({"bfloat16": 1}, ["products"], {"products": "torch"}, "torch: as requested"),
        ({"bfloat16": 1, "max_steps": 2}, [], {"products": "torch"}, "too short to time"),
        ({"bfloat16": 1, "onednn": 0.49}, [], {"products": "torch"}, "torch 500 ms, onednn 490"),
        (
            {"loss_chunks": 3},
            ["precision", "loss_chunks", "model.attention", "compile", "batch_size"],
            {"precision": "float32", "loss_chunks": 3, "compile": False, "attention": "sdpa"},
            "precision float32: as requested",
        ),
        ({"bfloat16": 1, "error": 3e3}, [], {"products": "torch"}, "products is 3e+03 times"),
    ],
)
def test_a_choice_depends_on_the_run_and_the_machine(machine, changes, given, expected, line):
    values = dict(changes)
    machine.products[torch.bfloat16] = values.pop("bfloat16", 0.002)
    machine.linear["onednn"] = values.pop("onednn", 0.4)
    machine.error = values.pop("error", 1.1)
    vocab_size = values.pop("vocab_size", LONG.model.vocab_size)
    config = dataclasses.replace(
        LONG,
        model=dataclasses.replace(LONG.model, vocab_size=vocab_size),
        optimizer=OPTIMIZERS[values.pop("kind", "adamw")](),
        **values,
    )
    chosen, lines = choose_fast_path(config, CPU, given)
    for name, value in expected.items():
        assert getattr(chosen.model if name == "attention" else chosen, name) == value
    assert any(line in found for found in lines)


@pytest.mark.usefixtures("machine")
def test_the_memory_limit_counts_the_scores_of_all_processes():
    scores = 4 * LONG.model.num_layers * LONG.model.num_heads * LONG.model.context_length**2
    most = psutil.virtual_memory().total // 8 // scores  # sequences whose scores fit
    for share, attention in ((most // 8, "blocked"), (most // 2, "sdpa")):
        config = dataclasses.replace(LONG, batch_size=4 * share)
        chosen, _ = choose_fast_path(config, CPU, num_processes=4)
        assert chosen.model.attention == attention
        assert chosen.batch_size == config.batch_size
    chosen, _ = choose_fast_path(LONG, CPU, num_processes=4)
    assert chosen.loss_chunks == 4  # each process has its share of the batch


def test_rules_choose_only_features_of_the_machine(monkeypatch):
    monkeypatch.setattr(fast_path, "has_onednn", lambda: False)
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("PATH", "")
    chosen, lines = choose_fast_path(LONG, CPU)
    assert (chosen.precision, chosen.compile, chosen.model.attention) == ("float32", False, "sdpa")
    assert any("no C++ compiler" in line for line in lines)
    assert not any("products" in line for line in lines)  # there is no choice without oneDNN


def test_gpus_follow_rules_without_timing(monkeypatch):
    monkeypatch.setattr(fast_path, "has_bfloat16", lambda device: True)
    monkeypatch.setattr(fast_path, "device_name", lambda device: "NVIDIA H100")
    chosen, _ = choose_fast_path(LONG, torch.device("cuda"))
    assert (chosen.precision, chosen.compile, chosen.model.attention) == ("bfloat16", True, "sdpa")
    assert not choose_fast_path(LONG, torch.device("mps"))[0].compile
