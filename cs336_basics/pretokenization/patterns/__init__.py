"""Split patterns: their names, their syntax, and their compiled tables."""
