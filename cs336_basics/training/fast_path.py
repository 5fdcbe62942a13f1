"""`--fast auto`: chooses how a run computes on this machine, by calibration or by rules.

On a CPU the fastest kernels differ from model to model, so they are timed (calibration.py), once
for each machine and shape. A run that is too short to pay for that, and a GPU, are served by rules.
The chosen values replace `fast: auto` in the run's configuration, so a resumed run keeps them.
"""

from __future__ import annotations

import dataclasses
import operator
import os
import time
from collections.abc import Callable, Collection
from typing import Any

import torch

from cs336_basics.training.calibration import Calibration, Candidates, Choice, calibrate
from cs336_basics.training.calibration_cache import (
    CalibrationCache,
    calibration_file,
    calibration_key,
)
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.devices import can_compile, device_name, has_bfloat16, training_flops

# torch.compile takes a minute or so; a run must have this many FLOPs for it to pay off.
_WORTH_COMPILING = {"cpu": 1e14, "cuda": 1e16}

# A calibration takes up to a minute, and gains up to a fifth over the rules.
_WORTH_CALIBRATING = 600.0  # seconds that the run takes at least

# Where the logits are large, the loss is computed in chunks. Each adds to the gradient of the whole
# head, so few large chunks are faster.
_LARGE_VOCABULARY = 4096
_LOSS_CHUNKS = 4
_ROWS_IN_A_CHUNK = 2048

# With bfloat16, weights and activations are also converted: products alone must gain this much.
_WORTH_ROUNDING = 1.2

_PRODUCT_FLOPS = 2 * 512 * 1024 * 1024

Decision = tuple[Any, str]
"""A value, and the reason for it."""
Decisions = dict[str, Decision]
"""Decisions by the key of the configuration, such as "model.attention"."""
Report = Callable[[str], None]


