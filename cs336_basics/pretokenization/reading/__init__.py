"""Text from files, rows and streams, and where it may be cut."""
