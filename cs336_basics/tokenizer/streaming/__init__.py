"""Encoding and decoding text piece by piece."""
