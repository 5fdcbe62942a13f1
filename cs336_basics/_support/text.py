"""Constants of text that every part of the package shares."""

END_OF_TEXT = "<|endoftext|>"
"""The special token that ends a document (Radford et al. 2019)."""
