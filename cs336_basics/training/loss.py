"""The training loss: cross-entropy between predicted and actual next tokens.

`cross_entropy` is the definition; `chunked_cross_entropy` computes the same loss and gradients
without ever holding the logits of a whole batch.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.checkpoint import checkpoint

from cs336_basics.model import TransformerLM
from cs336_basics.model.layers import at_least_float32


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean of -log softmax(logits)[target], in nats: a scalar tensor, float32 or float64.

    `logits` are (..., vocab), `targets` int32 or int64 of shape (...): one class for every row of
    logits, whatever the batch dimensions. 16-bit logits are summed up in float32.

    Raises ValueError where the shapes do not fit or there is no target, TypeError where targets
    are not integers; and torch raises, on the CPU, for a target outside the vocabulary.
    """
    _check_targets(targets, logits, "logits")

    # -log(e^x_t / sum e^x) = log(sum e^x) - x_t. Subtracting the maximum from all x first does
    # not change the result; it makes the largest exponential e^0 = 1, so none overflows, and keeps
    # x_t small, so the difference keeps its digits. The maximum is a constant: it has no gradient.
    precise = at_least_float32(logits)  # (..., vocab)
    shifted = precise - precise.amax(dim=-1, keepdim=True).detach()  # (..., vocab)
    log_normalizer = shifted.exp().sum(dim=-1).log()  # (...)
    target_logit = shifted.gather(-1, targets.long().unsqueeze(-1)).squeeze(-1)  # (...)
    return (log_normalizer - target_logit).mean()


def chunked_cross_entropy(
    hidden_states: Tensor,
    head: Tensor,
    targets: Tensor,
    num_chunks: int,
    *,
    soft_cap: float | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """cross_entropy(hidden_states @ head.T, targets), a chunk of the rows at a time.

    `hidden_states` are (..., d_model), `head` (vocab, d_model), `targets` int32 or int64 of shape
    (...). With `soft_cap` the logits become soft_cap * tanh(logits / soft_cap) first. Returns the
    mean in nats: a scalar tensor, float32 or float64.

    The logits of a batch are its largest tensor by far, and there are two of them: the logits and
    their gradient. Here the gradient of a chunk, softmax(logits) - onehot(target), is computed in
    the forward pass and multiplied by both factors at once, so the backward pass needs no logits:
    their memory is divided by `num_chunks`, and no product is computed twice. (The
    idea is Liger Kernel's, Hsu et al. 2024, "Liger Kernel: Efficient Triton Kernels for LLM
    Training", section 3.2.)

    `dtype` is the type of the products, None that of `hidden_states`; sums are in float32 at least.

    Raises as `cross_entropy` does, and ValueError where `num_chunks` is below 1.
    """
    _check_targets(targets, hidden_states, "hidden_states")
    if num_chunks < 1:
        raise ValueError(f"num_chunks is {num_chunks}: it must be at least 1")
    loss: Tensor = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden_states.flatten(0, -2) if hidden_states.ndim > 1 else hidden_states.unsqueeze(0),
        head,
        targets.flatten().long(),
        min(num_chunks, targets.numel()),
        soft_cap,
        dtype or hidden_states.dtype,
        torch.is_grad_enabled(),
    )
    return loss


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Computes the loss and, from the same logits, its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_states: Tensor,  # (rows, d_model)
        head: Tensor,  # (vocab, d_model)
        targets: Tensor,  # (rows,)
        num_chunks: int,
        soft_cap: float | None,
        dtype: torch.dtype,
        grad_enabled: bool,  # of the caller: in here it never is, and needs_input_grad ignores it
    ) -> Tensor:
        rows = targets.shape[0]
        wants_gradients = grad_enabled and any(ctx.needs_input_grad[:2])
        weight = head.to(dtype)  # (vocab, d_model)
        total = torch.zeros((), dtype=at_least_float32(head[:0]).dtype, device=head.device)
        hidden_gradients = []
        head_gradient: Tensor | None = None
        for x, target in zip(
            hidden_states.to(dtype).chunk(num_chunks), targets.chunk(num_chunks), strict=True
        ):
            logits = at_least_float32(x @ weight.T)  # (chunk, vocab)
            if soft_cap is not None:
                slope = torch.tanh(logits / soft_cap)
                logits = soft_cap * slope
            # In place from here on: a chunk is large, and its logits are not used again.
            logits -= logits.amax(dim=-1, keepdim=True)
            target = target.unsqueeze(-1)  # (chunk, 1)
            target_logit = logits.gather(-1, target)  # (chunk, 1)
            exponentials = logits.exp_()
            normalizer = exponentials.sum(dim=-1, keepdim=True)  # (chunk, 1)
            total = total + (normalizer.log() - target_logit).sum()
            if not wants_gradients:
                continue
            # rows * d loss / d logits = softmax(logits) - onehot(target). (The division by rows
            # waits for the backward pass: in float16 the quotients could be zero.)
            # A compiler fuses this into one pass over the chunk; a scatter would need a second.
            is_target = torch.arange(head.shape[0], device=head.device) == target
            gradient = exponentials.div_(normalizer)  # (chunk, vocab)
            gradient -= is_target.to(gradient.dtype)
            if soft_cap is not None:
                gradient *= 1 - slope.square_()
            gradient = gradient.to(dtype)
            hidden_gradients.append(gradient @ weight)  # (chunk, d_model)
            product = at_least_float32(gradient.T @ x)  # (vocab, d_model)
            head_gradient = product if head_gradient is None else head_gradient.add_(product)
        if head_gradient is not None:
            ctx.save_for_backward(
                torch.cat(hidden_gradients).to(hidden_states.dtype), head_gradient
            )
            ctx.rows, ctx.head_dtype = rows, head.dtype
        return total / rows

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden_gradient, head_gradient = ctx.saved_tensors
        scale = gradients[0] / ctx.rows
        return (
            (hidden_gradient * scale).to(hidden_gradient.dtype),
            (head_gradient * scale).to(ctx.head_dtype),
            *[None] * 5,
        )


