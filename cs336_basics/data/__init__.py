"""The data that a run trains on: sources, hold-out, preparation."""
