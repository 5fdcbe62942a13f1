"""Vectors of pairs of tokens, which a model adds to its embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor
from torch.nn import Module, Parameter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ids = TypeVar("Ids", Tensor, npt.NDArray[np.int64])

NO_TOKEN = -1
"""Id that stands for the token before the first token of a text or document."""


def bigram_rows(previous: Ids, token_ids: Ids, num_rows: int) -> Ids:
    """Return the row of each pair of tokens in a table with `num_rows` rows.

    There are too many pairs for a row each, so the rows are hashes. The multipliers are arbitrary
    odd numbers that are small enough for products of 32-bit ids.

    Args:
        previous: Id of the token before each token, or NO_TOKEN, int64, shape (...).
        token_ids: Id of each token, int64, shape (...).
        num_rows: Number of rows.
    """
    rows: Ids = (previous * 0x5BD1E995 ^ token_ids * 0x1B873593) % num_rows
    return rows


def previous_tokens(token_ids: Tensor, first: Tensor, documents: Tensor | None = None) -> Tensor:
    """Return the id of the token before each token of a sequence, with the shape of `token_ids`.

    Args:
        token_ids: Ids, shape (..., sequence).
        first: Id of the token before the sequence, or NO_TOKEN, shape (..., 1).
        documents: Number of the document that contains each token, with the shape of `token_ids`.
            NO_TOKEN is before the first token of each.
    """
    previous = torch.cat((first, token_ids), dim=-1)[..., :-1]
    if documents is not None:
        starts = documents[..., 1:] != documents[..., :-1]
        previous[..., 1:] = previous[..., 1:].masked_fill(starts, NO_TOKEN)
    return previous


class BigramEmbedding(Module):
    """A table of vectors of pairs of tokens: each token and the token before it.

    The first block then knows the previous token without having to attend to it. The row of a pair
    is a hash, so several pairs share a row (Pagnoni et al. 2024, "Byte Latent Transformer: Patches
    Scale Better Than Tokens", section 3.2.1; Svenstrup et al. 2017, "Hash Embeddings for Efficient
    Word Representations").

    `weight` has shape (num_rows, embedding_dim) and starts at 0, so a model starts as it would
    without the table. `scale`, the factor of each feature, has shape (embedding_dim,) and starts at
    1.
    """

    def __init__(
        self,
        num_rows: int,
        embedding_dim: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.weight = Parameter(torch.zeros(num_rows, embedding_dim, device=device, dtype=dtype))
        self.scale = Parameter(torch.ones(embedding_dim, device=device, dtype=dtype))

    def forward(self, previous: Tensor, token_ids: Tensor) -> Tensor:
        """Return the vectors (..., embedding_dim) of pairs of ids (...), int32 or int64."""
        rows = bigram_rows(previous.long(), token_ids.long(), len(self.weight))
        return self.weight[rows] * self.scale
