"""PostProcessor: the ids that a tokenizer adds to a text or a pair of texts for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics.tokenizer.ids import shortened

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
    def changes_ids(self) -> bool:
        """Whether the templates do more than join two texts."""
        return self[:2] != PostProcessor()[:2]

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

    def truncated_ids(
        self,
        first: list[int],
        second: list[int] | None,
        add_special_tokens: bool,
        max_length: int,
        side: str = "right",
    ) -> list[int]:
        """Return at most `max_length` ids; the texts get what the template leaves.

        If a pair of texts is too long, the longer text is shortened first, as in tokenizers. Ids
        are removed from the given side, `"right"` or `"left"`.

        Raises:
            ValueError: If the template has more than `max_length` ids.
        """
        template = self.single if second is None else self.pair
        num_added = sum(not isinstance(item, str) for item in template) * add_special_tokens
        room = max_length - num_added
        if room < 0:
            raise InputError(
                f"must be at least {num_added:,}, the number of ids that the tokenizer adds, got "
                f"{max_length:,}",
                argument="max_length",
            )
        if second is None:
            return self.ids(shortened(first, room, side), None, add_special_tokens)
        short, long = sorted((len(first), len(second)))
        if short + long > room:
            short = min(short, room // 2)
            long = room - short
        sizes = (short, long) if len(first) <= len(second) else (long, short)
        first, second = shortened(first, sizes[0], side), shortened(second, sizes[1], side)
        return self.ids(first, second, add_special_tokens)

    def renumbered(self, new_ids: Mapping[int, int]) -> PostProcessor:
        """Return templates with other ids, given as a mapping of old id -> new id."""

        def changed(template: Template) -> Template:
            return tuple(item if isinstance(item, str) else new_ids[item] for item in template)

        return PostProcessor(changed(self.single), changed(self.pair))


def check_post_processor(
    post_processor: PostProcessor | None, has_id: Callable[[int], bool]
) -> PostProcessor | None:
    """Return a post-processor after checking that it adds only ids of a vocabulary.

    Raises:
        TypeError: If it is neither a PostProcessor nor None, or an item is not an int or a str.
        ValueError: If it adds another id, or a template leaves out a text or names an unknown one.
    """
    if post_processor is None:
        return None
    if not isinstance(post_processor, PostProcessor):
        raise InputTypeError(
            f"must be a PostProcessor, got {short_repr(post_processor)}", argument="post_processor"
        )
    for template, texts in ((post_processor.single, {"A"}), (post_processor.pair, {"A", "B"})):
        if any(type(item) not in (int, str) for item in template):
            raise InputTypeError(
                f"must contain only ids and texts, got {short_repr(template)}",
                argument="post_processor",
            )
        if {item for item in template if isinstance(item, str)} != texts:
            raise InputError(
                f"must have the texts {' and '.join(sorted(texts))}, got {short_repr(template)}",
                argument="post_processor",
            )
    for token_id in sorted(post_processor.added_ids):
        if not has_id(token_id):
            raise InputError(
                f"adds id {token_id}, which the vocabulary does not have",
                argument="post_processor",
            )
    return post_processor
