"""Megatron's indexed datasets."""

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import lazy_names

__all__ = ["load_indexed_dataset"]

if TYPE_CHECKING:
    from cs336_basics.formats.megatron.indexed_dataset import load_indexed_dataset
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"cs336_basics.formats.megatron.indexed_dataset": "load_indexed_dataset"}
    )
