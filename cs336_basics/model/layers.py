"""The building blocks of a Transformer: Linear, Embedding, RMSNorm and feed-forward networks.

They are written from scratch and use only `Parameter` and `Module` from `torch.nn`. In shapes,
"..." stands for any number of batch dimensions, possibly none.
"""

# Calling a torch Module returns Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from cs336_basics._support.arguments import check_is_number, checked_integer
from cs336_basics._support.errors import InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics.model.init import draw_matrix, draw_table, has_values


class Linear(Module):
    """A linear map, y = W x, or with a bias, y = W x + b.

    `weight` has shape (out_features, in_features) and is drawn by `init.draw_matrix`. `bias` is
    None, or has shape (out_features,) and starts at 0.

    Args:
        in_features: Size of the last dimension of x.
        out_features: Size of the last dimension of y.
        device: Device of the weights. Defaults to the CPU.
        dtype: Dtype of the weights. Defaults to torch's default dtype.
        bias: Whether to add b.

    Raises:
        TypeError: If a size is not an int.
        ValueError: If a size is not positive.

    Example:
        >>> import torch
        >>> from cs336_basics.model import Linear
        >>> Linear(16, 4)(torch.zeros(2, 16)).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = False,
    ) -> None:
        super().__init__()
        in_features = checked_integer("in_features", in_features, 1)
        out_features = checked_integer("out_features", out_features, 1)
        self.weight = Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        draw_matrix(self.weight)
        self.bias: Parameter | None = None
        if bias:
            self.bias = Parameter(torch.zeros(out_features, device=device, dtype=dtype))
        self.multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul
        """Function that returns the product of the input, (..., in_features), and W^T."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x from (..., in_features) to (..., out_features)."""
        # Tokens are rows here, so the textbook's W x becomes x W^T.
        return self.with_bias(self.multiply(x, self.weight.T))

    def with_bias(self, product: Tensor) -> Tensor:
        """Return a product (..., out_features) with the bias, if there is one, in its dtype."""
        return product if self.bias is None else product + self.bias.to(product.dtype)


class Embedding(Module):
    """A table with one learned vector per token id.

    `weight` has shape (num_embeddings, embedding_dim) and is drawn by `init.draw_table`.

    Args:
        num_embeddings: Number of ids.
        embedding_dim: Number of features of a vector.
        device: Device of the weights. Defaults to the CPU.
        dtype: Dtype of the weights. Defaults to torch's default dtype.

    Raises:
        TypeError: If a size is not an int.
        ValueError: If a size is not positive.

    Example:
        >>> import torch
        >>> from cs336_basics.model import Embedding
        >>> Embedding(50, 16)(torch.tensor([[1, 2, 3]])).shape
        torch.Size([1, 3, 16])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        num_embeddings = checked_integer("num_embeddings", num_embeddings, 1)
        embedding_dim = checked_integer("embedding_dim", embedding_dim, 1)
        self.weight = Parameter(
            torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
        )
        draw_table(self.weight)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Return the vectors (..., embedding_dim) for token_ids (...), int32 or int64.

        Raises:
            TypeError, IndexError: See `check_ids`.
        """
        check_ids(token_ids, self.weight.shape[0])
        return self.weight[token_ids]


