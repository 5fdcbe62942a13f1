"""Counting of pre-tokens."""
