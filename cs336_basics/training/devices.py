"""What a machine can do: its devices, their arithmetic, and the fast path that suits them."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import os
import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import torch

from cs336_basics.model import ModelConfig
from cs336_basics.training.config import TrainConfig

# Dense peak of the matrix units in FLOP/s, by a part of the name that CUDA gives to the device:
# bfloat16 and float32 (without TF32). From the makers' data sheets; the first that fits counts.
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
# Words that make another device of one in the table: a slice of it, or a chip of its own.
_NOT_THE_SAME = re.compile(r"\b(MIG|Laptop|Max-Q|Ti|SUPER|D)\b")

# Code generation takes a minute or so; a run must be this long, in FLOPs, to earn it back.
_WORTH_COMPILING = {"cpu": 1e14, "cuda": 1e16}

# Each chunk of the loss adds to the gradient of the whole head, so few large ones are faster; with
# four the logits take a quarter of their memory already.
_LOSS_CHUNKS = 4
_ROWS_IN_A_CHUNK = 2048


def choose_device(name: str) -> torch.device:
    """Return the device of that name; auto is a CUDA GPU, else Apple's GPU, else the CPU.

    Raises:
        ValueError: there is no such device here.
    """
    has_cuda, has_mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda" if has_cuda else "mps" if has_mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is {name!r}: it must be auto, cpu, cuda, cuda:N or mps") from None
    missing = (device.type == "mps" and not has_mps) or (
        device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    )
    if missing or device.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device is {name!r}, which this machine does not have: use auto or cpu")
    return device


def check_precision(precision: str, device: torch.device) -> None:
    """Check that the device computes in that precision itself, rather than emulate it slowly.

    Raises:
        ValueError: it does not.
    """
    if precision != "bfloat16" or has_bfloat16(device):
        return
    if device.type == "cpu":
        raise ValueError(
            "precision is bfloat16, but this CPU has neither avx512_bf16 nor amx_bf16: it would "
            "be emulated, slower than float32. Use --precision float32"
        )
    raise ValueError(
        f"precision is bfloat16, which {device_name(device)} does not have: use --precision float32"
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
    """Return whether `torch.compile` can generate code: on a CPU that takes a C++ compiler."""
    if device.type == "cpu":
        names = [os.environ.get("CXX"), "g++", "clang++"]
        return any(name is not None and shutil.which(name) is not None for name in names)
    return device.type == "cuda"


def choose_fast_path(
    config: TrainConfig, device: torch.device, given: Collection[str] = ()
) -> tuple[TrainConfig, list[str]]:
    """Return a configuration with the fastest way of computing that this machine has.

    It decides precision, compile, loss_chunks, fused_optimizer and, for a compiled model on a CPU,
    model.attention, unless their names are in `given`; `fast` becomes "off", so that the
    configuration says what was chosen. The readable path and the fast one compute the same, but for
    the rounding of bfloat16.

    Returns:
        the configuration, and a line for each choice with its reason.
    """
    lines: list[str] = []

    def choose(key: str, value: Any, why: str) -> Any:
        if key in given:
            value, why = operator.attrgetter(key)(config), "as it was asked for"
        lines.append(f"{key} {str(value).lower()}: {why}")
        return value

    name = device_name(device)
    if has_bfloat16(device):
        precision = choose("precision", "bfloat16", f"{name} multiplies bfloat16 itself")
    else:
        precision = choose("precision", "float32", f"{name} would emulate bfloat16")

    enough = training_flops(config) >= _WORTH_COMPILING.get(device.type, float("inf"))
    if not enough:
        why = "the run is too short to earn back a minute of code generation"
    elif can_compile(device):
        why = "the run is long enough to earn back a minute of code generation"
    else:
        why = "there is no C++ compiler" if device.type == "cpu" else f"not on {device.type}"
    compiled = choose("compile", enough and can_compile(device), why)

    rows = config.batch_size // config.accumulation * config.model.context_length
    if config.model.vocab_size >= 4096:
        why = "the logits are the largest tensor, and are made a part at a time"
        chunks = choose("loss_chunks", max(_LOSS_CHUNKS, rows // _ROWS_IN_A_CHUNK), why)
    else:
        chunks = choose("loss_chunks", 1, "the vocabulary is small")

    if config.optimizer.kind == "adamw":
        why = "one pass over the weights instead of one for each operation"
        fused = choose("fused_optimizer", True, why)
    else:
        fused = choose("fused_optimizer", False, f"there is none for {config.optimizer.kind}")

    model = config.model
    # A compiled attention is one of matrix products and a fused softmax. On a CPU that beats
    # torch's own kernel, whose backward pass is slow for small heads; memory is quadratic in the
    # context then, so not for long ones.
    if compiled and device.type == "cpu" and model.context_length <= 512:
        why = "compiled, it beats torch's kernel on a CPU"
        attention = choose("model.attention", "reference", why)
        model = dataclasses.replace(model, attention=attention)

    chosen = dataclasses.replace(
        config,
        fast="off",
        precision=precision,
        compile=compiled,
        loss_chunks=chunks,
        fused_optimizer=fused,
        model=model,
    )
    return chosen, lines


def device_name(device: torch.device) -> str:
    """Return what people call the device."""
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
    """Return the FLOPs that training takes for a token: 6 for each weight of a product.

    Two forward, four backward, and 12 * layers * d_model * context for the attention (Chowdhery et
    al. 2022, "PaLM", appendix B). The lookup in the embedding's table takes none. What is computed
    again or for nothing, such as what the causal mask hides, counts as the convention has it, so
    that figures can be compared.
    """
    attention = 4 * config.d_model * config.d_model
    feed_forward = (3 if config.ffn == "swiglu" else 2) * config.d_model * config.d_ff
    head = config.vocab_size * config.d_model
    weights = config.num_layers * (attention + feed_forward) + head
    return 6 * weights + 12 * config.num_layers * config.d_model * config.context_length


def training_flops(config: TrainConfig) -> int:
    """Return the FLOPs of a whole run."""
    tokens = config.max_steps * config.batch_size * config.model.context_length
    return tokens * flops_per_token(config.model)


def peak_flops(name: str, precision: str) -> float | None:
    """Return the FLOP/s that a GPU of this name can reach, or None where it is not known."""
    if _NOT_THE_SAME.search(name):
        return None
    for part, peaks in PEAK_FLOPS.items():
        if re.search(rf"\b{part}\b", name):  # whole words: an L40 is no L4
            return peaks[precision]
    return None


@contextlib.contextmanager
def exact_arithmetic(device: torch.device, deterministic: bool = False) -> Iterator[None]:
    """Make sums independent of how threads race: on a CPU always, on a GPU on request.

    The gradient of the embedding adds up the rows of repeated tokens; by default threads do it in
    whatever order they come. Compiled code for a GPU is chosen by timing, which each process would
    do anew; here it is not.
    """
    if device.type != "cpu" and not deterministic:
        yield
        return
    import torch._inductor.config as inductor_config

    settings: Any = torch.utils.deterministic
    enabled = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = settings.fill_uninitialized_memory
    compiler: Any = contextlib.nullcontext()
    if hasattr(inductor_config, "deterministic"):
        # Around the rest, because torch sets it too, with the other: in the end it is as it was.
        compiler = inductor_config.patch(
            deterministic=deterministic or inductor_config.deterministic
        )
    if deterministic:
        # cuBLAS reads this when it multiplies for the first time.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with compiler:
        try:
            torch.use_deterministic_algorithms(True)
            # That would also fill fresh memory with NaN, to find bugs, at a cost in every
            # operation.
            settings.fill_uninitialized_memory = False
            yield
        finally:
            torch.use_deterministic_algorithms(enabled, warn_only=only_warns)
            settings.fill_uninitialized_memory = fills
