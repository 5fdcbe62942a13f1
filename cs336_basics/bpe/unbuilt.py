"""Stand-ins for the compiled trainers where the extensions were not built."""

from __future__ import annotations

from typing import Any

from cs336_basics.bpe.base import BPE_Trainer, Pair


def unbuilt_trainer(trainer_name: str, class_name: str) -> type[BPE_Trainer]:
    """Return a class that can be listed, and that says on use how to build the real one."""

    class Unbuilt(BPE_Trainer):
        name = trainer_name
        _is_built = False

        def __init__(self, **options: Any) -> None:
            raise ImportError(
                f"the {trainer_name!r} trainer is compiled code that is not built yet: run "
                "`python setup.py build_ext --inplace` (it needs a C++ compiler), or choose "
                "trainer='heap', which needs none"
            )

        def _learn_merges(
            self, words: list[bytes], counts: list[int], num_merges: int
        ) -> list[Pair]:
            raise NotImplementedError  # no instance is ever made

    Unbuilt.__name__ = Unbuilt.__qualname__ = class_name
    Unbuilt.__doc__ = f"The {trainer_name} trainer, whose extension is not built."
    return Unbuilt


def is_built(trainer: type[BPE_Trainer]) -> bool:
    """Tell whether a class in TRAINERS can be used, or stands in for one that can not."""
    return getattr(trainer, "_is_built", True)
