"""Encoding and decoding one piece at a time."""
