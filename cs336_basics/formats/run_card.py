"""The model card of a run directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cs336_basics.checkpoints.run_dir import RunDirectory, step_of
from cs336_basics.data.data_config import DataConfig
from cs336_basics.data.preparation_record import data_digest, read_records
from cs336_basics.formats.model_card import ModelCard

LOSSES = {"train_loss": "training loss", "val_loss": "validation loss",
          "val_bits_per_byte": "validation, bits per byte (without special tokens)"}  # fmt: skip
"""Mapping from keys in metrics.jsonl to names in the card."""


def card_of_run(
    path: str | os.PathLike[str],
    data: DataConfig,
    checkpoint: str | os.PathLike[str] | int = "last",
) -> ModelCard:
    """Return a model card with the facts about a run's training.

    Args:
        path: Run directory.
        data: Data configuration of the run.
        checkpoint: Checkpoint to export: "last", "best", a step or a path. If the checkpoint's
            name does not contain a step, the card's `steps` is None.

    Raises:
        ValueError: If metrics.jsonl or the record of the data is damaged.
    """
    run = RunDirectory(path)
    has_one = checkpoint != "last" or run.steps_saved()
    steps = step_of(run.find_checkpoint(checkpoint)) if has_one else None
    last: dict[str, Any] = {}
    for row in sorted(run.read_metrics(), key=lambda row: int(row["step"])):
        if steps is not None and row["step"] <= steps:
            last.update(row)
    return ModelCard(
        data=_hashes(data, read_records(run.data)),
        steps=steps,
        tokens=last.get("tokens") if last.get("step") == steps else None,
        losses={
            f"{name}, answers only" if data.has_turns else name: float(last[key])
            for key, name in LOSSES.items()
            if key in last
        },
        chats=data.has_turns,
    )


def _hashes(data: DataConfig, records: dict[str, Any]) -> dict[str, str]:
    """Return a mapping from the training and validation texts to their SHA-256."""
    found: dict[str, str] = {}
    for split, role in (("train", "training"), ("valid", "validation")):
        paths = data.train_path if split == "train" else data.valid_path
        if data.mix and split == "train":
            paths = tuple(f"{p.path} ({p.weight:.1%})" for p in data.portions)
        if paths is None:
            is_own = data.train_path is not None or data.mix
            name = f"{split}, held out" if is_own else f"{data.dataset}, {split}"
        else:  # omit directories, whose names may be private
            name = ", ".join(Path(p).name for p in ([paths] if isinstance(paths, str) else paths))
        if digest := data_digest(records, split):
            found[f"{role}: {name}"] = digest
    return found
