"""What a checkpoint belongs to: the settings, the data and the tokenizer of its run.

A checkpoint of another run often fits the model by its shapes, for example if only the number of
heads or the tokenizer differs. It then generates nonsense without an error. Every checkpoint of a
run therefore names its owner, and everyone who reads it for a run compares the two.

An owner has no random id: a repeated run has the same owner, and writes the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr

_MOST_NAMED = 3
_LONGEST = 32  # enough to tell two hashes apart


@dataclass(frozen=True)
class Owner:
    """The run that a checkpoint belongs to."""

    run: str
    """The run's directory, for messages. It is not stored, because runs may be moved."""
    facts: Mapping[str, Any]
    """What determines the weights, by name, such as `tokenizer` and `model.num_heads`."""

    def stored(self) -> dict[str, Any]:
        """Return the JSON that a checkpoint stores."""
        stored: dict[str, Any] = json.loads(json.dumps(self.facts))  # tuples become lists
        return stored

    def check(self, stored: object, checkpoint: str) -> None:
        """Check that a checkpoint belongs to this run.

        Only facts known on both sides are compared, so that a setting which a later version adds
        does not make earlier checkpoints unreadable.

        Args:
            stored: The JSON in the checkpoint, or None if there is none.
            checkpoint: The file, for messages.

        Raises:
            ValueError: If the checkpoint belongs to another run, or does not name its run.
        """
        if not isinstance(stored, dict):
            raise self._refusal("does not say to which run it belongs", checkpoint)
        differences = [
            f"{name} is {short_repr(stored[name], _LONGEST)}, not {short_repr(value, _LONGEST)}"
            for name, value in self.stored().items()
            if name in stored and stored[name] != value
        ]
        if differences:
            named = "; ".join(differences[:_MOST_NAMED])
            more = f"; {len(differences) - _MOST_NAMED} more" if differences[_MOST_NAMED:] else ""
            raise self._refusal(
                f"belongs to another run than {self.run} ({named}{more})", checkpoint
            )

    def _refusal(self, problem: str, checkpoint: str) -> InputError:
        return InputError(
            problem, place=checkpoint, remedy=f"use a checkpoint that the run {self.run} saved"
        )
