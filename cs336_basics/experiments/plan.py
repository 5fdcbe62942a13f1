"""The runs in the course's experiments, and how each one differs from the baseline."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cs336_basics.training.config import TrainConfig

Values = Mapping[str, Any]
"""Mapping from dotted names to configuration values, such as `{"model.norm": "none"}`."""


@dataclass(frozen=True)
class Experiment:
    """One training run.

    Attributes:
        name: Name of the run and of its directory.
        label: Label in the tables.
        values: Values that the run changes in the configuration.
        curve: Label in the figure. Of several runs with the same label, the figure shows the best.
            Defaults to `label`.
    """

    name: str
    label: str
    values: Values = field(default_factory=dict)
    curve: str = ""


@dataclass(frozen=True)
class Group:
    """Runs compared with each other in one figure and one table."""

    name: str
    title: str
    question: str
    experiments: tuple[Experiment, ...]


@dataclass(frozen=True)
class Scale:
    """The size of the runs.

    Attributes:
        config: Name of the configuration.
        values: Values that turn `config` into the baseline.
        learning_rates: Learning rates to try. The last one diverges.
        batch_sizes: Batch sizes to try, all with the same total number of tokens.
        rate_factors: Factors by which the learning rate for each batch size is multiplied. At
            least one is 1.
    """

    config: str
    values: Values
    learning_rates: tuple[float, ...]
    batch_sizes: tuple[int, ...]
    rate_factors: tuple[float, ...]


BASELINE_RATE = 1e-2
"""Learning rate of the baseline."""
LOWER_RATE = 1e-3
"""Learning rate of the second run without RMSNorm."""

SCALES = {
    # For the tests: runs everything, but the models are too small to learn.
    "test": Scale(
        "sample",
        {
            "data.sample_bytes": 20_000,
            "model.vocab_size": 300,
            "model.context_length": 16,
            "model.d_model": 16,
            "model.d_ff": 64,
            "model.num_layers": 1,
            "model.num_heads": 2,
            "model.previous_token_heads": 0,
            "model.induction_heads": False,
            "batch_size": 4,
            "max_steps": 8,
            "eval_every": 4,
            "log_every": 2,
            "eval_windows": 8,
            "sample_tokens": 0,
            "checkpoint_every": 4,
        },
        learning_rates=(1e-3, 1e-2, 1e6),
        batch_sizes=(1, 4, 8),
        rate_factors=(0.1, 1.0),
    ),
    # 1.1 M parameters and 2.5 M tokens per run.
    "cpu": Scale(
        "tinystories",
        {
            "data.dataset": "sample",
            "model.vocab_size": 2000,
            "model.d_model": 128,
            "model.d_ff": 344,
            "model.num_layers": 3,
            "model.num_heads": 4,
            "optimizer.betas": (0.9, 0.99),  # a longer average, because runs have fewer steps
            "schedule.warmup_fraction": 0.1,
            "batch_size": 16,
            "max_steps": 600,
            "eval_every": 50,
            "log_every": 5,
            "sample_tokens": 0,
            "checkpoint_every": 50,
            "eval_windows": 160,
            "schedule.min_learning_rate": 0.0,
        },
        learning_rates=(1e-3, 3e-3, 1e-2, 3e-2, 0.1, 1.0, 100.0),
        batch_sizes=(1, 4, 16, 64, 128),
        rate_factors=(0.3, 1.0, 3.0),
    ),
    # The sizes used in CS336: 327,680,000 tokens per run.
    "course": Scale(
        "tinystories",
        {"schedule.min_learning_rate": 0.0, "sample_tokens": 0},
        learning_rates=(1e-3, 3e-3, 1e-2, 3e-2, 0.1, 1.0, 100.0),
        batch_sizes=(1, 8, 64, 256, 512),
        rate_factors=(0.3, 1.0, 3.0),
    ),
}

_RATE = "schedule.max_learning_rate"


def plan(scale: Scale, config: TrainConfig) -> list[Group]:
    """Return the experiments for a scale.

    Args:
        scale: One of SCALES.
        config: Configuration of the baseline. Its learning rate is ignored.
    """
    baseline = Experiment("baseline", "baseline", {_RATE: BASELINE_RATE})

    def variant(name: str, label: str, values: Values) -> Experiment:
        return Experiment(name, label, {**baseline.values, **values})

    no_norm = {"model.norm": "none"}
    return [
        Group(
            "learning-rate",
            "Learning rate",
            "How fast does the model learn, and at which rates is training unstable or divergent?",
            tuple(_learning_rates(scale, baseline)),
        ),
        Group(
            "batch-size",
            "Batch size",
            "How does the batch size affect the loss after the same number of tokens? Each size is "
            "tried at several learning rates around a value proportional to its square root; the "
            "figure shows the best.",
            tuple(_batch_sizes(scale, baseline, config)),
        ),
        Group(
            "normalization",
            "RMSNorm",
            "What happens without RMSNorm, at the same learning rate and at a lower one, and with "
            "RMSNorm after each sublayer?",
            (
                baseline,
                variant("no-norm", "without RMSNorm", no_norm),
                variant(
                    "no-norm-lower",
                    f"without RMSNorm, learning rate {LOWER_RATE}",
                    {**no_norm, _RATE: LOWER_RATE},
                ),
                variant("post-norm", "post-norm", {"model.norm": "post"}),
            ),
        ),
        Group(
            "position",
            "Position embedding",
            "Does the causal mask alone give the model enough information about positions?",
            (baseline, variant("nope", "no positions (NoPE)", {"model.position": "none"})),
        ),
        Group(
            "feed-forward",
            "SwiGLU and SiLU",
            "How much does the gate help, at about the same number of parameters (d_ff = 4 d_model "
            "for SiLU)?",
            (
                baseline,
                variant(
                    "silu",
                    "SiLU",
                    {"model.ffn": "silu", "model.d_ff": 4 * config.model.d_model},
                ),
            ),
        ),
    ]


def _learning_rates(scale: Scale, baseline: Experiment) -> list[Experiment]:
    return [
        _labelled(baseline, f"learning rate {rate:g}")
        if rate == BASELINE_RATE
        else Experiment(_rate_name(rate), f"learning rate {rate:g}", {_RATE: rate})
        for rate in scale.learning_rates
    ]


def _rate_name(rate: float) -> str:
    return f"lr-{rate:g}".replace("+", "")


def _batch_sizes(scale: Scale, baseline: Experiment, config: TrainConfig) -> list[Experiment]:
    """Return runs with the same numbers of tokens, evaluations and rows of metrics."""
    tokens = config.max_steps * config.batch_size
    experiments = []
    for size, factor in itertools.product(scale.batch_sizes, scale.rate_factors):
        # Malladi et al. (2022) derive the square-root scaling rule for Adam.
        rate = float(f"{BASELINE_RATE * factor * math.sqrt(size / config.batch_size):.3g}")
        curve = f"batch size {size}"
        label = f"{curve}, learning rate {rate:g}"
        if size != config.batch_size:
            ratio = config.batch_size / size
            intervals = ("eval_every", "checkpoint_every", "log_every")
            values = {
                "batch_size": size,
                "max_steps": max(1, tokens // size),
                _RATE: rate,
                **{key: max(1, round(getattr(config, key) * ratio)) for key in intervals},
            }
            name = f"batch-{size}-{_rate_name(rate)}"
            experiments.append(Experiment(name, label, values, curve))
        elif factor == 1:
            experiments.append(dataclasses.replace(_labelled(baseline, label), curve=curve))
        else:  # may be one of the runs that compare learning rates
            experiments.append(Experiment(_rate_name(rate), label, {_RATE: rate}, curve))
    return experiments


def _labelled(baseline: Experiment, label: str) -> Experiment:
    return dataclasses.replace(baseline, label=f"{label} (baseline)")
