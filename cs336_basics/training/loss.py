"""The training loss: cross-entropy between predicted and actual next tokens.

`cross_entropy` is the definition, the mean of `token_losses`. `chunked_cross_entropy` computes the
same loss and gradients without storing the logits of a complete batch.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Module

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.model import TransformerLM
from cs336_basics.model.layers import at_least_float32
from cs336_basics.training.products import PRODUCTS


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of -log softmax(logits)[target] in nats, as a scalar tensor.

    See `token_losses` for the arguments and errors.

    Example:
        >>> import torch
        >>> from cs336_basics.training import cross_entropy
        >>> round(float(cross_entropy(torch.zeros(2, 8), torch.tensor([1, 5]))), 4)  # ln 8
        2.0794
    """
    return token_losses(logits, targets).mean()


def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Return -log softmax(logits)[target] of each target in nats.

    Args:
        logits: Shape (..., vocab). 16-bit logits are summed in float32.
        targets: Index of the correct class in each row, int32 or int64, shape (...).

    Returns:
        Losses of shape (...), float32 or float64.

    Raises:
        ValueError: If the shapes do not match or there are no targets.
        TypeError: If the targets are not integers.
        RuntimeError: If a target is outside the vocabulary (checked only on the CPU).
    """
    if targets.is_floating_point():
        raise InputTypeError(f"must have an integer dtype, got {targets.dtype}", argument="targets")
    if logits.shape[:-1] != targets.shape:
        raise InputError(
            f"must have shape {tuple(logits.shape[:-1])}, the shape of logits without its last "
            f"dimension, got {tuple(targets.shape)}",
            argument="targets",
        )
    if targets.numel() == 0:
        raise InputError(f"must not be empty, got shape {tuple(targets.shape)}", argument="targets")

    # -log(e^x_t / sum e^x) = log(sum e^x) - x_t. Subtracting the maximum from all x does not change
    # the result. It makes the largest exponential e^0 = 1, which prevents overflow, and keeps x_t
    # small, which keeps the difference precise. No gradient flows through the maximum.
    precise = at_least_float32(logits)  # (..., vocab)
    shifted = precise - precise.amax(dim=-1, keepdim=True).detach()  # (..., vocab)
    log_normalizer = shifted.exp().sum(dim=-1).log()  # (...)
    target_logit = shifted.gather(-1, targets.long().unsqueeze(-1)).squeeze(-1)  # (...)
    return log_normalizer - target_logit


def chunked_cross_entropy(
    hidden_states: Tensor,
    head: Tensor,
    targets: Tensor,
    num_chunks: int,
    *,
    soft_cap: float | None = None,
    dtype: torch.dtype | None = None,
    products: str = "torch",
) -> Tensor:
    """Return cross_entropy(hidden_states @ head.T, targets), computed in chunks of rows.

    The logits and their gradient are by far the largest tensors in a step. Here the forward pass
    computes the gradient of each chunk, softmax(logits) - onehot(target), and multiplies it by
    `head` and by the hidden states, so the backward pass needs no logits. The memory for logits is
    divided by `num_chunks`, and no product is computed twice (Hsu et al. 2024, "Liger Kernel:
    Efficient Triton Kernels for LLM Training", section 3.2).

    Args:
        hidden_states: Shape (..., d_model).
        head: Matrix of the output head, shape (vocab, d_model).
        targets: int32 or int64, shape (...). A negative target is not counted.
        num_chunks: Number of chunks, at least 1.
        soft_cap: If given, the logits become soft_cap * tanh(logits / soft_cap).
        dtype: Dtype of the matrix products; sums are in float32 or float64. Defaults to the dtype
            of `hidden_states`.
        products: Key of PRODUCTS, which selects the library for matrix products.

    Returns:
        The mean loss of the counted targets in nats, as a float32 or float64 scalar tensor. It is 0
        if there are none.
    """
    loss: Tensor = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden_states.reshape(-1, hidden_states.shape[-1]),
        head,
        targets.flatten().long(),
        min(num_chunks, targets.numel()),
        soft_cap,
        dtype or hidden_states.dtype,
        products,
        torch.is_grad_enabled(),
    )
    return loss


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Computes the loss and its gradients from the same logits."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_states: Tensor,  # (rows, d_model)
        head: Tensor,  # (vocab, d_model)
        targets: Tensor,  # (rows,)
        num_chunks: int,
        soft_cap: float | None,
        dtype: torch.dtype,
        products: str,
        grad_enabled: bool,  # the caller's setting, which is always off inside `forward`
    ) -> Tensor:
        multiply, weight_gradient = PRODUCTS[products]
        rows = num_counted(targets)
        wants_gradients = grad_enabled and any(ctx.needs_input_grad[:2])
        weight = head.to(dtype)  # (vocab, d_model)
        total = torch.zeros((), dtype=at_least_float32(head[:0]).dtype, device=head.device)
        hidden_gradients = []
        head_gradient: Tensor | None = None
        for x, target in zip(
            hidden_states.to(dtype).chunk(num_chunks), targets.chunk(num_chunks), strict=True
        ):
            logits = at_least_float32(multiply(x, weight.T))  # (chunk, vocab)
            if soft_cap is not None:
                slope = torch.tanh(logits / soft_cap)
                logits = soft_cap * slope
            # From here on, work in place, because a chunk is large.
            logits -= logits.amax(dim=-1, keepdim=True)
            is_counted = target.unsqueeze(-1) >= 0  # (chunk, 1)
            target = target.unsqueeze(-1).clamp(min=0)  # (chunk, 1)
            target_logit = logits.gather(-1, target)  # (chunk, 1)
            exponentials = logits.exp_()
            normalizer = exponentials.sum(dim=-1, keepdim=True)  # (chunk, 1)
            losses = normalizer.log() - target_logit
            total = total + losses.where(is_counted, 0.0).sum()
            if not wants_gradients:
                continue
            normalizer = normalizer.where(is_counted, math.inf)  # makes the gradient 0
            # rows * d loss / d logits = softmax(logits) - onehot(target) in a counted row. The
            # backward pass divides by rows, because here the quotients could underflow to zero in
            # float16.
            gradient = exponentials.div_(normalizer)  # (chunk, vocab)
            row = torch.arange(target.shape[0], device=target.device)
            gradient[row, target[:, 0]] -= is_counted[:, 0].to(gradient.dtype)
            if soft_cap is not None:
                gradient *= 1 - slope.square_()
            gradient = gradient.to(dtype)
            hidden_gradients.append(multiply(gradient, weight))  # (chunk, d_model)
            product = at_least_float32(weight_gradient(gradient, x))  # (vocab, d_model)
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
            *[None] * 6,
        )


def num_counted(targets: Tensor) -> Tensor:
    """Return the number of targets that are not negative, but at least 1, as a scalar tensor."""
    return (targets >= 0).sum().clamp(min=1)


def chunked_token_losses(
    hidden_states: Tensor,
    head: Tensor,
    targets: Tensor,
    num_chunks: int,
    *,
    soft_cap: float | None = None,
    dtype: torch.dtype | None = None,
    products: str = "torch",
) -> Tensor:
    """Return the loss of each target as `chunked_cross_entropy` computes it, without gradients.

    See `chunked_cross_entropy` for the arguments. The losses have the shape of the targets.
    """
    multiply, _ = PRODUCTS[products]
    rows = hidden_states.reshape(-1, hidden_states.shape[-1]).to(dtype or hidden_states.dtype)
    num_chunks = min(num_chunks, targets.numel())
    found = []
    with torch.no_grad():
        weight = head.to(rows.dtype)  # (vocab, d_model)
        for x, target in zip(
            rows.chunk(num_chunks), targets.flatten().chunk(num_chunks), strict=True
        ):
            logits = at_least_float32(multiply(x, weight.T))  # (chunk, vocab)
            if soft_cap is not None:
                logits = soft_cap * torch.tanh(logits / soft_cap)
            found.append(token_losses(logits, target.clamp(min=0)))
    return torch.cat(found).view(targets.shape)


class LanguageModelLoss(Module):
    """A model's loss, as a module that can be compiled and distributed.

    Args:
        model: The model.
        num_chunks: Number of chunks of logits. With 1, the readable `cross_entropy` is used.
        precision: "float32", or "bfloat16" for matrix products under autocast. Weights and sums
            stay in float32.
        products: Key of PRODUCTS, used if the head is computed in chunks.
        document_start: Id of the token with which each document starts. Tokens then attend only to
            their own document. By default, they attend to all earlier tokens.
    """

    def __init__(
        self,
        model: TransformerLM,
        num_chunks: int = 1,
        precision: str = "float32",
        products: str = "torch",
        document_start: int | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.document_start = document_start
        self.num_chunks = num_chunks
        self.products = products
        self.dtype = torch.bfloat16 if precision == "bfloat16" else None

    def forward(
        self, inputs: Tensor, targets: Tensor, reduction: Literal["mean", "none"] = "mean"
    ) -> Tensor:
        """Return the cross-entropy of targets given inputs, both (batch, sequence).

        Args:
            inputs, targets: Ids. A negative target is not counted.
            reduction: "mean" returns a scalar tensor, which is 0 if no target is counted. "none"
                returns the loss of each target, in chunks without gradients; the losses of negative
                targets have no meaning.
        """
        reduced = self.dtype is not None
        documents = None
        if self.document_start is not None:
            documents = (inputs == self.document_start).cumsum(-1)
        with torch.autocast(inputs.device.type, dtype=self.dtype, enabled=reduced):
            if self.num_chunks == 1:
                logits = self.model(inputs, documents=documents)
            else:
                hidden_states = self.model.hidden_states(inputs, documents=documents)
        if self.num_chunks == 1:
            losses = token_losses(logits, targets.clamp(min=0))
            if reduction == "none":
                return losses
            return losses.where(targets >= 0, 0.0).sum() / num_counted(targets)
        loss = chunked_token_losses if reduction == "none" else chunked_cross_entropy
        return loss(
            hidden_states,
            self.model.head_weight,
            targets,
            self.num_chunks,
            soft_cap=self.model.config.logit_soft_cap,
            dtype=self.dtype,
            products=self.products,
        )
