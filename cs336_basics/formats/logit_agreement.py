"""Whether another runtime computes the logits and the greedy text of this library's model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cs336_basics.model import ModelConfig, TransformerLM

LogitsOf = Callable[[Tensor], Tensor]
"""Logits (1, sequence, vocab_size), float32, of ids (1, sequence), int64."""

NUM_GREEDY = 64
"""Tokens that are compared with greedy decoding, as far as the context allows."""


def random_ids(config: ModelConfig) -> Tensor:
    """Return ids (1, context_length), int64: the same in every call."""
    draw = torch.Generator().manual_seed(0)
    return torch.randint(config.vocab_size, (1, config.context_length), generator=draw)


def compare_logits(model: TransformerLM, logits_of: LogitsOf, limit: float) -> str:
    """Compare logits and greedy text on random ids; return the line that says how close they are.

    Args:
        model: ours, in float32 on the CPU; it is not changed.
        logits_of: the other one.
        limit: the largest difference of a logit that is accepted.

    Raises:
        RuntimeError: the logits differ by more, or the greedy text differs.
    """
    config, ids = model.config, random_ids(model.config)
    with torch.inference_mode():
        difference = float((logits_of(ids) - model(ids)).abs().max())
    if not difference <= limit:  # also for NaN
        raise RuntimeError(
            f"the exported model's logits differ by {difference:.2g}, more than {limit:.0e}: do "
            "not use it"
        )
    prompt = ids[0, : min(8, (config.context_length + 1) // 2)].tolist()
    number = min(NUM_GREEDY, config.context_length - len(prompt))
    ours = greedy(model, prompt, number)
    theirs = greedy(logits_of, prompt, number)
    if ours != theirs:
        index = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        raise RuntimeError(
            f"the exported model's greedy text differs from token {index} on: {theirs[index]} "
            f"instead of {ours[index]}"
        )
    return f"logits within {difference:.1e}, {number} greedy tokens equal"


@torch.inference_mode()
def greedy(logits_of: LogitsOf, prompt: Sequence[int], number: int) -> list[int]:
    """Return `number` ids after a prompt, each the most likely one; without a cache."""
    ids = list(prompt)
    for _ in range(number):
        ids.append(int(logits_of(torch.tensor([ids]))[0, -1].argmax()))
    return ids[len(prompt) :]
