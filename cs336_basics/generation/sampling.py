"""From logits to a token: temperature, top-k, nucleus, min-p, repetition penalty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cs336_basics._support.validation import Checked, Count, option
from cs336_basics.model.attention import softmax


@dataclass(frozen=True)
class Sampling(Checked):
    """How a token is drawn from logits.

    The repetition penalty comes first, then the temperature, then the filters: top-k, top-p,
    min-p. Each filter sees the distribution that those before it leave, scaled to a sum of 1.

    Raises:
        ValueError: a value is not a number, or out of its bounds.
    """

    temperature: float = option(
        "the logits are divided by it; 0 is greedy: always the likeliest token", 1.0, ge=0
    )
    top_k: Count | None = option("sample from this many of the likeliest tokens", None)
    top_p: float = option(
        "sample from the smallest set of likeliest tokens whose probabilities add up to this",
        1.0, gt=0, le=1,
    )  # fmt: skip
    min_p: float = option(
        "sample from tokens whose probability is at least this fraction of the highest",
        0.0, ge=0, le=1,
    )  # fmt: skip
    repetition_penalty: float = option(
        "above 1, tokens that the text already has become less likely", 1.0, gt=0
    )

    def draw(
        self,
        logits: Tensor,
        previous_ids: Sequence[int] = (),
        generator: torch.Generator | None = None,
        *,
        allowed: Tensor | None = None,
    ) -> int:
        """Draw one token id from logits.

        Args:
            logits: of one text, shape (vocab_size,).
            previous_ids: the text so far, for the repetition penalty.
            generator: a CPU generator; None: torch's default.
            allowed: bool, on the CPU, shape (vocab_size,): the ids that may be drawn, at least
                one; None: all.

        Raises:
            ValueError: the logits have another shape, or are not finite.
        """
        if logits.ndim != 1:
            raise ValueError(f"logits have the shape {tuple(logits.shape)}, not (vocab_size,)")
        logits = logits.double().cpu()  # in float32 a tiny temperature would be zero
        if not torch.isfinite(logits).all():
            raise ValueError("the model's logits are not finite: its weights are damaged")
        if self.repetition_penalty != 1:
            logits = penalize_repetition(logits, previous_ids, self.repetition_penalty)
        if allowed is not None:
            logits = logits.masked_fill(~allowed, -math.inf)
        if self.temperature == 0:
            return int(logits.argmax())
        # The maximum goes first: a tiny temperature would otherwise make infinities of differences.
        probabilities = softmax((logits - logits.max()) / self.temperature, dim=-1)
        if self.top_k is not None:
            probabilities = keep_top_k(probabilities, self.top_k)
            probabilities = probabilities / probabilities.sum()
        # The next one only compares probabilities with each other, so it needs no scaling.
        probabilities = keep_nucleus(probabilities, self.top_p)
        probabilities = keep_likely(probabilities, self.min_p)
        return int(torch.multinomial(probabilities, 1, generator=generator))


def penalize_repetition(logits: Tensor, previous_ids: Sequence[int], penalty: float) -> Tensor:
    """Return logits (vocab_size,) in which tokens of the text so far are less likely (penalty > 1).

    Positive logits are divided by the penalty and negative ones multiplied, once, however often
    the token occurred. (Keskar et al. 2019, "CTRL", section 4.1; for negative logits the rule of
    its code, since a division would favour them.)
    """
    ids = torch.tensor(sorted(set(previous_ids)), dtype=torch.long)
    seen = logits[ids]
    result = logits.clone()
    penalized = torch.where(seen > 0, seen / penalty, seen * penalty)
    # An extreme penalty gives no infinity, which would be the only token or none.
    result[ids] = penalized.clamp(-torch.finfo(logits.dtype).max, torch.finfo(logits.dtype).max)
    return result


def keep_top_k(probabilities: Tensor, top_k: int) -> Tensor:
    """Return a distribution (vocab_size,) with all but its `top_k` likeliest tokens set to 0.

    Of equally likely tokens the lower ids come first. What stays is not scaled up to 1. (Fan et
    al. 2018, "Hierarchical Neural Story Generation", section 5.4.)
    """
    if top_k >= len(probabilities):
        return probabilities
    ids = torch.sort(probabilities, descending=True, stable=True).indices[:top_k]
    return torch.zeros_like(probabilities).scatter(-1, ids, probabilities[ids])


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


def keep_likely(probabilities: Tensor, min_p: float) -> Tensor:
    """Return a distribution (vocab_size,) without tokens below `min_p` times the highest.

    What stays is not scaled up to 1. (Nguyen et al. 2024, "Turning Up the Heat: Min-p Sampling",
    section 3.)
    """
    return torch.where(probabilities >= min_p * probabilities.max(), probabilities, 0.0)
