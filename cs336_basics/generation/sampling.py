"""Sampling a token from logits: temperature, top-k, nucleus, min-p and repetition penalty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cs336_basics._support.errors import InputError
from cs336_basics._support.validation import Checked, Count, option
from cs336_basics.model.attention import softmax
from cs336_basics.model.layers import at_least_float32

# The nucleus of a trained model rarely has more tokens. If it does, the whole vocabulary is sorted.
_USUAL_NUCLEUS = 1024


@dataclass(frozen=True)
class Sampling(Checked):
    """How to draw a token from logits.

    The repetition penalty is applied first, then the temperature, then the filters top-k, top-p and
    min-p, in this order. Each filter receives the renormalized result of the previous one.

    Raises:
        ValueError: If a value is not a number or is out of range.

    Example:
        >>> import torch
        >>> from cs336_basics.generation import Sampling
        >>> Sampling(temperature=0.8, top_p=0.95).draw(torch.tensor([0.0, 100.0, 0.0]))
        1
    """

    temperature: float = option(
        "divisor of the logits; 0 always picks the most likely token", 1.0, ge=0
    )
    top_k: Count | None = option("sample only from this number of most likely tokens", None)
    top_p: float = option(
        "sample only from the smallest set of most likely tokens with at least this probability",
        1.0, gt=0, le=1,
    )  # fmt: skip
    min_p: float = option(
        "sample only from tokens with at least this fraction of the highest probability",
        0.0, ge=0, le=1,
    )  # fmt: skip
    repetition_penalty: float = option(
        "above 1, makes tokens that already occur in the text less likely", 1.0, gt=0
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
            logits: Logits of one text, shape (vocab_size,).
            previous_ids: Ids in the text so far, for the repetition penalty.
            generator: A CPU generator. Defaults to torch's global generator.
            allowed: Boolean CPU tensor of shape (vocab_size,), True for ids that may be drawn. At
                least one must be True. Defaults to all ids.

        Raises:
            ValueError: If the logits have the wrong shape or are not finite.
        """
        if logits.ndim != 1 or not len(logits):
            raise InputError(
                f"must have shape (vocab_size,), got {tuple(logits.shape)}", argument="logits"
            )
        (token_id,) = self.draw_rows(logits[None], [previous_ids], [generator], allowed=allowed)
        return token_id

    def draw_rows(
        self,
        logits: Tensor,
        previous_ids: Sequence[Sequence[int]],
        generators: Sequence[torch.Generator | None],
        *,
        allowed: Tensor | None = None,
    ) -> list[int]:
        """Draw one token id for each of several texts, as `draw` does for one.

        Args:
            logits: Logits, shape (texts, vocab_size).
            previous_ids: Ids in each text so far.
            generators: A CPU generator for each text. None stands for torch's global generator.
            allowed: See `draw`.

        Raises:
            ValueError: If the logits are not finite.
        """
        logits = at_least_float32(logits.detach().cpu())  # NumPy has no bfloat16
        # Here and below, NumPy is ten times as fast as torch (benchmarks/NOTES.md).
        if not np.isfinite(logits.numpy()).all():
            raise InputError(
                "must be finite, got inf or NaN; the model's weights may be damaged",
                argument="logits",
            )
        if self.temperature == 0 and self.repetition_penalty == 1 and allowed is None:
            most_likely: list[int] = logits.numpy().argmax(axis=-1).tolist()
            return most_likely
        logits = logits.double()  # a tiny temperature would be 0 in float32
        if self.repetition_penalty != 1:
            penalty = self.repetition_penalty
            rows = zip(logits, previous_ids, strict=True)
            logits = torch.stack([penalize_repetition(row, ids, penalty) for row, ids in rows])
        if allowed is not None:
            logits = logits.masked_fill(~allowed, -math.inf)
        if self.temperature == 0:
            greedy: list[int] = logits.numpy().argmax(axis=-1).tolist()
            return greedy
        distributions = at_temperature(logits, self.temperature)
        return [
            int(torch.multinomial(self.filtered(distribution), 1, generator=generator))
            for distribution, generator in zip(distributions, generators, strict=True)
        ]

    def filtered(self, probabilities: Tensor) -> Tensor:
        """Return a distribution (vocab_size,), with 0 for tokens that a filter rejects.

        The result is not renormalized.
        """
        if self.top_k is not None:
            probabilities = keep_top_k(probabilities, self.top_k)
            probabilities = probabilities / probabilities.sum()
        probabilities = keep_nucleus(probabilities, self.top_p)
        # Min-p only compares probabilities with each other, so they need not sum to 1.
        return keep_likely(probabilities, self.min_p)


