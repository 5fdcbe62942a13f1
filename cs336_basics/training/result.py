"""How a run ended, read from its directory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cs336_basics.checkpoints.run_dir import RunDirectory


@dataclass
class TrainResult:
    """How a run ended. Losses are in nats per token; seconds count all sessions of the run."""

    step: int
    tokens: int
    seconds: float
    train_loss: float
    val_loss: float
    val_perplexity: float
    val_bits_per_byte: float | None
    best_val_loss: float
    sample: str | None


def result_of(run: RunDirectory, step: int, tokens: int, best_val_loss: float) -> TrainResult:
    """Return the result of a run whose last step, `step`, has been evaluated."""
    rows = run.read_metrics()
    # There is no training row where a checkpoint came without the metrics of its run.
    train_row = {"train_loss": math.nan, **_last(rows, "train_loss")}
    val_row = _last(rows, "val_loss")
    sample = run.sample(step)
    return TrainResult(
        step=step,
        tokens=tokens,
        seconds=val_row.get("seconds", 0.0),
        train_loss=train_row["train_loss"],
        val_loss=val_row["val_loss"],
        val_perplexity=val_row["val_perplexity"],
        val_bits_per_byte=val_row.get("val_bits_per_byte"),
        best_val_loss=best_val_loss,
        sample=sample.read_text(encoding="utf-8") if sample.exists() else None,
    )


def _last(rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """Return the last row that has this key, or an empty one."""
    return next((row for row in reversed(rows) if key in row), {})
