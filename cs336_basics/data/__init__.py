"""The data of a run: its sources, the validation split, and the token files."""
