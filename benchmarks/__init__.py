"""Benchmarks of this checkout. Most of them need its compiled extensions."""
