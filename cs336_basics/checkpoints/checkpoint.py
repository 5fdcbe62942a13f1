"""Checkpoints in one file, as CS336 defines them; the trainer's are in `checkpoint_dir.py`.

A checkpoint is a `torch.save` file with four entries: "model" and "optimizer", the state dicts,
"iteration", and "sha256", the hash of the other three. It is always read with `weights_only=True`,
which builds tensors and plain containers and runs no code from the file.

The hash is that of the values themselves, and is compared with the values that were loaded. The
file is a zip archive, whose checksums do not protect the directory of the archive: a flipped bit
there lets `torch.load` read other values. A file without "sha256", as other programs write it, has
only the checksums.
"""

from __future__ import annotations

import errno
import hashlib
import operator
import os
import sys
import zipfile
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from cs336_basics._support.files import atomic_writer
from cs336_basics._support.journal import open_regular
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics.checkpoints.checkpoint_dir import load_checkpoint_directory, plain_name
from cs336_basics.checkpoints.optimizer_state import checked_optimizer_state

DIGEST = "sha256"

Source = str | os.PathLike[str] | IO[bytes]


def save_checkpoint(model: Module, optimizer: Optimizer, iteration: int, out: Source) -> None:
    """Write the states of model and optimizer, and `iteration`, to a path or binary file object.

    A path is replaced in one step: after a crash it holds the old file or the new one, complete. A
    model from `torch.compile` is saved under its plain parameter names. NumPy numbers of the
    optimizer, such as a learning rate, are saved as plain numbers.
    """
    checkpoint = {
        "model": {plain_name(name): value for name, value in model.state_dict().items()},
        "optimizer": _plain_numbers(optimizer.state_dict()),
        "iteration": operator.index(iteration),
    }
    checkpoint[DIGEST] = _digest(checkpoint)
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

    Raises ValueError if `src` is not a checkpoint, is damaged or cut short, or is one of another
    optimizer; then nothing is changed. FileNotFoundError if it is missing; RuntimeError (from
    torch) if its weights do not fit this model.
    """
    if isinstance(src, (str, os.PathLike)) and os.path.isdir(src):
        return load_checkpoint_directory(src, model, optimizer)
    name = str(src) if isinstance(src, (str, os.PathLike)) else "the file object"
    if isinstance(src, (str, os.PathLike)):
        with open_regular(src) as file:
            checkpoint = _load(file, name)
    else:
        checkpoint = _load(src, name)
    # plain name -> this model's name, compiled or not
    own_names = {plain_name(key): key for key in model.state_dict()}
    saved = checkpoint["model"]
    restored = None
    if optimizer is not None:
        restored = checked_optimizer_state(optimizer, checkpoint["optimizer"], name)
    model.load_state_dict({own_names.get(key, key): value for key, value in saved.items()})
    if optimizer is not None and restored is not None:
        optimizer.load_state_dict(restored)
    iteration: int = checkpoint["iteration"]
    return iteration


def _plain_numbers(value: Any) -> Any:
    """Return a value with plain numbers for those of NumPy, which `weights_only=True` refuses."""
    if isinstance(value, np.generic):
        return float(value) if isinstance(value, np.floating) else value.item()
    if type(value) is dict:
        return {_plain_numbers(key): _plain_numbers(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain_numbers(item) for item in value)
    return value


def _load(file: IO[bytes], name: str) -> dict[str, Any]:
    """Return the content of a checkpoint, with plain names, after checking it."""
    try:
        _check_is_archive(file)
        file.seek(0)
        checkpoint: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        is_complete = _is_checkpoint(checkpoint)
        if is_complete:
            _check_storages(checkpoint)
            names = checkpoint["model"]
            checkpoint["model"] = {plain_name(key): value for key, value in names.items()}
            expected = checkpoint.pop(DIGEST, None)
            matches = expected is not None and _digest(checkpoint) == expected
        if not is_complete or not matches:
            _check_sums(file)
    except MemoryError:
        raise
    except Exception as error:  # a damaged file fails in the zip reader, the unpickler, anywhere
        # A damaged archive asks for offsets before the file.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ValueError(
            f"{name} is not a checkpoint, or it is damaged: {short_reason(error)}"
        ) from error
    if not is_complete:
        raise ValueError(f'{name} is not a checkpoint: it lacks "model", "optimizer", "iteration"')
    if expected is not None and not matches:
        raise ValueError(
            f'{name} is damaged: its content does not have the SHA-256 in "{DIGEST}". If it was '
            f'changed on purpose, remove the entry "{DIGEST}"'
        )
    return checkpoint


def _check_is_archive(file: IO[bytes]) -> None:
    """Check that a file is a zip archive like those of `torch.save`, which compresses nothing.

    Raises:
        BadZipFile: it is none, or may unpack to any size.
    """
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise zipfile.BadZipFile(f"{short_repr(member.filename)} is compressed")


def _check_storages(content: Any) -> None:
    """Check that no tensor has more elements than are stored: with strides of 0, one can be all.

    Raises:
        ValueError: one has; to read it would take any amount of memory.
    """
    if isinstance(content, Tensor):
        is_plain = content.layout == torch.strided and content.device.type != "meta"
        if is_plain and content.nbytes > content.untyped_storage().nbytes():
            raise ValueError(
                f"a tensor of shape {tuple(content.shape)} takes {content.nbytes:,} bytes, and "
                f"{content.untyped_storage().nbytes():,} are stored"
            )
    elif isinstance(content, dict):
        for item in content.values():
            _check_storages(item)
    elif isinstance(content, (list, tuple)):
        for item in content:
            _check_storages(item)


def _check_sums(file: IO[bytes]) -> None:
    """Check the checksums of the zip archive, which `torch.load` does not check.

    Raises:
        BadZipFile: it is not a zip archive, or its content has changed.
    """
    with zipfile.ZipFile(file) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise zipfile.BadZipFile(f"the checksum of {damaged} is wrong")


def _digest(content: Any) -> str:
    """Return the SHA-256 of tensors, numbers and strings in containers."""
    digest = hashlib.sha256()
    _update(digest, content)
    return digest.hexdigest()


def _update(digest: hashlib._Hash, value: Any) -> None:
    """Add a value to a hash: the kind and the size of each item, then its content."""
    if isinstance(value, Tensor):
        digest.update(f"tensor {value.dtype} {tuple(value.shape)}\n".encode())
        if value.layout == torch.strided and not value.is_quantized:
            digest.update(_bytes_of(value))
    elif isinstance(value, dict):
        digest.update(f"dict {len(value)}\n".encode())
        for key, item in value.items():
            _update(digest, key)
            _update(digest, item)
    elif isinstance(value, (list, tuple)):
        digest.update(f"list {len(value)}\n".encode())
        for item in value:
            _update(digest, item)
    elif value is None or isinstance(value, (bool, int, float, str)):
        text = repr(value)
        digest.update(f"{type(value).__name__} {len(text)} {text}\n".encode())
    else:  # what else `torch.load` accepts need not have a stable representation
        digest.update(f"{type(value).__name__}\n".encode())


def _bytes_of(tensor: Tensor) -> memoryview:
    """Return the elements of a tensor in order, each in little-endian order."""
    elements = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    if sys.byteorder == "big":
        elements = elements.reshape(-1, tensor.element_size()).flip(1).reshape(-1).contiguous()
    return elements.numpy().data


def _is_checkpoint(content: Any) -> bool:
    return (
        isinstance(content, dict)
        and isinstance(content.get("model"), dict)
        and all(isinstance(name, str) for name in content["model"])
        and isinstance(content.get("optimizer"), dict)
        and type(content.get("iteration")) is int
        and 0 <= content["iteration"] < 2**63
    )
