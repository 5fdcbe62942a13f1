"""Stand-ins for compiled trainers whose extensions are not built."""

from __future__ import annotations

from typing import Any

from cs336_basics._support.errors import BUILD, Argument, UnavailableError
from cs336_basics.bpe.base import BPE_Trainer


class UnbuiltTrainer(BPE_Trainer):
    """A trainer in TRAINERS whose extension is not built."""

    def __init__(self, **options: Any) -> None:
        raise UnavailableError(
            f"the {self.name!r} trainer is not built",
            remedy=(BUILD, ", or pass ", Argument("trainer", "heap")),
        )


def unbuilt_trainer(name: str) -> type[BPE_Trainer]:
    """Return a trainer class with the given name that raises ImportError when instantiated."""
    return type("UnbuiltTrainer", (UnbuiltTrainer,), {"name": name})


def is_built(trainer: type[BPE_Trainer]) -> bool:
    """Return whether a class in TRAINERS needs no extension, or its extension is built."""
    return not issubclass(trainer, UnbuiltTrainer)
