"""Text from a trained model, one token at a time: temperature and nucleus sampling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cs336_basics.model.attention import softmax

if TYPE_CHECKING:
    from cs336_basics.model import TransformerLM


def generate(
    model: TransformerLM,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_p: float = 1.0,
    eos_id: int | None = None,
    generator: torch.Generator | None = None,
) -> Iterator[int]:
    """Yield the ids of new tokens that continue a prompt, each as soon as it is drawn.

    The model sees at most the last `context_length` tokens of the text so far; what is older is
    forgotten. Every step computes the whole window again: there is no cache yet.

    Args:
        model: gives the logits. Whether it is in training mode is left as it was.
        prompt_ids: at least one token id; a fresh document starts from the end-of-text token.
        max_new_tokens: how many tokens to yield at most.
        temperature: the logits are divided by it. 0 is greedy: always the likeliest token.
        top_p: sample from the smallest set of likeliest tokens whose probabilities add up to at
            least this; 1 is the whole distribution.
        eos_id: a token that ends the text. It is not yielded.
        generator: a CPU generator, for repeatable text on every device; None is torch's own.

    Raises:
        ValueError: an argument is out of its range; at the call, not at the first token.
    """
    vocab_size = model.config.vocab_size
    if len(prompt_ids) == 0:
        raise ValueError("prompt_ids is empty: start with at least one token (the end-of-text id)")
    for token_id in [*prompt_ids, *([] if eos_id is None else [eos_id])]:
        if not 0 <= token_id < vocab_size:
            raise ValueError(
                f"token id {token_id} is not in the model's vocabulary [0, {vocab_size})"
            )
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens is {max_new_tokens}: it must be 0 or more")
    _check_sampling(temperature, top_p)
    return _generate(model, prompt_ids, max_new_tokens, temperature, top_p, eos_id, generator)


def _generate(
    model: TransformerLM,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    temperature: float,
    top_p: float,
    eos_id: int | None,
    generator: torch.Generator | None,
) -> Iterator[int]:
    context_length = model.config.context_length
    window = list(prompt_ids)[-context_length:]
    for _ in range(max_new_tokens):
        logits = _next_token_logits(model, window)
        token_id = sample_token(logits, temperature=temperature, top_p=top_p, generator=generator)
        if token_id == eos_id:
            return
        yield token_id
        window = [*window, token_id][-context_length:]


# No gradients are kept for this call only: a `with` around a `yield` would also switch them off
# in the code that consumes the tokens.
@torch.no_grad()
def _next_token_logits(model: TransformerLM, token_ids: list[int]) -> Tensor:
    """Return the logits (vocab_size,) of the token after `token_ids`."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        logits: Tensor = model(torch.tensor([token_ids], device=device))[0, -1]
    finally:
        model.train(was_training)
    return logits


def sample_token(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> int:
    """Draw one token id from logits of shape (vocab_size,).

    Raises:
        ValueError: an argument is out of its range, or the logits are not finite.
    """
    _check_sampling(temperature, top_p)
    logits = logits.double().cpu()  # in float32 a tiny temperature would be zero
    if not torch.isfinite(logits).all():
        raise ValueError("the model's logits are not finite: its weights are damaged")
    if temperature == 0:
        return int(logits.argmax())
    # The maximum goes first: a tiny temperature would otherwise make infinities of differences.
    probabilities = softmax((logits - logits.max()) / temperature, dim=-1)
    probabilities = keep_nucleus(probabilities, top_p)
    return int(torch.multinomial(probabilities, 1, generator=generator))


def keep_nucleus(probabilities: Tensor, top_p: float) -> Tensor:
    """Return a distribution (vocab_size,) with all but its likeliest tokens set to 0.

    What stays is the smallest set of likeliest tokens whose probabilities add up to at least
    `top_p`, hence always one token at least; of equally likely tokens the lower ids come first.
    The rest is not scaled up to 1. (Holtzman et al. 2020, "The Curious Case of Neural Text
    Degeneration", section 3.1.)
    """
    if top_p == 1:  # rounding in the sum below could drop the unlikeliest tokens
        return probabilities
    ordered, ids = torch.sort(probabilities, descending=True, stable=True)
    # How much probability lies before each token, in float64: sums of thousands stay accurate.
    likelier = ordered.double().cumsum(-1).roll(1)
    likelier[0] = 0.0
    kept = torch.where(likelier < top_p, ordered, 0.0)
    return torch.zeros_like(probabilities).scatter(-1, ids, kept)


def _check_sampling(temperature: float, top_p: float) -> None:
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature is {temperature}: it must be 0 (greedy) or more, and finite")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}: it must be above 0 and at most 1")
