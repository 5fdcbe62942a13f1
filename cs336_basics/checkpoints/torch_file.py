"""CS336's checkpoint format, written by `torch.save`. Runs use the format in `checkpoint.py`."""

from __future__ import annotations

import contextlib
import operator
import os
import zipfile
from typing import IO, Any

import numpy as np
import torch
from torch.nn import Module
from torch.optim import Optimizer

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_reason
from cs336_basics._support.reading import open_regular
from cs336_basics.checkpoints.states import (
    check_groups,
    checked_state,
    checked_weights,
    kind_of,
    plain_name,
)

PathOrFile = str | os.PathLike[str] | IO[bytes]


def save_checkpoint(model: Module, optimizer: Optimizer, iteration: int, out: PathOrFile) -> None:
    """Write a model, its optimizer and the iteration to a path or a binary file object.

    A file at the path is replaced atomically. The weights of a compiled model are saved under their
    plain names.

    Args:
        model: The model.
        optimizer: Its optimizer.
        iteration: Number of steps taken.
        out: Path, or binary file object that is open for writing.

    Example:
        >>> import torch
        >>> from cs336_basics.training import AdamW, save_checkpoint
        >>> model = torch.nn.Linear(2, 3)
        >>> save_checkpoint(model, AdamW(model.parameters()), 100, "checkpoint.pt")
    """
    content = {
        "model": {plain_name(name): value for name, value in model.state_dict().items()},
        "optimizer": _plain_numbers(optimizer.state_dict()),
        "kind": kind_of(optimizer),
        "iteration": operator.index(iteration),
    }
    with _opened(out, atomic_writer) as file:
        torch.save(content, file)


def load_checkpoint(src: PathOrFile, model: Module, optimizer: Optimizer | None) -> int:
    """Restore a model and its optimizer in place, and return the iteration.

    Args:
        src: Path, or binary file object, which is read from the start.
        model: Model whose weights are replaced.
        optimizer: Optimizer whose state is replaced. None restores only the weights.

    Raises:
        ValueError: If `src` is not a checkpoint, is damaged, or was saved from a different model or
            optimizer. The model and the optimizer are then unchanged.

    Example:
        >>> import io, torch
        >>> from cs336_basics.training import AdamW, load_checkpoint, save_checkpoint
        >>> model, file = torch.nn.Linear(2, 3), io.BytesIO()
        >>> save_checkpoint(model, AdamW(model.parameters()), 100, file)
        >>> load_checkpoint(file, torch.nn.Linear(2, 3), None)
        100
    """
    source = os.fspath(src) if isinstance(src, (str, os.PathLike)) else "the file object"
    with _opened(src, open_regular) as file:
        content = _read(file, source)
    match content:
        case {
            "model": dict(weights),
            "optimizer": {"state": dict(state), "param_groups": list(groups)},
            "iteration": int(iteration),
        } if type(iteration) is int and iteration >= 0 and all(type(k) is str for k in weights):
            pass
        case _:
            raise InputError(
                f'{source} is not a checkpoint: it must have "model", "optimizer" and "iteration"'
            )
    weights = checked_weights(model, weights, source)
    if optimizer is not None:
        state = checked_state(optimizer, state, content.get("kind"), source)
        try:
            check_groups(optimizer, groups)
            optimizer.load_state_dict({"param_groups": groups, "state": state})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{source} was saved by a different optimizer: {short_reason(error)}"
            ) from error
    model.load_state_dict(weights)
    return iteration


def _opened(source: PathOrFile, opener: Any) -> Any:
    is_path = isinstance(source, (str, os.PathLike))
    return opener(source) if is_path else contextlib.nullcontext(source)


def _read(file: IO[bytes], source: str) -> Any:
    try:
        # `torch.load` ignores checksums and unpacks compressed files to any size.
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            # Entries that share bytes could take quadratic time. `testzip` opens entries by name,
            # so entries with the same name share bytes, too.
            shared = len({member.filename for member in members}) < len(members)
            if shared or sum(m.compress_size for m in members) > file.seek(0, os.SEEK_END):
                raise InputError("its entries overlap or have the same name")
            for member in members:
                if member.compress_type != zipfile.ZIP_STORED or member.external_attr != 0:
                    raise InputError(f"{member.filename!a} is compressed or has unusual attributes")
            if (damaged := archive.testzip()) is not None:
                raise InputError(f"the checksum of {damaged!a} is wrong")
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # a damaged file can raise an error anywhere
        raise InputError(
            f"{source} is not a checkpoint, or it is damaged: {short_reason(error)}"
        ) from error


def _plain_numbers(value: Any) -> Any:
    """Convert NumPy scalars, which `weights_only=True` rejects, to Python numbers."""
    if isinstance(value, np.generic):
        return float(value) if isinstance(value, np.floating) else value.item()
    if type(value) is dict:
        return {key: _plain_numbers(item) for key, item in value.items()}
    return type(value)(map(_plain_numbers, value)) if type(value) in (list, tuple) else value
