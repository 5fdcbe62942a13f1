"""Stand-ins for the compiled trainers where the extensions were not built."""

from __future__ import annotations

from typing import Any

from cs336_basics.bpe.base import BPE_Trainer


class UnbuiltTrainer(BPE_Trainer):
    """A trainer that is listed in TRAINERS, but whose extension is not built."""

    def __init__(self, **options: Any) -> None:
        raise ImportError(
            f"the {self.name!r} trainer is compiled code that is not built: with a C++ compiler, "
            "run `python setup.py build_ext --inplace` in the checkout or install the package "
            "again; or choose trainer='heap', which needs none"
        )


def unbuilt_trainer(name: str) -> type[BPE_Trainer]:
    """Return a stand-in with the name of a trainer; making an instance raises the error."""
    return type("UnbuiltTrainer", (UnbuiltTrainer,), {"name": name})


def is_built(trainer: type[BPE_Trainer]) -> bool:
    """Return whether a class in TRAINERS can be used."""
    return not issubclass(trainer, UnbuiltTrainer)
