"""PostProcessor: the ids that a tokenizer adds to a text or a pair of texts for a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Template = tuple[int | str, ...]
"""Ids, and "A" and "B" where the ids of the first and the second text belong."""


class PostProcessor(NamedTuple):
    """Templates of the ids that `tokenizer(text)` returns. `encode` does not apply them."""

    single: Template = ("A",)
    """Template for one text."""
    pair: Template = ("A", "B")
    """Template for a pair of texts."""
    source: str = ""
    """The JSON that the templates were read from, to write it back unchanged, or ""."""

    @property
    def added_ids(self) -> set[int]:
        """The ids that the templates add."""
        return {item for item in (*self.single, *self.pair) if not isinstance(item, str)}

    def ids(
        self, first: list[int], second: list[int] | None = None, add_special_tokens: bool = True
    ) -> list[int]:
        """Return the ids of one text, or of two, in the order of the template.

        Args:
            first, second: Ids of the texts. None means that there is only one text.
            add_special_tokens: Whether to add the ids of the template.
        """
        texts = {"A": first, "B": second or []}
        ids: list[int] = []
        for item in self.single if second is None else self.pair:
            if isinstance(item, str):
                ids += texts[item]
            elif add_special_tokens:
                ids.append(item)
        return ids

    def renumbered(self, new_ids: Mapping[int, int]) -> PostProcessor:
        """Return templates with other ids, given as a mapping of old id -> new id."""

        def changed(template: Template) -> Template:
            return tuple(item if isinstance(item, str) else new_ids[item] for item in template)

        return PostProcessor(changed(self.single), changed(self.pair))