class RMSNorm(Module):
    """Root mean square normalization, x / sqrt(mean(x^2) + eps) * gain (Zhang & Sennrich 2019).

    `weight`, the gain, has shape (d_model,) and starts at 1. The computation runs in float32, or in
    float64 if x is float64, because in 16 bits, squares overflow and means lose precision. The
    result is cast back to the dtype of x.

    Args:
        d_model: Size of the last dimension of x.
        eps: Added to the mean, so that the root is not 0.
        device: Device of the weights. Defaults to the CPU.
        dtype: Dtype of the weights. Defaults to torch's default dtype.

    Raises:
        TypeError: If a size is not an int, or `eps` is not a number.
        ValueError: If a size is not positive.

    Example:
        >>> import torch
        >>> from cs336_basics.model import RMSNorm
        >>> RMSNorm(2, eps=0.0)(torch.tensor([3.0, 3.0])).tolist()
        [1.0, 1.0]
    """

    def __init__(
        self,
        d_model: int,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        d_model = checked_integer("d_model", d_model, 1)
        check_is_number("eps", eps)
        self.eps = eps
        self.weight = Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize x, (..., d_model), over its last dimension."""
        precise = at_least_float32(x)  # (..., d_model)
        mean_square = precise.square().mean(dim=-1, keepdim=True)  # (..., 1)
        normalized = precise * torch.rsqrt(mean_square + self.eps)  # (..., d_model)
        return (normalized * self.weight).to(x.dtype)


def silu(x: Tensor) -> Tensor:
    """Return x * sigmoid(x), called SiLU or swish, for each element (Elfwing et al. 2017).

    Example:
        >>> import torch
        >>> from cs336_basics.model import silu
        >>> silu(torch.tensor([0.0, 100.0])).tolist()
        [0.0, 100.0]
    """
    return x * torch.sigmoid(x)


class SwiGLU(Module):
    """Llama's gated feed-forward network, W2 (SiLU(W1 x) * W3 x) (Shazeer 2020).

    d_ff is usually 8/3 d_model, rounded to a multiple of 64. The three matrices then have about as
    many parameters as the classic two matrices with d_ff = 4 d_model.

    Args:
        d_model: Number of features per token.
        d_ff: Number of hidden features.
        device: Device of the weights. Defaults to the CPU.
        dtype: Dtype of the weights. Defaults to torch's default dtype.

    Raises:
        TypeError: If a size is not an int.
        ValueError: If a size is not positive.

    Example:
        >>> import torch
        >>> from cs336_basics.model import SwiGLU
        >>> SwiGLU(16, 64)(torch.zeros(1, 5, 16)).shape
        torch.Size([1, 5, 16])
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        d_model, d_ff = checked_integer("d_model", d_model, 1), checked_integer("d_ff", d_ff, 1)
        self.w1 = Linear(d_model, d_ff, device=device, dtype=dtype)
        self.w2 = Linear(d_ff, d_model, device=device, dtype=dtype)
        self.w3 = Linear(d_model, d_ff, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position of x, (..., d_model), independently."""
        gated = silu(self.w1(x)) * self.w3(x)  # (..., d_ff)
        return self.w2(gated)  # (..., d_model)


class SiLUFeedForward(Module):
    """The feed-forward network without a gate, W2 SiLU(W1 x).

    With d_ff = 4 d_model, it has as many parameters as a SwiGLU with d_ff = 8/3 d_model.

    Args:
        d_model: Number of features per token.
        d_ff: Number of hidden features.
        device: Device of the weights. Defaults to the CPU.
        dtype: Dtype of the weights. Defaults to torch's default dtype.

    Raises:
        TypeError: If a size is not an int.
        ValueError: If a size is not positive.

    Example:
        >>> import torch
        >>> from cs336_basics.model import SiLUFeedForward
        >>> SiLUFeedForward(16, 64)(torch.zeros(1, 5, 16)).shape
        torch.Size([1, 5, 16])
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        d_model, d_ff = checked_integer("d_model", d_model, 1), checked_integer("d_ff", d_ff, 1)
        self.w1 = Linear(d_model, d_ff, device=device, dtype=dtype)
        self.w2 = Linear(d_ff, d_model, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position of x, (..., d_model), independently."""
        return self.w2(silu(self.w1(x)))  # (..., d_ff) -> (..., d_model)


def at_least_float32(x: Tensor) -> Tensor:
    """Return x in float32, or unchanged if it is float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def check_is_tensor(argument: str, value: object) -> None:
    """Raise TypeError if an argument is not a tensor."""
    if not isinstance(value, Tensor):
        raise InputTypeError(
            f"must be a tensor, got {short_repr(value)}",
            argument=argument,
            remedy="convert it with torch.as_tensor",
        )


def check_ids(token_ids: Tensor, vocab_size: int, argument: str = "token_ids") -> None:
    """Check that token ids, or other integers, can index a table with `vocab_size` rows.

    Values are checked only on the CPU and outside `torch.compile`. On a GPU, the check would make
    the host wait for the device, and the kernel has its own check.

    Raises:
        TypeError: If they are not a tensor, or the dtype is not int32 or int64. Torch would treat
            uint8 and bool tensors as masks.
        IndexError: If a value is out of range. Torch would count negative values from the end.
    """
    check_is_tensor(argument, token_ids)
    dtype = token_ids.dtype
    if dtype not in (torch.int32, torch.int64):
        raise InputTypeError(
            f"must be int32 or int64, got {dtype}",
            argument=argument,
            remedy="convert with .long()",
        )
    if torch.compiler.is_compiling() or token_ids.device.type != "cpu" or token_ids.numel() == 0:
        return
    if not has_values(token_ids):
        return
    smallest, largest = (int(value) for value in torch.aminmax(token_ids))
    if smallest < 0 or largest >= vocab_size:
        bad = smallest if smallest < 0 else largest
        name = argument.replace("_", " ")
        raise IndexError(f"{name} must be between 0 and {vocab_size - 1}, got {bad}")
