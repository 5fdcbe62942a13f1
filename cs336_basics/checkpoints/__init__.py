"""What a training run keeps on the disk: its directory, checkpoints and metrics."""
