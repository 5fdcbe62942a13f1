"""The owner of a run's checkpoints, from the run's configuration, data and tokenizer."""

from __future__ import annotations

from typing import Any

from cs336_basics._support.validation import fields_of
from cs336_basics.checkpoints.owner import Owner
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.preparation_record import data_digest, read_records
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.training.config import TrainConfig

_OTHERS = ("seed", "batch_size", "dropout")
"""Values outside the sections of a configuration that determine the weights."""
_EXCEPT = ("schedule.cycle_steps",)
"""Values in its sections that change when a run is resumed with another schedule."""


def owner_of_run(run: RunDirectory, config: TrainConfig, tokenizer: Tokenizer | None) -> Owner:
    """Return the owner of a run's checkpoints.

    The data is left out where the run has no record of it.

    Raises:
        ValueError: If the record of the data is damaged.
    """
    facts: dict[str, Any] = {}
    if tokenizer is not None:
        facts["tokenizer"] = tokenizer.hash()
    for name, field in fields_of(TrainConfig):
        is_fact = ("." in name or name in _OTHERS) and name not in _EXCEPT
        if is_fact and not field.resumable:
            section, _, key = name.rpartition(".")
            holder = getattr(config, section) if section else config
            if hasattr(holder, key):  # an optimizer has only its own settings
                facts[name] = getattr(holder, key)
    records = read_records(run.data)
    for split in ("train", "valid"):
        if (digest := data_digest(records, split)) is not None:
            facts[f"{split} data"] = digest
    return Owner(str(run.path), facts)
