"""Checkpoints of a run. Each is a safetensors file, written atomically and verified when read.

The tensors are named `model.NAME` and `optimizer.NAME.KEY`, where NAME is the plain name of a
parameter. The metadata in the header has one entry, "checkpoint", which is JSON:

    iteration   number of optimizer steps taken
    optimizer   name of the algorithm; its settings are in the run's configuration
    owner       what the checkpoint of a run belongs to (see owner.py)
    crc32       a checksum for "model" and one for "optimizer", each covering its tensors and the
                other JSON fields

A checkpoint contains no pickled objects, so loading it cannot run code. It contains no random state
either: the seed and the step number determine all randomness in a step.
"""

from __future__ import annotations

import json
import operator
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.files import atomic_path
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.paths import check_is_regular
from cs336_basics._support.reading import parse_json
from cs336_basics.checkpoints.owner import Owner
from cs336_basics.checkpoints.states import (
    checked_state,
    checked_weights,
    kind_of,
    plain_name,
)

_ENTRY = "checkpoint"


def write_checkpoint(
    path: str | os.PathLike[str],
    model: Module,
    optimizer: Optimizer,
    iteration: int,
    owner: Owner | None = None,
) -> None:
    """Write a model, its optimizer, the iteration and the owner, if there is one, to a file.

    In distributed training, every process must call this function. A sharded model (FSDP2) is
    gathered, and the first process writes the file.

    Raises:
        TypeError: If the optimizer's state contains a value that is neither a tensor nor a number.
        ValueError: If the optimizer has a parameter that the model does not have.
        OSError: If the file cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    is_first = not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0
    weights = {plain_name(name): value for name, value in model.state_dict().items()}
    parts = {
        "model": _gathered(weights, is_first),
        "optimizer": _gathered(_optimizer_tensors(model, optimizer), is_first),
    }
    if not is_first:
        return
    content: dict[str, Any] = {"iteration": operator.index(iteration)}
    content["optimizer"] = kind_of(optimizer)
    if owner is not None:
        content["owner"] = owner.stored()
    content["crc32"] = {part: _checksum(content, tensors) for part, tensors in parts.items()}
    tensors = {f"{part}.{k}": value for part in parts for k, value in parts[part].items()}
    with atomic_path(path) as temporary:
        try:
            save_file(tensors, temporary, {_ENTRY: json.dumps(content)})
        except SafetensorError as error:
            number = re.search(r"\(os error (\d+)\)", str(error))
            if number is None or os.name == "nt":  # Windows has its own error numbers
                raise OSError(f"{os.fspath(path)} cannot be written: {error}") from error
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def read_checkpoint(
    path: str | os.PathLike[str],
    model: Module,
    optimizer: Optimizer | None,
    owner: Owner | None = None,
) -> int:
    """Restore a model and its optimizer from a file, in place, and return the iteration.

    The model may be compiled or sharded even if the saved one was not, and vice versa. The
    optimizer may be another implementation of the same algorithm. If `optimizer` is None, only the
    weights are restored. If `owner` is given, the checkpoint must belong to it.

    Raises:
        ValueError: If the file is not a checkpoint, is damaged, belongs to another owner, or was
            saved from a different model or optimizer. The model and the optimizer are then
            unchanged.
    """
    content, parts = _read(path, ["model"] if optimizer is None else ["model", "optimizer"])
    source = os.fspath(path)
    if owner is not None:
        owner.check(content.get("owner"), source)
    weights = checked_weights(model, parts["model"], source)
    if optimizer is not None:
        saved = _state_of(model, optimizer, parts["optimizer"], source)
        state = checked_state(optimizer, saved, content["optimizer"], source)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    own = model.state_dict()
    model.load_state_dict({name: _sharded_like(v, own[name]) for name, v in weights.items()})
    iteration: int = content["iteration"]
    return iteration


def verify_checkpoint(path: str | os.PathLike[str]) -> None:
    """Read a checkpoint and verify its checksums.

    Raises:
        ValueError: If the file is not a checkpoint or is damaged.
    """
    _read(path, ["model", "optimizer"])


# ------------------------------------------------------------------------ writing


def _optimizer_tensors(model: Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state as tensors named NAME.KEY."""
    names = _parameter_names(model, optimizer)
    tensors = {}
    for index, values in optimizer.state_dict()["state"].items():
        for key, value in values.items():
            if key == "step":  # a float32 tensor in torch's optimizers, an int in ours
                value = torch.tensor(int(value))
            elif isinstance(value, (int, float)):
                value = torch.tensor(value, dtype=torch.float64)
            if isinstance(value, Tensor):
                tensors[f"{names[index]}.{key}"] = value
            elif value is not None:
                raise InputTypeError(
                    f"the optimizer's {key} must be a tensor or a number, got {short_repr(value)}"
                )
    return tensors


