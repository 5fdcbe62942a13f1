"""Devices: compilers, FLOPs, peak speed and exact arithmetic."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys

import pytest
import torch
import torch._inductor.config as inductor_config

import cs336_basics.training.devices as devices
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training.devices import (
    can_compile,
    check_compile,
    check_precision,
    exact_arithmetic,
    flops_per_token,
    peak_flops,
)
from tests.errors import rejects

CPU = torch.device("cpu")


@pytest.mark.parametrize("cxx", ["no-such-compiler", None])
def test_a_cpu_without_the_compiler_that_torch_calls_cannot_compile(tmp_path, monkeypatch, cxx):
    for name in ("g++", "clang++", "cl"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if cxx else "")
    monkeypatch.setenv("CXX", cxx) if cxx else monkeypatch.delenv("CXX", raising=False)
    assert not can_compile(CPU)
    check_compile(False, CPU)
    with rejects("compile", cxx or "'"):
        check_compile(True, CPU)


@pytest.mark.skipif(os.name != "posix", reason="programs have other names")
@pytest.mark.parametrize("cxx", ["mine", None])
def test_a_cpu_with_the_compiler_that_torch_calls_can_compile(tmp_path, monkeypatch, cxx):
    (tmp_path / (cxx or {"darwin": "clang++"}.get(sys.platform, "g++"))).touch(0o755)
    monkeypatch.setenv("CXX", cxx) if cxx else monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert can_compile(CPU)
    check_compile(True, CPU)


def test_bfloat16_is_rejected_if_the_cpu_would_emulate_it(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: False)
    check_precision("float32", cpu)
    with rejects("precision", "bfloat16"):
        check_precision("bfloat16", cpu)
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    check_precision("bfloat16", cpu)


def test_flops_are_six_for_each_weight_in_a_product_plus_attention():
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
        ("NVIDIA L40S", "bfloat16", 362e12),
        ("NVIDIA L4", "float32", 30.3e12),
        ("NVIDIA GH200 480GB", "bfloat16", 989e12),
        ("NVIDIA GeForce RTX 4090 D", "bfloat16", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "bfloat16", None),
        ("this CPU, AMD EPYC", "bfloat16", None),
    ],
)
def test_peaks_by_name(name, precision, peak):
    assert peak_flops(name, precision) == peak


@pytest.mark.parametrize(
    ("device", "deterministic"), [("cpu", False), ("cuda", True), ("cuda", False)]
)
def test_exact_arithmetic_restores_the_settings_of_the_caller(device, deterministic):
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
                exact = device == "cpu" or deterministic or enabled
                assert torch.are_deterministic_algorithms_enabled() == exact
                raise KeyError
            assert torch.are_deterministic_algorithms_enabled() == enabled
            assert torch.is_deterministic_algorithms_warn_only_enabled() == only_warns
            assert inductor_config.deterministic == compiler
            assert settings.fill_uninitialized_memory == fills
    finally:
        torch.use_deterministic_algorithms(False)  # also resets the compiler setting
        settings.fill_uninitialized_memory = before


def test_deterministic_arithmetic_does_not_select_kernels_by_timing(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with exact_arithmetic(torch.device("cuda"), True):
        assert inductor_config.deterministic
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not inductor_config.deterministic
    with exact_arithmetic(torch.device("cuda"), False):
        assert not inductor_config.deterministic
