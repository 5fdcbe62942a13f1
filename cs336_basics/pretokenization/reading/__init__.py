"""Reading of text from files, rows and streams."""
