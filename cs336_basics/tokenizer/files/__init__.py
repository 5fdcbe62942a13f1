"""Token files and their writers."""
