"""Vocabularies that change: extending, pruning, counting, translating."""
