"""GPT-2's pair of files, `vocab.json` and `merges.txt`."""
