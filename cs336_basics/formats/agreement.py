"""Whether another runtime gives the ids of this library's tokenizer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cs336_basics._support.messages import short_repr
from cs336_basics.data.datasets import sample_documents
from cs336_basics.tokenizer import Tokenizer


@dataclass(frozen=True)
class Agreement:
    """What a comparison with another runtime found; one that finds a difference is an error."""

    runtime: str
    """The other library and its version."""
    lines: tuple[str, ...]
    """One line for each thing that was compared."""


def probe_texts(tokenizer: Tokenizer) -> list[str]:
    """Return texts that show differences between tokenizers: stories, scripts, white space."""
    stories = itertools.islice(sample_documents(), 20)
    hostile = [
        "It's 12:30; they'll say \"I'D\" --- 1234567 times!\r\n\r\n\tNo.  ",
        "Über naïve Käse, déjà vu; Ёлка и ёжик; 猫は鼠を食べた。 🎉🎉 👩‍👩‍👧",
        "   leading,  double   triple \n\n\n x\u00a0y\u3000z \x00\x01 \ufffd",
    ]
    special = "".join(f"{token} a{token}" for token in tokenizer.special_tokens)
    return ["", *stories, *hostile, special]


def compare_ids(tokenizer: Tokenizer, encode: Callable[[str], Iterable[int]]) -> str:
    """Compare ids on `probe_texts`; return the line that says so.

    Args:
        tokenizer: ours.
        encode: the other one: text -> ids, special tokens included.

    Raises:
        RuntimeError: the ids of a text differ; shows its beginning.
    """
    number, texts = 0, probe_texts(tokenizer)
    for text in texts:
        expected = tokenizer.encode(text)
        if [int(token_id) for token_id in encode(text)] != expected:
            raise RuntimeError(
                f"the exported tokenizer gives different ids for the text {short_repr(text)}: do "
                "not use it"
            )
        number += len(expected)
    return f"ids equal on {len(texts)} texts, {number:,} tokens"
