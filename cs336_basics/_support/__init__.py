"""Helpers that every folder uses."""
