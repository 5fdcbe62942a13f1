"""Changes of a vocabulary: extending and pruning it, counting tokens, translating token files."""
