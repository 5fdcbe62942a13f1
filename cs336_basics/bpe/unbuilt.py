"""Stand-ins for compiled trainers whose extensions are not built."""

from __future__ import annotations

from typing import Any

from cs336_basics._support.errors import BUILD, Argument, UnavailableError
from cs336_basics.bpe.base import BPE_Trainer


def unbuilt_trainer(trainer_name: str) -> type[BPE_Trainer]:
    """Return a trainer class with the given name that raises ImportError when instantiated."""

    class UnbuiltTrainer(BPE_Trainer):
        name = trainer_name
        is_built = False

        def __init__(self, **options: Any) -> None:
            raise UnavailableError(
                f"the {self.name!r} trainer is not built",
                remedy=(BUILD, ", or pass ", Argument("trainer", "heap")),
            )

    return UnbuiltTrainer
