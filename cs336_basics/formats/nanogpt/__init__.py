"""The token files of nanoGPT."""
