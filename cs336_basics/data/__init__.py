"""A run's data: its sources, the validation split, and the token files."""
