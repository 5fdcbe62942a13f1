"""What a run directory tells of its training, for the model card."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cs336_basics.checkpoints.run_dir import RunDirectory, step_of
from cs336_basics.data.preparation_record import read_records
from cs336_basics.formats.model_card import ModelCard
from cs336_basics.training.config_files import load_config

LOSSES = {"train_loss": "training loss", "val_loss": "validation loss",
          "val_bits_per_byte": "validation, bits per byte"}  # fmt: skip
"""Key of metrics.jsonl -> name in the card."""


def card_of_run(
    path: str | os.PathLike[str], checkpoint: str | os.PathLike[str] | None = None
) -> ModelCard:
    """Return what a run directory records of its training.

    Args:
        path: the run directory.
        checkpoint: the checkpoint that is exported; None: the newest of the run. The steps of one
            that does not have the name of a step are unknown.

    Raises:
        ValueError: metrics.jsonl, or the record of the data, is damaged.
    """
    run = RunDirectory(path)
    steps = step_of(checkpoint or run.newest_checkpoint() or "")
    if steps is None:
        return ModelCard(data=_data_of(run))
    last: dict[str, Any] = {}
    for row in sorted(run.read_metrics(), key=lambda row: int(row["step"])):
        if row["step"] <= steps:
            last.update(row)
    return ModelCard(
        data=_data_of(run),
        steps=steps,
        tokens=last.get("tokens") if last.get("step") == steps else None,
        losses={LOSSES[key]: float(last[key]) for key in LOSSES if key in last},
    )


def _data_of(run: RunDirectory) -> dict[str, str]:
    """Return the texts of training and validation, and the hashes of their bytes."""
    data = load_config(run.config).data
    records = read_records(run.data)
    found: dict[str, str] = {}
    for split, role in (("train", "training"), ("valid", "validation")):
        paths = getattr(data, f"{split}_path")
        if paths is None:
            name = f"{data.dataset}, {split}" if data.train_path is None else f"{split}, held out"
        else:  # without their directories, which are the user's own
            name = ", ".join(Path(path).name for path in ([paths] if _is_one(paths) else paths))
        inputs = records.get(f"{split} tokens", {}).get("inputs", {})
        # Of one text or token file, or of several together.
        digests = [inputs.get(key) for key in ("source", "file", "sources", "files")]
        if digest := next((d for d in digests if isinstance(d, str)), None):
            found[f"{role}: {name}"] = digest
    return found


def _is_one(paths: Any) -> bool:
    return isinstance(paths, (str, os.PathLike))
