"""What a training run keeps on the disk: its directory, checkpoints, metrics and prepared data."""
