"""The files of a training run: directory, checkpoints and metrics."""