def _parameter_names(model: Module, optimizer: Optimizer) -> list[str]:
    """Return the plain names of the optimizer's parameters, in the order of its state_dict."""
    names = {id(value): plain_name(name) for name, value in model.named_parameters()}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if not all(id(parameter) in names for parameter in parameters):
        raise InputError("the optimizer has a parameter that the model does not have")
    return [names[id(parameter)] for parameter in parameters]


def _gathered(tensors: Mapping[str, Tensor], is_first: bool) -> dict[str, Tensor]:
    """Return whole tensors on the CPU, each with its own memory. Ranks above 0 return `{}`."""
    gathered: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        value = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        if is_first:
            value = value.detach().cpu().contiguous()
            memory = value.untyped_storage().data_ptr()
            # safetensors cannot store tied weights (one tensor under two names).
            gathered[name] = value.clone() if value.numel() and memory in seen else value
            seen.add(memory)
    return gathered


def _checksum(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> int:
    """Return the CRC-32 of `content` and of the names, dtypes, shapes and bytes of the tensors."""
    rest = {key: value for key, value in content.items() if key != "crc32"}
    crc = zlib.crc32(json.dumps(rest).encode())
    for name, value in sorted(tensors.items()):
        crc = zlib.crc32(f"{name} {value.dtype} {tuple(value.shape)}".encode(), crc)
        crc = zlib.crc32(value.reshape(-1).view(torch.uint8).numpy().data, crc)
    return crc


# ------------------------------------------------------------------------ reading


def _read(
    path: str | os.PathLike[str], wanted: Sequence[str]
) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """Verify a checkpoint, and return its JSON and the tensors of the requested parts.

    safetensors rejects a header that does not match the file's size, so the tensors never take up
    more memory than the file.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    check_is_regular(path, path.stat().st_mode)
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in wanted}
    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get(_ENTRY, "")
            for key in file.keys():  # noqa: SIM118 -- not a dict
                part, _, name = key.partition(".")
                if part in parts:
                    parts[part][name] = file.get_tensor(key)
    except SafetensorError as error:
        raise InputError(
            f"{path} is not a checkpoint, or it is damaged: {short_reason(error)}"
        ) from error
    content: dict[str, Any] = parse_json(text.encode(), path) if text else {}
    match content:
        case {"iteration": int(step), "optimizer": str(), "crc32": dict(sums)} if (
            type(step) is int and 0 <= step < 2**63
        ):
            pass
        case _:
            raise InputError(f"{path} is not a checkpoint: the header has no valid {_ENTRY!r}")
    for part, tensors in parts.items():
        if _checksum(content, tensors) != sums.get(part):
            raise InputError(f"{path} is damaged: the checksum of {part} is wrong")
    return content, parts


def _state_of(
    model: Module, optimizer: Optimizer, tensors: Mapping[str, Tensor], source: str
) -> dict[int, dict[str, Any]]:
    """Convert tensors named NAME.KEY to the optimizer's state by parameter index."""
    index_of = {name: i for i, name in enumerate(_parameter_names(model, optimizer))}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for full_name, value in tensors.items():
        name, _, key = full_name.rpartition(".")
        if name not in index_of:
            raise InputError(
                f"{source} was saved by a different optimizer: unexpected {short_repr(full_name)}"
            )
        index = index_of[name]
        own = parameters[index]
        # A moment is sharded like its parameter, which is sharded by rows.
        kept = _sharded_like(value, own) if value.shape[:1] == own.shape[:1] else value
        is_step = key == "step" and value.dtype == torch.int64 and value.numel() == 1
        state.setdefault(index, {})[key] = int(value) if is_step else kept
    return state


# ------------------------------------------------------------------------ shards


def _sharded_like(value: Tensor, own: Tensor) -> Tensor:
    """Return this process's shard of a whole tensor if `own` is a shard, else the whole tensor."""
    if not hasattr(own, "full_tensor"):
        return value
    # This import is slow, except in distributed training, where torch has already imported it.
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(own, DTensor)
    return distribute_tensor(
        value.to(own.device), own.device_mesh, own.placements, src_data_rank=None
    )
