"""The training loss: cross-entropy between predicted and actual next tokens."""

from __future__ import annotations

from torch import Tensor

from cs336_basics.model.layers import at_least_float32, check_ids


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean of -log softmax(logits)[target], in nats: a scalar tensor, float32 or float64.

    `logits` are (..., vocab), `targets` int32 or int64 of shape (...): one class for every row of
    logits, whatever the batch dimensions. 16-bit logits are summed up in float32.

    Raises ValueError where the shapes do not fit or there is no target, TypeError where targets
    are not int32 or int64, and, on the CPU, IndexError for a target outside the vocabulary.
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"targets must have the shape of logits without its last dimension: logits are "
            f"{tuple(logits.shape)}, targets {tuple(targets.shape)}"
        )
    if targets.numel() == 0:
        raise ValueError(f"no targets to average over: their shape is {tuple(targets.shape)}")
    check_ids(targets, logits.shape[-1], "targets")

    # -log(e^x_t / sum e^x) = log(sum e^x) - x_t. Taking the maximum away from all x first changes
    # nothing but keeps the largest exponential at e^0 = 1, so that none overflows, and x_t small,
    # so that the difference keeps its digits. A constant needs no gradient.
    precise = at_least_float32(logits)  # (..., vocab)
    shifted = precise - precise.amax(dim=-1, keepdim=True).detach()  # (..., vocab)
    log_normalizer = shifted.exp().sum(dim=-1).log()  # (...)
    target_logit = shifted.gather(-1, targets.long().unsqueeze(-1)).squeeze(-1)  # (...)
    return (log_normalizer - target_logit).mean()
