"""WordLoader: reads the values of a YAML file as words, without a meaning."""

from __future__ import annotations

from typing import Any

import yaml

from cs336_basics._support.validation import Word


class WordLoader(yaml.BaseLoader):
    """Reads every value as text, regardless of its tag.

    An unquoted value becomes a `Word`, which the configuration converts like a command-line
    argument. YAML 1.1 would read `off` as false, 010 as 8 and 1e-3 as a string.
    """

    def construct_scalar(self, node: Any) -> str:
        """Return the text of a value."""
        value = super().construct_scalar(node)
        return Word(value) if node.style is None else str(value)
