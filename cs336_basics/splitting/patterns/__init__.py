"""Split patterns: names, syntax and compiled tables."""
