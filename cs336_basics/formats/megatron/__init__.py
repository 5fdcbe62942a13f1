"""Megatron's indexed datasets."""
