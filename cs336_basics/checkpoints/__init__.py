"""The files of a training run: its directory, checkpoints and metrics."""
