"""LengthSettings: how the file of a tokenizer truncates and pads texts.

`encode` neither truncates nor pads, and `tokenizer(text)` does so only if it is asked to, as in
transformers. The settings are the defaults of its arguments, and are written back as they were
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class LengthSettings(NamedTuple):
    """The objects `truncation` and `padding` of a `tokenizer.json`, or None."""

    truncation: dict[str, Any] | None = None
    """Truncation, with `max_length`, `direction`, `strategy` and `stride`."""
    padding: dict[str, Any] | None = None
    """Padding, with `strategy`, `direction`, `pad_to_multiple_of`, `pad_id` and `pad_token`."""

    @property
    def max_length(self) -> int | None:
        """Maximum number of ids of a text."""
        return None if self.truncation is None else self.truncation["max_length"]

    @property
    def truncation_side(self) -> str:
        """Side from which ids are removed, "right" or "left"."""
        return _side(self.truncation)

    @property
    def padding_side(self) -> str:
        """Side to pad, "right" or "left"."""
        return _side(self.padding)

    @property
    def padded_length(self) -> int | None:
        """Number of ids to which each text is padded, or None for the longest text of a batch."""
        strategy = None if self.padding is None else self.padding["strategy"]
        return strategy["Fixed"] if isinstance(strategy, dict) else None

    @property
    def multiple_of(self) -> int:
        """Number that divides the length of padded texts."""
        return (self.padding and self.padding.get("pad_to_multiple_of")) or 1

    @property
    def pad_id(self) -> int | None:
        """Id of the padding."""
        return None if self.padding is None else self.padding["pad_id"]

    def renumbered(self, new_ids: Mapping[int, int]) -> LengthSettings:
        """Return settings with another padding id, given a mapping of old id -> new id."""
        if self.padding is None:
            return self
        pad_id = self.padding["pad_id"]
        return self._replace(padding={**self.padding, "pad_id": new_ids.get(pad_id, pad_id)})


def _side(settings: dict[str, Any] | None) -> str:
    direction: str = (settings or {}).get("direction", "Right")
    return direction.lower()
