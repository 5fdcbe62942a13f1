"""Checkpoints in one file, as CS336 defines them; the trainer's are in `checkpoint_dir.py`.

A checkpoint is a `torch.save` file with three entries: "model" and "optimizer", the state dicts,
and "iteration". It is always read with `weights_only=True`, which builds tensors and plain
containers and runs no code from the file.
"""

from __future__ import annotations

import operator
import os
import zipfile
from typing import IO, Any

import torch
from torch.nn import Module
from torch.optim import Optimizer

from cs336_basics._files import atomic_writer
from cs336_basics.runs.checkpoint_dir import load_checkpoint_directory, plain_name

Source = str | os.PathLike[str] | IO[bytes]


def save_checkpoint(model: Module, optimizer: Optimizer, iteration: int, out: Source) -> None:
    """Write the states of model and optimizer, and `iteration`, to a path or binary file object.

    A path is replaced in one step: after a crash it holds the old file or the new one, complete. A
    model from `torch.compile` is saved under its plain parameter names.
    """
    checkpoint = {
        "model": {plain_name(name): value for name, value in model.state_dict().items()},
        "optimizer": optimizer.state_dict(),
        "iteration": operator.index(iteration),
    }
    if isinstance(out, (str, os.PathLike)):
        with atomic_writer(out) as file:
            torch.save(checkpoint, file)
    else:
        torch.save(checkpoint, out)


def load_checkpoint(src: Source, model: Module, optimizer: Optimizer | None) -> int:
    """Restore model and optimizer in place from a checkpoint; return its iteration.

    Tensors go to the devices on which model and optimizer have theirs, whatever device they were
    saved from. `model` may be compiled or not, whichever was saved. `optimizer` None: the weights
    alone, for generation. A file object is read from its beginning, whatever its position. A path
    may also be a checkpoint directory of `checkpoint_dir.py`.

    Raises ValueError if `src` is not a checkpoint, is damaged or cut short; FileNotFoundError if it
    is missing; RuntimeError (from torch) if its weights do not fit this model.
    """
    if isinstance(src, (str, os.PathLike)) and os.path.isdir(src) and os.listdir(src):
        return load_checkpoint_directory(src, model, optimizer)
    name = str(src) if isinstance(src, (str, os.PathLike)) else "the file object"
    try:
        _check_sums(src)
        checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged file fails in the zip reader, the unpickler, anywhere
        raise ValueError(
            f"{name} is not a checkpoint, or it is damaged: {_first_line(error)}"
        ) from error
    if not _is_checkpoint(checkpoint):
        raise ValueError(f'{name} is not a checkpoint: it lacks "model", "optimizer", "iteration"')

    saved = {plain_name(key): value for key, value in checkpoint["model"].items()}
    # plain name -> this model's name, compiled or not
    own_names = {plain_name(key): key for key in model.state_dict()}
    model.load_state_dict({own_names.get(key, key): value for key, value in saved.items()})
    if optimizer is not None:
        optimizer.load_state_dict(checkpoint["optimizer"])
    iteration: int = checkpoint["iteration"]
    return iteration


def _check_sums(src: Source) -> None:
    """Raise BadZipFile if `src` is not a zip archive or its content has changed.

    A `torch.save` file is a zip archive with checksums, which `torch.load` does not check: it would
    load a weight with a flipped bit.
    """
    with zipfile.ZipFile(src) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise zipfile.BadZipFile(f"the checksum of {damaged} is wrong")
    if not isinstance(src, (str, os.PathLike)):
        src.seek(0)


def _is_checkpoint(content: Any) -> bool:
    return (
        isinstance(content, dict)
        and isinstance(content.get("model"), dict)
        and isinstance(content.get("optimizer"), dict)
        and isinstance(content.get("iteration"), int)
    )


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
