"""Reading text from files, rows and streams."""
