"""The rows of a model's embedding and output head, when its vocabulary grows or shrinks.

The functions change a model in place. Its parameters for ids are then new tensors: create a
new optimizer, since the states of the old one (AdamW's moments) belong to the old parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import Parameter

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.messages import short_repr
from cs336_basics.model.layers import Embedding, Linear
from cs336_basics.model.transformer import TransformerLM


def resize_embeddings(
    model: TransformerLM,
    vocab_size: int,
    parts: Mapping[int, Sequence[int]] | None = None,
) -> None:
    """Give a model rows for new ids; the logits of old ids stay as they are.

    The new row of an id with parts, in the embedding and in the output head (or in the one table of
    tied embeddings), is the mean of the rows of its parts. Any other new row is the mean of all old
    rows: it makes the new token as likely as an average one, where small random rows may make it
    the most likely of all (Hewitt 2021, "Initializing New Word Embeddings for Pretrained Language
    Models"). `model.config.vocab_size` follows. Create a new optimizer afterwards.

    Args:
        model: a TransformerLM, on any device, not wrapped or compiled.
        vocab_size: the new number of ids, at least the present one.
        parts: new id -> the old ids of which its token is made; see `tokenizer.token_parts`.

    Raises:
        TypeError: `model` is not a TransformerLM, or `vocab_size` or an id is not an integer.
        ValueError: `vocab_size` is smaller than that of the model; an id of `parts` is not new, or
            a part is not old.
    """
    old_size = _vocab_size_of(model)
    vocab_size = checked_integer("vocab_size", vocab_size, 1, 1 << 32, note=" (ids have 32 bits)")
    if vocab_size < old_size:
        raise ValueError(
            f"vocab_size is {vocab_size:,}, and the model has {old_size:,} ids: to remove rows, "
            "use select_embeddings"
        )
    if not isinstance(parts, (Mapping, type(None))):
        raise TypeError(f"parts is {short_repr(parts)}: pass a dict of new id -> old ids")
    made_of: dict[int, list[int]] = {}
    for new_id, old_ids in (parts or {}).items():
        new_id = checked_integer("an id of parts", new_id, old_size, vocab_size - 1)
        if not isinstance(old_ids, Iterable):
            raise TypeError(f"the parts of id {new_id} are {short_repr(old_ids)}: pass a list")
        made_of[new_id] = [
            checked_integer(f"a part of id {new_id}", part, 0, old_size - 1) for part in old_ids
        ]

    def grown(table: Tensor) -> Tensor:
        # Sums of 50,000 numbers in bfloat16 would have no correct digit.
        wide = table.float() if table.dtype in (torch.float16, torch.bfloat16) else table
        rows = wide.mean(dim=0, keepdim=True).repeat(vocab_size - old_size, 1)
        for new_id, old_ids in made_of.items():
            if old_ids:
                rows[new_id - old_size] = wide[old_ids].mean(dim=0)
        return torch.cat([table, rows.to(table.dtype)])  # (vocab_size, d_model)

    if vocab_size > old_size:
        _replace_tables(model, grown, vocab_size)


def select_embeddings(model: TransformerLM, id_map: npt.NDArray[np.int64]) -> None:
    """Keep the rows of some ids only, and renumber them; their logits stay as they are.

    `model.config.vocab_size` follows. Create a new optimizer afterwards.

    Args:
        model: a TransformerLM, on any device, not wrapped or compiled.
        id_map: old id -> new id, or -1: the row is removed; shape (vocab_size,), of integers, as
            `tokenizer.prune` returns it. The new ids must be 0, 1, ..., each of them once.

    Raises:
        TypeError: `model` is not a TransformerLM, or `id_map` does not hold integers.
        ValueError: `id_map` has another shape, or a new id is absent or given twice.
    """
    old_size = _vocab_size_of(model)
    ids = np.asarray(id_map)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"id_map has the dtype {ids.dtype}: it must hold integers")
    if ids.shape != (old_size,):
        raise ValueError(f"id_map has the shape {ids.shape}, and the model {old_size:,} ids")
    kept = np.flatnonzero(ids != -1)
    order = kept[np.argsort(ids[kept], kind="stable")]
    if not len(order) or not np.array_equal(ids[order], np.arange(len(order))):
        raise ValueError("id_map must hold the new ids 0, 1, 2, ..., each once, and -1 (removed)")
    index = torch.from_numpy(order)
    _replace_tables(model, lambda table: table[index.to(table.device)], len(order))


def _vocab_size_of(model: TransformerLM) -> int:
    if not isinstance(model, TransformerLM):
        raise TypeError(f"model is of type {type(model).__name__}: pass a TransformerLM itself")
    return model.config.vocab_size


def _replace_tables(model: TransformerLM, changed: Callable[[Tensor], Tensor], size: int) -> None:
    """Replace the embedding's table and, unless they are tied, the matrix of the head."""
    layers: list[Embedding | Linear] = [model.token_embeddings]
    if model.lm_head is not None:
        layers.append(model.lm_head)
    # (A parameter that is made in inference mode could not be trained later.)
    with torch.inference_mode(False), torch.no_grad():
        tables = [changed(layer.weight) for layer in layers]
    for layer, table in zip(layers, tables, strict=True):
        layer.weight = Parameter(table, requires_grad=layer.weight.requires_grad)
    model.config = dataclasses.replace(model.config, vocab_size=size)
