"""Reports on tokenizers and runs, each as one HTML page or as Markdown."""
