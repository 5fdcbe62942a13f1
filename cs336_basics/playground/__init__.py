"""The playground: a local page for exploring tokenizers, their training, runs and models."""
