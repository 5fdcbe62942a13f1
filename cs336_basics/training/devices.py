"""Choosing a device, and determining its capabilities and speed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.model import ModelConfig
from cs336_basics.model.accounting import forward_flops
from cs336_basics.training.config import TrainConfig

# Peak FLOP/s of dense matrix products in bfloat16 and float32 (without TF32), from the data sheets.
# Each key is part of a CUDA device name. The first match counts.
PEAK_FLOPS: dict[str, dict[str, float]] = {
    "H200 NVL": {"bfloat16": 835e12, "float32": 60e12},
    "H200": {"bfloat16": 989e12, "float32": 67e12},
    "H100 PCIe": {"bfloat16": 756e12, "float32": 51e12},
    "H100 NVL": {"bfloat16": 835e12, "float32": 60e12},
    "H100": {"bfloat16": 989e12, "float32": 67e12},
    "GH200": {"bfloat16": 989e12, "float32": 67e12},
    "GB200": {"bfloat16": 2500e12, "float32": 80e12},
    "B200": {"bfloat16": 2250e12, "float32": 80e12},
    "A100": {"bfloat16": 312e12, "float32": 19.5e12},
    "A10G": {"bfloat16": 70e12, "float32": 31.5e12},
    "L40S": {"bfloat16": 362e12, "float32": 91.6e12},
    "L40": {"bfloat16": 181e12, "float32": 90.5e12},
    "L4": {"bfloat16": 121e12, "float32": 30.3e12},
    "RTX 4090": {"bfloat16": 165e12, "float32": 82.6e12},
    "RTX 3090": {"bfloat16": 71e12, "float32": 35.6e12},
}
# Words in a device name that indicate a slice of a device in the table, or a different chip.
_NOT_THE_SAME = re.compile(r"\b(MIG|Laptop|Max-Q|Ti|SUPER|D)\b")


def choose_device(name: str) -> torch.device:
    """Return the device with this name. "auto" means a CUDA GPU, else an Apple GPU, else the CPU.

    Raises:
        ValueError: If the name is unknown or this machine does not have the device.
    """
    has_cuda, has_mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if has_cuda else "mps" if has_mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(
            f"must be auto, cpu, cuda, cuda:N or mps, got {short_repr(name)}", argument="device"
        ) from None
    missing = (device.type == "mps" and not has_mps) or (
        device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    )
    if missing or device.type not in ("cpu", "cuda", "mps"):
        raise InputError(
            f"must be available on this machine, got {short_repr(name)}",
            argument="device",
            remedy="use auto or cpu",
        )
    return device


def check_precision(precision: str, device: torch.device) -> None:
    """Check that the device supports the precision in hardware.

    Raises:
        ValueError: If the device can only emulate the precision, which is slower than float32.
    """
    if precision == "bfloat16" and not has_bfloat16(device):
        raise InputError(
            f"must be float32 on {device_name(device)}, got bfloat16; without hardware support, "
            "bfloat16 is slower than float32",
            argument="precision",
        )


def has_bfloat16(device: torch.device) -> bool:
    """Return whether the device multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and cpu_has_bfloat16()


def cpu_has_bfloat16() -> bool:
    """Return whether the CPU multiplies bfloat16 matrices in hardware."""
    wanted = {"avx512_bf16", "amx_bf16", "bf16"}  # x86, x86, Arm
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        return not wanted.isdisjoint(flags.split())
    except OSError:  # not Linux
        capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        return any(capabilities.get(name, False) for name in wanted)


def can_compile(device: torch.device) -> bool:
    """Return whether `torch.compile` works on the device. On a CPU, it needs a C++ compiler."""
    if device.type == "cpu":
        return shutil.which(_compiler()) is not None
    return device.type == "cuda"


def _compiler() -> str:
    """Return the name of the C++ compiler that `torch.compile` calls."""
    default = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    return os.environ.get("CXX", default)


def check_compile(compile: bool, device: torch.device) -> None:
    """Check that a CPU has the C++ compiler that `torch.compile` needs.

    Raises:
        ValueError: If the compiler does not exist.
    """
    if compile and device.type == "cpu" and not can_compile(device):
        raise InputError(
            f"must be false without a C++ compiler, but {short_repr(_compiler())} was not found",
            argument="compile",
            remedy="install the compiler, or set the environment variable CXX to its path",
        )


def device_name(device: torch.device) -> str:
    """Return the model name of the device, such as "NVIDIA L4" or "this CPU, AMD EPYC"."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "cpu":
        with contextlib.suppress(OSError):
            for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
                if line.startswith("model name"):
                    return "this CPU, " + line.partition(":")[2].strip()
        return "this CPU"
    return device.type


# ------------------------------------------------------------------------ arithmetic


def flops_per_token(config: ModelConfig) -> int:
    """Return the number of FLOPs needed to train on one token.

    Each weight in a matrix product counts as 6 FLOPs, two in the forward pass and four in the
    backward pass, and attention adds 12 * layers * heads * d_head * context (Chowdhery et al. 2022,
    "PaLM", appendix B). The embedding lookup counts as zero. As is usual in comparisons, masked
    scores are counted and recomputed activations are not.
    """
    return 3 * sum(forward_flops(config).values()) // config.context_length


def training_flops(config: TrainConfig) -> int:
    """Return the number of FLOPs in a complete run."""
    tokens = config.max_steps * config.batch_size * config.model.context_length
    return tokens * flops_per_token(config.model)


def peak_flops(name: str, precision: str) -> float | None:
    """Return the peak FLOP/s of the GPU with this name, or None if unknown."""
    if _NOT_THE_SAME.search(name):
        return None
    for part, peaks in PEAK_FLOPS.items():
        if re.search(rf"\b{part}\b", name):  # whole words: an L40 is not an L4
            return peaks[precision]
    return None


@contextlib.contextmanager
def exact_arithmetic(device: torch.device, deterministic: bool = False) -> Iterator[None]:
    """Context manager that makes results independent of thread timing.

    On a CPU, it always applies. On a GPU, it applies only if `deterministic` is set. Without it,
    the embedding's gradient sums the rows of repeated tokens in an order that depends on thread
    timing. The compiler also selects GPU kernels by timing them, so processes may select different
    kernels.
    """
    if device.type != "cpu" and not deterministic:
        yield
        return
    import torch._inductor.config as inductor_config

    settings: Any = torch.utils.deterministic
    enabled = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = settings.fill_uninitialized_memory
    if deterministic:
        # cuBLAS reads this variable before its first matrix product.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # `use_deterministic_algorithms` also changes this setting, so restore the setting last.
    with inductor_config.patch(deterministic=deterministic or inductor_config.deterministic):
        try:
            torch.use_deterministic_algorithms(True)
            # By default, this mode also fills new memory with NaN, which slows every operation.
            settings.fill_uninitialized_memory = False
            yield
        finally:
            torch.use_deterministic_algorithms(enabled, warn_only=only_warns)
            settings.fill_uninitialized_memory = fills
