"""Text constants that the whole package shares."""

END_OF_TEXT = "<|endoftext|>"
"""Special token that ends each document (Radford et al. 2019)."""
