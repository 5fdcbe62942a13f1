"""Counting of pre-tokens in files and in memory."""
