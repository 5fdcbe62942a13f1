"""Counting pre-tokens in files and in memory."""