def choose_fast_path(
    config: TrainConfig,
    device: torch.device,
    given: Collection[str] = (),
    report: Report = lambda line: None,
    num_processes: int = 1,
) -> tuple[TrainConfig, list[str]]:
    """Return a configuration with the fastest known way of computing on this machine.

    It sets precision, compile, loss_chunks, fused_optimizer and model.attention, except those named
    in `given`; `fast` becomes "off". All choices compute the same, up to rounding.

    Args:
        config: the run.
        device: where it computes.
        given: keys that must keep their values.
        report: is given a line before a calibration starts.
        num_processes: how many processes share each batch equally. What one of them computes is
            timed and judged; all of them take the same choices.

    Returns:
        the configuration, and a line for each choice with its reason.
    """
    share = dataclasses.replace(config, batch_size=config.batch_size // num_processes)
    scores_fit = _scores_fit(config)  # of all processes: they share the machine's memory
    decisions = _by_rule(share, device, given, scores_fit)
    lines: list[str] = []
    if device.type == "cpu":
        candidates = _candidates(share, device, given, scores_fit)
        calibration, origin = _find_calibration(share, device, candidates, report, lines.append)
        lines.append(origin)
        if calibration is not None:
            decisions.update(_by_measurement(share, calibration, candidates))
    for key in given:
        if key in decisions:
            decisions[key] = operator.attrgetter(key)(config), "as requested"
    lines += [f"{key} {str(value).lower()}: {why}" for key, (value, why) in decisions.items()]
    return _apply(config, decisions), lines


def _apply(config: TrainConfig, decisions: Decisions) -> TrainConfig:
    """Return the configuration with the decided values."""
    values = {key: value for key, (value, _) in decisions.items()}
    model = dataclasses.replace(config.model, attention=values.pop("model.attention"))
    return dataclasses.replace(config, fast="off", model=model, **values)


# ------------------------------------------------------------------------- by rule


def _by_rule(
    config: TrainConfig, device: torch.device, given: Collection[str], scores_fit: bool
) -> Decisions:
    """Decide without measuring."""
    # (Products are not timed where the answer is given.)
    is_given = "precision" in given
    precision = (config.precision, "as requested") if is_given else _precision_by_rule(device)
    compiled = _compile_by_rule(config, device)
    is_compiled = config.compile if "compile" in given else compiled[0]
    return {
        "precision": precision,
        "compile": compiled,
        "loss_chunks": _loss_chunks_by_rule(config),
        "fused_optimizer": _fused_optimizer_by_rule(config),
        "model.attention": _attention_by_rule(
            device, precision[0] == "bfloat16" and is_compiled and scores_fit
        ),
    }


def _precision_by_rule(device: torch.device) -> Decision:
    if not has_bfloat16(device):
        return "float32", f"{device_name(device)} would emulate bfloat16"
    if device.type != "cpu":
        return "bfloat16", f"{device_name(device)} has instructions for it"
    # A CPU may have instructions for it that are slower than those for float32.
    exact, rounded = (product_seconds(device, d) for d in (torch.float32, torch.bfloat16))
    precision = "bfloat16" if _WORTH_ROUNDING * rounded < exact else "float32"
    times = f"{exact * 1e3:.1f} ms in float32, {rounded * 1e3:.1f} ms in bfloat16"
    return precision, f"measured for a product of matrices: {times}"


def _compile_by_rule(config: TrainConfig, device: torch.device) -> Decision:
    if training_flops(config) < _WORTH_COMPILING.get(device.type, float("inf")):
        return False, "the run is too short to pay for a minute of compilation"
    if not can_compile(device):
        return False, f"not on {device.type}" if device.type != "cpu" else "no C++ compiler found"
    return True, "the run is long enough to pay for a minute of compilation"


def _loss_chunks_by_rule(config: TrainConfig) -> Decision:
    if config.model.vocab_size < _LARGE_VOCABULARY:
        return 1, "the vocabulary is small"
    rows = config.batch_size // config.accumulation * config.model.context_length
    chunks = max(_LOSS_CHUNKS, rows // _ROWS_IN_A_CHUNK)
    return chunks, "the logits are the largest tensor; chunks need less memory"


def _fused_optimizer_by_rule(config: TrainConfig) -> Decision:
    if config.optimizer.kind == "adamw":
        return True, "one pass over the weights instead of one for each operation"
    return False, f"{config.optimizer.kind} has no fused implementation"


def _attention_by_rule(device: torch.device, blocks_suit: bool) -> Decision:
    if device.type == "cpu" and blocks_suit:
        return "blocked", "compiled, in bfloat16, it is faster than PyTorch's kernel on a CPU"
    return "sdpa", "PyTorch's fused kernel"


def _scores_fit(config: TrainConfig) -> bool:
    """Return whether attention whose memory is quadratic in the context needs little of it.

    Little is an eighth of the machine's memory, for the scores of all layers in float32.
    """
    model = config.model
    sequences = config.batch_size // config.accumulation
    scores = model.num_layers * sequences * model.num_heads * model.context_length**2
    return 4 * scores < _physical_memory() / 8


def _physical_memory() -> int:
    """Return the memory of the machine in bytes; 8 GB where the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 8 << 30


# ------------------------------------------------------------------ by measurement


def _candidates(
    config: TrainConfig, device: torch.device, given: Collection[str], scores_fit: bool
) -> Candidates:
    """Return what to compare: one entry for what is given."""
    attention: tuple[str, ...] = ("sdpa", "blocked", "reference")
    if "model.attention" in given:
        attention = (config.model.attention,)
    elif not scores_fit:
        attention = ("sdpa",)
    chunks = (4, 2, 8) if config.model.vocab_size >= _LARGE_VOCABULARY else (1, 2, 4)
    precisions = ("float32", "bfloat16") if has_bfloat16(device) else ("float32",)
    compiled = (True, False) if can_compile(device) else (False,)
    return Candidates(
        attention=attention,
        loss_chunks=(config.loss_chunks,) if "loss_chunks" in given else chunks,
        precision=(config.precision,) if "precision" in given else precisions,
        compiled=(config.compile,) if "compile" in given else compiled,
    )


def _find_calibration(
    config: TrainConfig,
    device: torch.device,
    candidates: Candidates,
    report: Report,
    note: Report,
) -> tuple[Calibration | None, str]:
    """Return the calibration from the cache, or else a new one, and a line that says which.

    None for a run that is too short. `report` is given a line at once, `note` what went wrong.
    """
    cache = CalibrationCache(calibration_file(), note)
    key = calibration_key(config, device, candidates)
    calibration = cache.get(key, candidates)
    if calibration is not None:
        return calibration, f"calibrated earlier, for this machine and shape ({cache.path})"
    seconds = shortest_time(config, device)
    if seconds < _WORTH_CALIBRATING:
        return None, (
            f"not calibrated: the run may take only {seconds:,.0f} seconds, and a calibration pays "
            f"off only from {_WORTH_CALIBRATING:,.0f} seconds on; chosen by rules"
        )
    report("calibrating for this machine and shape, which takes up to a minute")
    start = time.perf_counter()
    calibration = calibrate(config, device, candidates)
    try:
        calibration.choose(config.model.num_layers, 1)
    except ValueError as error:
        return None, f"{error}; chosen by rules"
    seconds = time.perf_counter() - start
    if not calibration.covers(candidates):
        # The machine was slow or busy: what such times say should not decide later runs.
        return calibration, f"calibrated in {seconds:.0f} seconds, incompletely, so it is not kept"
    cache.put(key, calibration)
    return calibration, f"calibrated in {seconds:.0f} seconds ({cache.path})"


def shortest_time(config: TrainConfig, device: torch.device) -> float:
    """Return the seconds that a run takes at least, from the speed of one float32 product."""
    return training_flops(config) * product_seconds(device, torch.float32) / _PRODUCT_FLOPS


def product_seconds(device: torch.device, dtype: torch.dtype) -> float:
    """Return the seconds of a product of `_PRODUCT_FLOPS`, the best of four."""
    x = torch.ones(512, 1024, device=device, dtype=dtype)
    weight = torch.ones(1024, 1024, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        x @ weight
        best = min(best, time.perf_counter() - start)
    return best


def _by_measurement(
    config: TrainConfig, calibration: Calibration, candidates: Candidates
) -> Decisions:
    """Decide by the times of a calibration."""
    layers = config.model.num_layers
    passes = config.max_steps * config.batch_size / calibration.sequences
    chosen = calibration.choose(layers, passes)
    chunks = chosen.loss_chunks
    if chunks > 1 and len(candidates.loss_chunks) > 1:
        # What counts is the size of a chunk, and only a part of the batch was timed.
        chunks *= max(1, round(config.batch_size / config.accumulation / calibration.sequences))
    decisions = {
        "compile": (chosen.compiled, _why_compiled(calibration, chosen, layers)),
        "loss_chunks": (chunks, _compare(calibration, "loss", chosen)),
        "model.attention": (chosen.attention, _compare(calibration, "block", chosen)),
    }
    if len(candidates.precision) > 1:
        decisions["precision"] = chosen.precision, _why_precision(calibration)
    return decisions


def _compare(calibration: Calibration, part: str, chosen: Choice) -> str:
    """Return the times of the candidates for one part, the fastest first."""
    rows = sorted(
        (timing.seconds, str(timing.candidate.choice))
        for timing in calibration.timings
        if timing.candidate.part == part
        and timing.candidate.precision == chosen.precision
        and timing.candidate.compiled == chosen.compiled
    )
    times = ", ".join(f"{choice} {seconds * 1e3:.0f} ms" for seconds, choice in rows)
    return f"measured for a {part} of {calibration.sequences} sequences: {times}"


def _why_compiled(calibration: Calibration, chosen: Choice, layers: int) -> str:
    eager, compiled = (
        calibration.seconds(chosen.precision, compiled, layers) for compiled in (False, True)
    )
    if compiled == float("inf"):
        return "not measured"
    setup = calibration.setup_seconds(chosen.precision, layers)
    without = "" if eager == float("inf") else f", {eager * 1e3:.0f} ms without"
    return f"measured {compiled * 1e3:.0f} ms a pass{without}; compiling takes about {setup:.0f} s"


def _why_precision(calibration: Calibration) -> str:
    times = ", ".join(
        f"{precision} {timing.seconds * 1e3:.0f} ms"
        for precision in ("float32", "bfloat16")
        if (timing := calibration.best("block", precision, False)) is not None
    )
    return f"measured for a block: {times}"
