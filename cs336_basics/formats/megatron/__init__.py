"""Megatron's indexed datasets."""

from cs336_basics.formats.megatron.indexed_dataset import load_indexed_dataset

__all__ = ["load_indexed_dataset"]
