"""Check that another runtime produces the same ids, logits and greedy text as this library."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cs336_basics._support.errors import RunError
from cs336_basics._support.messages import short_repr
from cs336_basics.data.datasets import sample_documents
from cs336_basics.formats.library_errors import library_errors
from cs336_basics.tokenizer import Tokenizer

if TYPE_CHECKING:  # comparing tokenizers does not need torch
    from torch import Tensor

    from cs336_basics.model import TransformerLM

    LogitsOf = Callable[[Tensor], Tensor]
    """Function from int64 ids, (1, sequence), to float32 logits, (1, sequence, vocab_size)."""


class Runtime(NamedTuple):
    """A tokenizer that another library has loaded."""

    name: str
    """Name and version of the library."""
    encode: Callable[[str], Iterable[int]]
    """Function that returns the ids of a text. It recognizes added tokens and adds no ids."""
    decode: Callable[[Sequence[int], bool], str]
    """Function from ids, and whether to skip special tokens, to text."""


@dataclass(frozen=True)
class Agreement:
    """The result of a successful comparison with another runtime. A difference raises an error.

    Attributes:
        runtime: The other library and its version.
        lines: One line of text for each comparison.
    """

    runtime: str
    lines: tuple[str, ...]


def probe_texts(tokenizer: Tokenizer) -> list[str]:
    """Return texts on which tokenizers often differ: stories, various scripts, whitespace."""
    stories = itertools.islice(sample_documents(), 20)
    hostile = [
        "It's 12:30; they'll say \"I'D\" --- 1234567 times!\r\n\r\n\tNo.  ",
        "Über naïve Käse, déjà vu; Ёлка и ёжик; 猫は鼠を食べた。 🎉🎉 👩‍👩‍👧",
        "   leading,  double   triple \n\n\n x\u00a0y\u3000z \x00\x01 \ufffd",
    ]
    special = "".join(f"{token} a{token}" for token in tokenizer.definition.added_ids)
    return ["", *stories, *hostile, special]


def compare_ids(tokenizer: Tokenizer, encode: Callable[[str], Iterable[int]]) -> str:
    """Compare the ids of `probe_texts`, and return the result as a line of text.

    Args:
        tokenizer: Our tokenizer.
        encode: The other tokenizer's encoding function, which recognizes special tokens.

    Raises:
        RunError: If the ids of a text differ, or the other tokenizer cannot encode it.
    """
    number, texts = 0, probe_texts(tokenizer)
    for text in texts:
        expected = tokenizer.encode(text)
        with library_errors(f"the exported tokenizer cannot encode {short_repr(text)}"):
            found = [int(token_id) for token_id in encode(text)]
        if found != expected:
            raise RunError(
                f"the exported tokenizer gives different ids for the text {short_repr(text)}",
                remedy="do not use it",
            )
        number += len(expected)
    return f"ids equal on {len(texts)} texts, {number:,} tokens"


def compare_decoding(tokenizer: Tokenizer, decode: Callable[[Sequence[int], bool], str]) -> str:
    """Compare the decoded text of `probe_texts`, and return the result as a line of text.

    Args:
        tokenizer: Our tokenizer.
        decode: See `Runtime.decode`.

    Raises:
        RunError: If a decoded text differs, with or without special tokens.
    """
    for text in probe_texts(tokenizer):
        ids = tokenizer.encode(text)
        for skip in (False, True):
            expected = tokenizer.decode(ids, skip_special_tokens=skip)
            with library_errors(f"the exported tokenizer cannot decode {short_repr(text)}"):
                found = decode(ids, skip)
            if found != expected:
                raise RunError(
                    f"the exported tokenizer decodes the ids of {short_repr(text)} "
                    f"{'without' if skip else 'with'} special tokens to {short_repr(found)}, not "
                    f"to {short_repr(expected)}",
                    remedy="do not use it",
                )
    return "decoded text equal, with and without special tokens"


# --------------------------------------------------------------------- models

NUM_GREEDY = 64
"""Maximum number of tokens to compare in greedy decoding."""


def compare_logits(
    model: TransformerLM, logits_of: LogitsOf, limit: float, *, rounded: bool = False
) -> str:
    """Compare logits and greedy text on random ids, and return the result as a line of text.

    Args:
        model: Our model, in float32 on the CPU.
        logits_of: Function that returns the other model's logits for ids.
        limit: Maximum absolute difference between corresponding logits.
        rounded: Whether the other model's weights are rounded. If so, `limit` is relative to the
            largest logit, and the most likely tokens are counted instead of the greedy text.

    Raises:
        RunError: If logits differ by more than `limit`, or the greedy text differs.
    """
    import torch

    config, draw = model.config, torch.Generator().manual_seed(0)
    ids = torch.randint(config.vocab_size, (1, config.context_length), generator=draw)
    with torch.inference_mode():
        expected, found = model(ids), logits_of(ids)
    difference, largest = float((found - expected).abs().max()), float(expected.abs().max())
    limit *= largest if rounded else 1
    if not difference <= limit:  # also true for NaN
        raise RunError(
            f"the exported model's logits differ by {difference:.2g}, more than {limit:.1g}",
            remedy="do not use it",
        )
    if rounded:
        equal = int((found.argmax(-1) == expected.argmax(-1)).sum())
        return (
            f"logits within {difference:.1e} (the largest is {largest:.1f}), the same most likely "
            f"token at {equal} of {ids.shape[1]} positions"
        )
    prompt = ids[0, : min(8, (config.context_length + 1) // 2)].tolist()
    number = min(NUM_GREEDY, config.context_length - len(prompt))
    ours = greedy(model, prompt, number)
    theirs = greedy(logits_of, prompt, number)
    if ours != theirs:
        index = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        raise RunError(
            f"the exported model's greedy text differs from token {index} onward: "
            f"expected {ours[index]}, got {theirs[index]}"
        )
    return f"logits within {difference:.1e}, {number} greedy tokens equal"


def greedy(logits_of: LogitsOf, prompt: Sequence[int], number: int) -> list[int]:
    """Return `number` ids that continue a prompt greedily, computed without a cache."""
    import torch

    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(number):
            ids.append(int(logits_of(torch.tensor([ids]))[0, -1].argmax()))
    return ids[len(prompt) :]