def at_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Return the distributions (..., vocab_size) of logits at a positive temperature."""
    # Subtracting the maximum first prevents overflow with a tiny temperature.
    return softmax((logits - logits.amax(dim=-1, keepdim=True)) / temperature, dim=-1)


def penalize_repetition(logits: Tensor, previous_ids: Sequence[int], penalty: float) -> Tensor:
    """Return logits (vocab_size,) that make tokens in the text so far less likely (penalty > 1).

    Positive logits are divided by the penalty and negative logits multiplied by it, once per token
    no matter how often it occurred (Keskar et al. 2019, "CTRL", section 4.1). The rule for negative
    logits comes from the paper's code; dividing them would make the token more likely.
    """
    ids = torch.tensor(sorted(set(previous_ids)), dtype=torch.long)
    seen = logits[ids]
    result = logits.clone()
    penalized = torch.where(seen > 0, seen / penalty, seen * penalty)
    # Clamping keeps an extreme penalty from producing infinite logits.
    result[ids] = penalized.clamp(-torch.finfo(logits.dtype).max, torch.finfo(logits.dtype).max)
    return result


def keep_top_k(probabilities: Tensor, top_k: int) -> Tensor:
    """Return a distribution (vocab_size,) with all but the `top_k` most likely tokens set to 0.

    Ties go to the lower ids. The result is not renormalized (Fan et al. 2018, "Hierarchical Neural
    Story Generation", section 5.4).
    """
    if top_k >= len(probabilities):
        return probabilities
    ids = _most_likely(probabilities, top_k)[:top_k]
    return torch.zeros_like(probabilities).scatter(-1, ids, probabilities[ids])


def keep_nucleus(probabilities: Tensor, top_p: float) -> Tensor:
    """Return a distribution (vocab_size,) with all tokens outside the nucleus set to 0.

    The nucleus is the smallest set of most likely tokens whose probabilities sum to at least
    `top_p`, so it is never empty. Ties go to the lower ids. The result is not renormalized
    (Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1).
    """
    if top_p == 1:  # rounding in the sum below could drop the least likely tokens
        return probabilities
    for number in (_USUAL_NUCLEUS, len(probabilities)):
        ids = _most_likely(probabilities, number)
        ordered = probabilities[ids]
        sums = ordered.double().cumsum(-1)  # float64 keeps long sums accurate
        if sums[-1] >= top_p:
            break
    likelier = sums.roll(1)  # the total probability of the tokens before each token
    likelier[0] = 0.0
    kept = torch.where(likelier < top_p, ordered, 0.0)
    return torch.zeros_like(probabilities).scatter(-1, ids, kept)


def _most_likely(probabilities: Tensor, number: int) -> Tensor:
    """Return the ids of at least the `number` most likely tokens, the most likely first.

    Ties go to the lower ids. Sorting only these tokens is 4 to 50 times as fast as sorting the
    whole vocabulary (benchmarks/NOTES.md).
    """
    if number < len(probabilities):
        least = torch.topk(probabilities, number).values[-1]
        ids = torch.nonzero(probabilities >= least)[:, 0]
    else:
        ids = torch.arange(len(probabilities), device=probabilities.device)
    return ids[torch.sort(probabilities[ids], descending=True, stable=True).indices]


def keep_likely(probabilities: Tensor, min_p: float) -> Tensor:
    """Return a distribution (vocab_size,) with tokens below `min_p` times the maximum set to 0.

    The result is not renormalized (Nguyen et al. 2024, "Turning Up the Heat: Min-p Sampling",
    section 3).
    """
    return torch.where(probabilities >= min_p * probabilities.max(), probabilities, 0.0)
