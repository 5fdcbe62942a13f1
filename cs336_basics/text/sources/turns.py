"""Turns: JSON Lines with a prompt and an answer in each line."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.text import separator_in, turn
from cs336_basics.text.sources.jsonl import JsonLines, string_in


@dataclass(frozen=True)
class Turns(JsonLines):
    """JSON Lines whose texts are turns of a conversation; see `turn`.

    A prompt or an answer that is null, or that contains a special token of the template, is an
    error.

    Args:
        field: Field that contains the answer.
        prompt_field: Field that contains the prompt.
    """

    _: KW_ONLY
    prompt_field: str

    @classmethod
    def of(cls, source: JsonLines, prompt_field: str) -> Turns:
        """Return the turns in a file, whose `field` contains the answers."""
        return cls(
            source.path,
            errors=source.errors,
            max_piece_bytes=source.max_piece_bytes,
            field=source.field,
            prompt_field=prompt_field,
        )

    def settings(self) -> dict[str, Any]:
        """See `Source`."""
        return {**super().settings(), "prompt_field": self.prompt_field}

    def text_of_row(self, row: dict[str, Any]) -> str:
        """See `JsonLines`."""
        texts = []
        for field in (self.prompt_field, self.field):
            text = string_in(row, field)
            if text is None:
                raise InputError(f"field {field!r} must be a string, got null")
            token = separator_in(text)
            if token is not None:
                raise InputError(
                    f"field {field!r} must not contain {token}, which separates prompts and answers"
                )
            texts.append(text)
        return turn(*texts)
