"""Resizing a model's embedding and output head when its vocabulary grows or shrinks.

The functions modify the model in place and replace the parameters of its embedding and head. Create
a new optimizer afterwards, because the old one still refers to the replaced parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import Parameter

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.model.layers import Embedding, Linear
from cs336_basics.model.transformer import TransformerLM


def resize_embeddings(
    model: TransformerLM,
    vocab_size: int,
    parts: Mapping[int, Sequence[int]] | None = None,
) -> None:
    """Add rows for new ids to a model, without changing the logits of the old ids.

    If `parts` lists the parts of a new id, its row is the mean of their rows. Any other new row is
    the mean of all old rows, which makes the new token about as likely as an average token. With a
    small random row, the new token might become the most likely (Hewitt 2021, "Initializing New
    Word Embeddings for Pretrained Language Models"). Both the embedding and the output head get new
    rows, and `model.config.vocab_size` is updated. Create a new optimizer afterwards.

    Args:
        model: A TransformerLM on any device, not wrapped or compiled.
        vocab_size: New number of ids, at least the current one.
        parts: Mapping from new ids to the old ids that make up their tokens; see
            `tokenizer.token_parts`.

    Raises:
        TypeError: If `model` is not a TransformerLM, or `vocab_size` or an id is not an integer.
        ValueError: If `vocab_size` is below the current size, a key of `parts` is not a new id, or
            a part is not an old id.
    """
    old_size = _vocab_size_of(model)
    vocab_size = checked_integer("vocab_size", vocab_size, 1, 1 << 32, note=" (ids have 32 bits)")
    if vocab_size < old_size:
        raise InputError(
            f"must be at least {old_size:,}, the current size, got {vocab_size:,}",
            argument="vocab_size",
            remedy="to remove rows, use select_embeddings",
        )
    made_of: dict[int, list[int]] = {}
    for new_id, old_ids in (parts or {}).items():
        new_id = checked_integer("parts", new_id, old_size, vocab_size - 1, place="a key")
        made_of[new_id] = [
            checked_integer("parts", part, 0, old_size - 1, place=f"id {new_id}")
            for part in old_ids
        ]

    def grown(table: Tensor) -> Tensor:
        wide = _for_means(table)
        rows = wide.mean(dim=0, keepdim=True).repeat(vocab_size - old_size, 1)
        for new_id, old_ids in made_of.items():
            if old_ids:
                rows[new_id - old_size] = wide[old_ids].mean(dim=0)
        return torch.cat([table, rows.to(table.dtype)])  # (vocab_size, d_model)

    if vocab_size > old_size:
        _replace_tables(model, grown, vocab_size)


def select_embeddings(model: TransformerLM, id_map: npt.NDArray[np.int64]) -> None:
    """Keep only the rows of some ids, and renumber these ids, without changing their logits.

    `model.config.vocab_size` is updated. Create a new optimizer afterwards.

    Args:
        model: A TransformerLM on any device, not wrapped or compiled.
        id_map: Integer array of shape (vocab_size,) that maps an old id to its new id, or to -1 to
            remove the row. The new ids must be 0, 1, 2, ..., each used once. `tokenizer.prune`
            returns such an array.

    Raises:
        TypeError: If `model` is not a TransformerLM, or `id_map` does not have an integer dtype.
        ValueError: If `id_map` has the wrong shape, or a new id is missing or repeated. Also if it
            changes an id of a model with a table of bigrams, whose rows are hashes of ids.
    """
    old_size = _vocab_size_of(model)
    ids = np.asarray(id_map)
    if ids.dtype.kind not in "iu":
        raise InputTypeError(f"must have an integer dtype, got {ids.dtype}", argument="id_map")
    if ids.shape != (old_size,):
        raise InputError(f"must have shape ({old_size},), got {ids.shape}", argument="id_map")
    kept = np.flatnonzero(ids != -1)
    order = kept[np.argsort(ids[kept], kind="stable")]
    if not len(order) or not np.array_equal(ids[order], np.arange(len(order))):
        raise InputError(
            "must contain each new id 0, 1, 2, ... exactly once, and -1 for removed ids",
            argument="id_map",
        )
    if model.bigram_embeddings is not None and not np.array_equal(order, np.arange(len(order))):
        raise InputError(
            "must keep the first ids as they are, because the model's bigram_rows are hashes of "
            "ids",
            argument="id_map",
        )
    index = torch.from_numpy(order)
    _replace_tables(model, lambda table: table[index.to(table.device)], len(order))


def transfer_embeddings(model: TransformerLM, rows: Sequence[Sequence[int]]) -> None:
    """Give a model another vocabulary, where each id starts from ids of the present one.

    The row of an id is the mean of the rows of its old ids, or of all old rows if it has none; see
    `resize_embeddings`. A table of bigrams, whose rows are hashes of ids, starts again at 0.
    `model.config.vocab_size` is updated. Create a new optimizer afterwards.

    Args:
        model: A TransformerLM on any device, not wrapped or compiled.
        rows: The old ids of each new id; see `tokenizer.token_origins`.

    Raises:
        TypeError: If `model` is not a TransformerLM, or an id is not an integer.
        ValueError: If `rows` is empty, or an id is not an old id.
    """
    old_size = _vocab_size_of(model)
    if not rows:
        raise InputError("must not be empty", argument="rows")
    made_of = [
        [checked_integer("rows", part, 0, old_size - 1, place=f"id {new_id}") for part in parts]
        for new_id, parts in enumerate(rows)
    ]

    def transferred(table: Tensor) -> Tensor:
        wide = _for_means(table)
        index = torch.tensor([parts[0] if parts else 0 for parts in made_of], device=table.device)
        result = wide[index]  # (vocab_size, d_model)
        for new_id, parts in enumerate(made_of):
            if len(parts) != 1:
                result[new_id] = (wide[parts] if parts else wide).mean(dim=0)
        return result.to(table.dtype)

    _replace_tables(model, transferred, len(made_of))
    if model.bigram_embeddings is not None:
        with torch.no_grad():
            model.bigram_embeddings.weight.zero_()


def _for_means(table: Tensor) -> Tensor:
    """Return a table whose rows have precise means.

    The sum of 50,000 numbers in bfloat16 would not have a single correct digit.
    """
    return table.float() if table.dtype in (torch.float16, torch.bfloat16) else table


def _vocab_size_of(model: TransformerLM) -> int:
    if not isinstance(model, TransformerLM):
        raise InputTypeError(
            f"must be an unwrapped TransformerLM, got {type(model).__name__}", argument="model"
        )
    return model.config.vocab_size


def _replace_tables(model: TransformerLM, changed: Callable[[Tensor], Tensor], size: int) -> None:
    """Replace the embedding table and, unless it is tied, the head matrix."""
    layers: list[Embedding | Linear] = [model.token_embeddings]
    if model.lm_head is not None:
        layers.append(model.lm_head)
    # A parameter created in inference mode could not be trained later.
    with torch.inference_mode(False), torch.no_grad():
        tables = [changed(layer.weight) for layer in layers]
    for layer, table in zip(layers, tables, strict=True):
        layer.weight = Parameter(table, requires_grad=layer.weight.requires_grad)
    model.config = dataclasses.replace(model.config, vocab_size=size)
