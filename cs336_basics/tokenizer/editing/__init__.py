"""Change a vocabulary: extend it, prune it, count its tokens, translate token files."""
