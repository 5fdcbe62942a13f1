"""Text constants shared by the whole package."""

END_OF_TEXT = "<|endoftext|>"
"""Special token that ends each document (Radford et al. 2019)."""
