"""Split patterns: their names, their syntax, and the tables that they compile to."""
