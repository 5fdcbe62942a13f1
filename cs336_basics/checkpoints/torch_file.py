"""Checkpoints as CS336 defines them, in a file of `torch.save`; a run's are in `checkpoint.py`."""

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

from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_reason
from cs336_basics._support.reading import open_regular
from cs336_basics.checkpoints.states import checked_state, checked_weights, kind_of, plain_name

Source = str | os.PathLike[str] | IO[bytes]


def save_checkpoint(model: Module, optimizer: Optimizer, iteration: int, out: Source) -> None:
    """Write the states of model and optimizer, and `iteration`, to a path or binary file object.

    A path is replaced in one step. A model from `torch.compile` is saved under its plain names.
    """
    content = {
        "model": {plain_name(name): value for name, value in model.state_dict().items()},
        "optimizer": _plain_numbers(optimizer.state_dict()),
        "kind": kind_of(optimizer),
        "iteration": operator.index(iteration),
    }
    with _opened(out, atomic_writer) as file:
        torch.save(content, file)


def load_checkpoint(src: Source, model: Module, optimizer: Optimizer | None) -> int:
    """Restore model and optimizer in place; return the iteration.

    A file object is read from its beginning. `optimizer` None: the weights alone.

    Raises:
        ValueError: `src` is not a checkpoint, is damaged, or is of another model or optimizer; then
            nothing is changed.
    """
    source = os.fspath(src) if isinstance(src, (str, os.PathLike)) else "the file object"
    with _opened(src, open_regular) as file:
        content = _read(file, source)
    match content:
        case {
            "model": dict(model_state),
            "optimizer": {"state": dict(state), "param_groups": list(groups)},
            "iteration": int(iteration),
        } if type(iteration) is int and iteration >= 0 and all(type(k) is str for k in model_state):
            pass
        case _:
            raise ValueError(f'{source} is not a checkpoint: no "model", "optimizer", "iteration"')
    weights = checked_weights(model, model_state, source)
    if optimizer is not None:
        kind = content.get("kind")  # other programs do not save it
        kept = checked_state(optimizer, state, kind, source)
        try:
            optimizer.load_state_dict({"param_groups": groups, "state": kept})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{source} is of another optimizer: {short_reason(error)}") from error
    model.load_state_dict(weights)
    return iteration


def _opened(source: Source, opener: Any) -> Any:
    is_path = isinstance(source, (str, os.PathLike))
    return opener(source) if is_path else contextlib.nullcontext(source)


def _read(file: IO[bytes], source: str) -> Any:
    """Return the content of a file; only tensors and plain containers are built from it."""
    try:
        # `torch.load` ignores checksums, and unpacks a compressed file to any size.
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if member.compress_type != zipfile.ZIP_STORED or member.external_attr != 0:
                    raise ValueError(f"{member.filename!a} is no file of torch.save")
            if (damaged := archive.testzip()) is not None:
                raise ValueError(f"the checksum of {damaged!a} is wrong")
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # a damaged file fails in the zip reader, the unpickler, anywhere
        raise ValueError(
            f"{source} is not a checkpoint, or it is damaged: {short_reason(error)}"
        ) from error


def _plain_numbers(value: Any) -> Any:
    """Return a value with plain numbers for those of NumPy, which `weights_only=True` refuses."""
    if isinstance(value, np.generic):
        return float(value) if isinstance(value, np.floating) else value.item()
    if type(value) is dict:
        return {key: _plain_numbers(item) for key, item in value.items()}
    return type(value)(map(_plain_numbers, value)) if type(value) in (list, tuple) else value
