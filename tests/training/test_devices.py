"""What a machine can do, and what `--fast auto` makes of it."""

from __future__ import annotations

import contextlib
import dataclasses
import os

import pytest
import torch

import cs336_basics.training.devices as devices
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import find_config as find
from cs336_basics.training.config_files import load_config
from cs336_basics.training.devices import (
    can_compile,
    choose_fast_path,
    exact_arithmetic,
    flops_per_token,
    peak_flops,
)

CPU = torch.device("cpu")


def test_fast_path_of_a_long_run_on_a_cpu_with_bfloat16(monkeypatch):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    monkeypatch.setattr(devices, "can_compile", lambda device: True)
    config = dataclasses.replace(load_config(find("tinystories")), fast="auto")
    chosen, lines = choose_fast_path(config, CPU)
    assert chosen.fast == "off"
    assert (chosen.precision, chosen.compile, chosen.loss_chunks) == (
        "bfloat16",
        True,
        8,
    )  # 64 x 256 / 2048
    assert chosen.fused_optimizer
    assert chosen.model.attention == "reference"
    for word in ("precision bfloat16", "compile true", "loss_chunks 8", "fused_optimizer true"):
        assert any(line.startswith(word) for line in lines)
    # Nothing else was touched.
    same = {"precision", "compile", "loss_chunks", "fused_optimizer", "fast", "model"}
    for field in dataclasses.fields(TrainConfig):
        if field.name not in same:
            assert getattr(chosen, field.name) == getattr(config, field.name)


def test_fast_path_keeps_to_what_there_is(monkeypatch):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("PATH", "")
    assert not can_compile(CPU)
    chosen, lines = choose_fast_path(load_config(find("tinystories")), CPU)
    assert (chosen.precision, chosen.compile, chosen.model.attention) == ("float32", False, "sdpa")
    assert any("no C++ compiler" in line for line in lines)


def test_what_was_asked_for_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    monkeypatch.setattr(devices, "can_compile", lambda device: True)
    config = load_config(find("speedrun"))
    chosen, lines = choose_fast_path(config, CPU, ["precision", "loss_chunks", "model.attention"])
    assert (chosen.precision, chosen.loss_chunks) == ("float32", 1)
    assert (chosen.compile, chosen.model.attention) == (True, "sdpa")
    assert not chosen.fused_optimizer
    assert "precision float32: as it was asked for" in lines
    assert "fused_optimizer false: there is none for muon" in lines
    chosen, _ = choose_fast_path(config, CPU, ["compile"])
    assert (chosen.precision, chosen.compile) == ("bfloat16", False)
    assert chosen.model.attention == "sdpa"  # the readable one pays only where it is compiled


def test_a_short_run_is_not_compiled(monkeypatch):
    monkeypatch.setattr(devices, "can_compile", lambda device: True)
    chosen, lines = choose_fast_path(load_config(find("sample")), CPU)
    assert not chosen.compile
    assert any("too short" in line for line in lines)


def test_flops_are_six_for_each_weight_of_a_product_and_the_attention():
    config = ModelConfig(
        vocab_size=50, context_length=7, d_model=12, num_layers=3, num_heads=2, d_ff=20
    )
    matrices = sum(
        weight.numel()
        for name, weight in TransformerLM(config).named_parameters()
        if weight.ndim == 2 and not name.startswith("token_embeddings")
    )
    assert flops_per_token(config) == 6 * matrices + 12 * 3 * 12 * 7
    gate = 6 * 3 * 12 * 20
    assert flops_per_token(config) - gate == flops_per_token(
        dataclasses.replace(config, ffn="silu")
    )


@pytest.mark.parametrize(
    ("name", "precision", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", "bfloat16", 989e12),
        ("NVIDIA H100 PCIe", "bfloat16", 756e12),
        ("NVIDIA H200", "float32", 67e12),
        ("NVIDIA A100-SXM4-40GB", "bfloat16", 312e12),
        ("NVIDIA L40S", "bfloat16", 362e12),
        ("NVIDIA L40", "bfloat16", 181e12),
        ("NVIDIA L4", "bfloat16", 121e12),
        ("NVIDIA GH200 480GB", "bfloat16", 989e12),
        ("NVIDIA GB200", "bfloat16", 2500e12),
        ("NVIDIA H200 NVL", "bfloat16", 835e12),
        ("NVIDIA GeForce RTX 4090", "bfloat16", 165e12),
        ("NVIDIA GeForce RTX 4090 D", "bfloat16", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "bfloat16", None),
        ("NVIDIA GeForce RTX 3090 Ti", "bfloat16", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "bfloat16", None),
        ("this CPU, AMD EPYC", "bfloat16", None),
        ("NVIDIA Imaginary 9000", "bfloat16", None),
    ],
)
def test_peaks_are_known_by_name_or_not_at_all(name, precision, peak):
    assert peak_flops(name, precision) == peak


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_exact_arithmetic_leaves_no_trace(device, deterministic):
    before = torch.are_deterministic_algorithms_enabled()
    with exact_arithmetic(torch.device(device), deterministic):
        assert torch.are_deterministic_algorithms_enabled() == (device == "cpu" or deterministic)
    assert torch.are_deterministic_algorithms_enabled() == before


@pytest.mark.parametrize(
    ("device", "deterministic"), [("cpu", False), ("cuda", True), ("cuda", False)]
)
def test_exact_arithmetic_leaves_what_others_set_as_it_was(device, deterministic):
    import torch._inductor.config as inductor_config

    if not hasattr(inductor_config, "deterministic"):
        pytest.skip("this torch has no such switch")
    settings = torch.utils.deterministic
    before = settings.fill_uninitialized_memory
    try:
        for enabled, only_warns, compiler, fills in (
            (True, True, False, True),
            (False, False, True, False),
        ):
            torch.use_deterministic_algorithms(enabled, warn_only=only_warns)
            inductor_config.deterministic = compiler
            settings.fill_uninitialized_memory = fills
            with (
                contextlib.suppress(KeyError),
                exact_arithmetic(torch.device(device), deterministic),
            ):
                raise KeyError
            assert torch.are_deterministic_algorithms_enabled() == enabled
            assert torch.is_deterministic_algorithms_warn_only_enabled() == only_warns
            assert inductor_config.deterministic == compiler
            assert settings.fill_uninitialized_memory == fills
    finally:
        torch.use_deterministic_algorithms(False)  # the compiler's with it
        settings.fill_uninitialized_memory = before


def test_what_must_be_exact_is_not_compiled_by_timing(monkeypatch):
    import torch._inductor.config as inductor_config

    if not hasattr(inductor_config, "deterministic"):
        pytest.skip("this torch has no such switch")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with exact_arithmetic(torch.device("cuda"), True):
        assert inductor_config.deterministic
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not inductor_config.deterministic
    with exact_arithmetic(torch.device("cuda"), False):
        assert not inductor_config.deterministic
