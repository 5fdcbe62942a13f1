"""tiktoken's rank files."""