class LanguageModelLoss(Module):
    """A model's loss as a module, so that it can be compiled and distributed.

    `num_chunks` 1 is the readable path: logits, then `cross_entropy`. `precision` "bfloat16" rounds
    the products, under autocast; weights and sums stay in float32. Raises ValueError for another.
    """

    def __init__(
        self, model: TransformerLM, num_chunks: int = 1, precision: str = "float32"
    ) -> None:
        if precision not in ("float32", "bfloat16"):
            raise ValueError(f"precision is {precision!r}: it must be float32 or bfloat16")
        super().__init__()
        self.model = model
        self.num_chunks = num_chunks
        self.dtype = torch.bfloat16 if precision == "bfloat16" else None

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy of targets given inputs, both (batch, sequence)."""
        reduced = self.dtype is not None
        with torch.autocast(inputs.device.type, dtype=self.dtype, enabled=reduced):
            if self.num_chunks == 1:
                logits = self.model(inputs)
            else:
                hidden_states = self.model.hidden_states(inputs)
        if self.num_chunks == 1:
            return cross_entropy(logits, targets)
        return chunked_cross_entropy(
            hidden_states,
            self.model.head_weight,
            targets,
            self.num_chunks,
            soft_cap=self.model.config.logit_soft_cap,
            dtype=self.dtype,
        )


def checkpoint_activations(model: TransformerLM) -> None:
    """Let each block store only its input, and recompute the rest in the backward pass.

    The activations stored for a block shrink to one (batch, sequence, d_model) tensor, at the cost
    of a third more arithmetic (Chen et al. 2016, "Training Deep Nets with Sublinear Memory
    Cost"). The results are the same, bit for bit.
    """
    for layer in model.layers:
        # Nothing in a block is random, so no generator state has to be saved.
        layer.forward = functools.partial(
            checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False
        )


def _check_targets(targets: Tensor, scored: Tensor, name: str) -> None:
    """Check that there is one target for each row of `scored`, and at least one."""
    if targets.is_floating_point():
        raise TypeError(f"targets must be integers, not {targets.dtype}")
    if scored.shape[:-1] != targets.shape:
        raise ValueError(
            f"targets must have the shape of {name} without its last dimension: {name} are "
            f"{tuple(scored.shape)}, targets {tuple(targets.shape)}"
        )
    if targets.numel() == 0:
        raise ValueError(f"no targets to average over: their shape is {tuple(targets.shape)}")
