"""The playground: a local page to look at tokenizers, trainings, runs and models."""
