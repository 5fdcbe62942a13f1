"""Helpers shared by all folders."""
