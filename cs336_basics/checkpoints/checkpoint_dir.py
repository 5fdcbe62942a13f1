"""Checkpoints as directories of safetensors and JSON: complete or absent, and verified on loading.

step_00000500/
    model.safetensors       the weights, under their plain names
    optimizer.safetensors   the optimizer's tensors: layers.0.ffn.w1.weight.exp_avg, ...
    state.json              the iteration, the optimizer's settings and numbers
    manifest.json           size and SHA-256 of each of the others; written last

A model that is sharded over several processes (FSDP) writes shard-*.safetensors instead of the
first two, each process its own; either kind can be loaded into either kind of model. There is no
pickle, so a checkpoint cannot contain code.

There is no state of a random generator: all randomness of a step follows from the seed and the
number of the step.
"""

from __future__ import annotations

import contextlib
import operator
import os
import shutil
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from cs336_basics._support.disk import sync_directory, sync_file
from cs336_basics._support.files import sha256_file, write_json
from cs336_basics._support.journal import open_regular
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.reading import parse_json
from cs336_basics._support.temporary_files import temporary_prefix
from cs336_basics.checkpoints.optimizer_state import IMPLEMENTATION, checked_optimizer_state

FORMAT = 1
MODEL_FILE = "model.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "state.json"
MANIFEST_FILE = "manifest.json"


def plain_name(name: str) -> str:
    """Return a parameter's name without the prefixes of `torch.compile`, DDP and checkpointing."""
    for mark in ("_orig_mod.", "_checkpoint_wrapped_module."):
        name = name.replace(mark, "")
    return name.removeprefix("module.")


def is_sharded(model: Module) -> bool:
    """Return whether each process holds only a shard of the parameters (FSDP)."""
    return any(_is_dtensor(parameter) for parameter in model.parameters())


def save_checkpoint_directory(
    path: str | os.PathLike[str], model: Module, optimizer: Optimizer, iteration: int
) -> None:
    """Write a checkpoint directory, which appears under its name once it is complete on the disk.

    A sharded model is saved by all of its processes together, each of which must call this.

    Raises:
        FileExistsError: the path exists.
        TypeError: the optimizer's state has a value that is not a tensor, a number or a string.
    """
    path = Path(path)
    sharded = is_sharded(model)
    first = not sharded or dist.get_rank() == 0
    if path.exists():
        raise FileExistsError(f"{path} exists: a checkpoint is never overwritten")
    weights = {plain_name(name): value for name, value in model.state_dict().items()}
    tensors, settings = _optimizer_state(model, optimizer)
    state = {"format": FORMAT, "iteration": operator.index(iteration), "optimizer": settings}

    with _temporary_directory(path, first, sharded) as directory:
        if sharded:
            _save_shards(directory, {**weights, **tensors})
        else:
            _save_tensors(directory / MODEL_FILE, weights)
            _save_tensors(directory / OPTIMIZER_FILE, tensors)
        if first:
            write_json(directory / STATE_FILE, state)
            _write_manifest(directory)


def load_checkpoint_directory(
    path: str | os.PathLike[str], model: Module, optimizer: Optimizer | None
) -> int:
    """Restore model and optimizer in place from a directory; return its iteration.

    The sizes and hashes of all files are checked first, so a damaged checkpoint changes nothing.
    The model may be compiled or sharded, whichever was saved, and the optimizer another
    implementation of the same algorithm. `optimizer` None: the weights alone.

    Raises:
        ValueError: the directory is incomplete or damaged, or of another optimizer.
        RuntimeError: (from torch) its weights do not fit this model.
    """
    path = Path(path)
    files = verify_checkpoint_directory(path)
    state = _read_state(path)
    # plain name -> this model's name, wrapped or not
    own_names = {plain_name(name): name for name in model.state_dict()}
    if is_sharded(model) or MODEL_FILE not in files:
        tensors = _load_shards(path, model, with_optimizer=optimizer is not None)
        weights = {name: tensors.pop(name) for name in own_names if name in tensors}
    else:
        weights = _load_tensors(path / MODEL_FILE)
        tensors = {} if optimizer is None else _load_tensors(path / OPTIMIZER_FILE)
    restored = None
    if optimizer is not None:
        restored = _optimizer_state_dict(model, optimizer, tensors, state["optimizer"], path)
    model.load_state_dict({own_names.get(name, name): value for name, value in weights.items()})
    if optimizer is not None and restored is not None:
        optimizer.load_state_dict(restored)
    iteration: int = state["iteration"]
    return iteration


def verify_checkpoint_directory(path: str | os.PathLike[str]) -> list[str]:
    """Check that a checkpoint directory is complete: every file, with its size and its hash.

    Returns:
        the names of the files that the manifest lists.

    Raises:
        ValueError: naming the file that is missing, too short, changed, or not listed.
    """
    path = Path(path)
    manifest = _read_json(path, MANIFEST_FILE)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or STATE_FILE not in files:
        raise ValueError(
            f"{path} is not a checkpoint, or it is damaged: {MANIFEST_FILE} is incomplete"
        )
    _check_files_are_listed(path, files)
    for name, expected in files.items():
        file = path / name
        if not _is_file_name(name) or not isinstance(expected, dict):
            raise ValueError(f"{path} is damaged: {MANIFEST_FILE} has the entry {short_repr(name)}")
        if not file.is_file():
            raise ValueError(f"{path} is damaged: {name} is missing")
        size = file.stat().st_size
        if size != expected.get("bytes"):
            raise ValueError(
                f"{path} is damaged: {name} has {size:,} bytes, not "
                f"{short_repr(expected.get('bytes'))}"
            )
        if sha256_file(file) != expected.get("sha256"):
            raise ValueError(f"{path} is damaged: the content of {name} has changed")
    return list(files)


def _check_files_are_listed(path: Path, files: Collection[str]) -> None:
    """Check that every file that could be loaded is in the manifest.

    Raises:
        ValueError: one is not; a manifest from which it was dropped would let it be changed.
    """
    for name in sorted(os.listdir(path)):
        # Torch reads an index of the shards, too.
        if name.endswith((".safetensors", ".safetensors.index.json")) and name not in files:
            raise ValueError(f"{path} is damaged: {MANIFEST_FILE} does not list {name}")
    if not any(name.endswith(".safetensors") for name in files):
        raise ValueError(f"{path} is damaged: {MANIFEST_FILE} lists no weights")
    if MODEL_FILE in files and OPTIMIZER_FILE not in files:
        raise ValueError(f"{path} is damaged: {MANIFEST_FILE} does not list {OPTIMIZER_FILE}")


def _is_file_name(name: str) -> bool:
    return name == os.path.basename(name) and name not in ("", ".", "..") and "\0" not in name


# ------------------------------------------------------------------------ writing


@contextlib.contextmanager
def _temporary_directory(path: Path, first: bool, together: bool) -> Iterator[Path]:
    """Yield a directory to write into, which becomes `path` at the end.

    The leading dot and the `.tmp` mark it for `RunDirectory.remove_temporary_files`.
    """
    directory = path.parent / f"{temporary_prefix(path.name)}tmp"
    if first:
        shutil.rmtree(directory, ignore_errors=True)  # of a process that was killed
        directory.mkdir(parents=True)
    if together:
        dist.barrier()
    try:
        yield directory
        if first:
            sync_directory(directory)
            os.replace(directory, path)
            sync_directory(path.parent)
    except BaseException:
        if first:
            shutil.rmtree(directory, ignore_errors=True)
        raise
    if together:
        dist.barrier()


def _write_manifest(directory: Path) -> None:
    files = {
        file.name: {"bytes": file.stat().st_size, "sha256": sha256_file(file)}
        for file in sorted(directory.iterdir())
    }
    write_json(directory / MANIFEST_FILE, {"format": FORMAT, "files": files})


def _save_tensors(file: Path, tensors: dict[str, Tensor]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    seen: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        value = tensor.detach().contiguous()
        # Tied weights are one tensor under two names, which the format cannot express: copy it.
        if value.numel() > 0 and value.data_ptr() in seen:
            value = value.clone()
        seen.add(value.data_ptr())
        separate[name] = value
    try:
        save_file(separate, file)
    except SafetensorError as error:  # on a full disk
        raise OSError(f"{file} was not written: {error}") from error
    sync_file(file)


def _save_shards(directory: Path, tensors: dict[str, Tensor]) -> None:
    """Write this process's shards of the tensors; all processes call this together."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    # safetensors again, not the pickled default.
    writer = HuggingFaceStorageWriter(str(directory), save_distributed=True)
    try:
        save(dict(tensors), storage_writer=writer)
    except CheckpointException as error:  # it is not an Exception
        raise OSError(f"{directory} was not written: {_reasons(error)}") from error
    if dist.get_rank() == 0:
        for file in directory.iterdir():
            sync_file(file)


def _reasons(error: Any) -> str:
    """Return what failed in each process, without the tracebacks.

    What is not an Exception, such as KeyboardInterrupt, is raised again.
    """
    failures = {rank: failure for rank, (failure, _) in error.failures.items()}
    for failure in failures.values():
        if not isinstance(failure, Exception):
            raise failure from error
    return "; ".join(
        f"process {rank}: {type(failure).__name__}: {failure}" for rank, failure in failures.items()
    )


def _optimizer_state(
    model: Module, optimizer: Optimizer
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the optimizer's tensors by name, and the rest of its state as plain JSON."""
    names = _parameter_names(model, optimizer)
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, dict[str, Any]] = {}
    for index, values in state["state"].items():
        for key, value in values.items():
            if key == "step" and isinstance(value, Tensor) and value.numel() == 1:
                value = int(value)  # a tensor in torch's optimizers, a number in ours
            if isinstance(value, Tensor):
                tensors[f"{names[index]}.{key}"] = value
            else:
                numbers.setdefault(names[index], {})[key] = _plain_value(value, key)
    groups = [
        {
            key: [names[i] for i in value] if key == "params" else _plain_value(value, key)
            for key, value in group.items()
        }
        for group in state["param_groups"]
    ]
    return tensors, {"param_groups": groups, "numbers": numbers}


def _plain_value(value: Any, key: str) -> Any:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()  # a learning rate may be a tensor, for compiled optimizers
    if isinstance(value, (list, tuple)):
        return [_plain_value(item, key) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"the optimizer's {key} is of type {type(value).__name__}, which JSON cannot hold"
    )


def _parameter_names(model: Module, optimizer: Optimizer) -> list[str]:
    """Return the plain names of the optimizer's parameters, in the order of its state_dict."""
    names = {id(value): plain_name(name) for name, value in model.named_parameters()}
    found = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise ValueError("the optimizer has a parameter that is not the model's")
            found.append(names[id(parameter)])
    return found


# ------------------------------------------------------------------------ reading


def _read_json(path: Path, name: str) -> Any:
    try:
        with open_regular(path / name) as file:
            return parse_json(file.read(), path / name)
    except FileNotFoundError:
        if not path.is_dir():
            raise
        raise ValueError(f"{path} is not a whole checkpoint: it has no {name}") from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {name} is not JSON") from error


def _read_state(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = _read_json(path, STATE_FILE)
    optimizer = state.get("optimizer") if isinstance(state, dict) else None
    if not isinstance(optimizer, dict) or not (
        _is_list_of_dicts(optimizer.get("param_groups"))
        and isinstance(optimizer.get("numbers"), dict)
        and _is_list_of_dicts(list(optimizer["numbers"].values()))
        and type(state.get("iteration")) is int
        and 0 <= state["iteration"] < 2**63
    ):
        raise ValueError(f"{path} is not a checkpoint: {STATE_FILE} is incomplete")
    if state.get("format") != FORMAT:
        raise ValueError(
            f"{path} has the format {short_repr(state.get('format'))}; this version reads {FORMAT}"
        )
    return state


def _is_list_of_dicts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _load_tensors(file: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(file)
    except SafetensorError as error:
        raise ValueError(f"{file} is not a safetensors file: {short_reason(error)}") from error
    return tensors


def _load_shards(path: Path, model: Module, *, with_optimizer: bool) -> dict[str, Tensor]:
    """Read the shards of any number of processes; each process reads those that it needs."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(path))
    wanted = {plain_name(name): torch.empty_like(v) for name, v in model.state_dict().items()}
    if with_optimizer:
        parameters = {plain_name(name): value for name, value in model.named_parameters()}
        for name, saved in reader.read_metadata().state_dict_metadata.items():
            parameter = parameters.get(name.rpartition(".")[0])
            if name in wanted or parameter is None or not isinstance(saved, TensorStorageMetadata):
                continue
            # A moment is sharded as its parameter is.
            if tuple(saved.size) == tuple(parameter.shape):
                wanted[name] = torch.empty_like(parameter, dtype=saved.properties.dtype)
            else:
                wanted[name] = torch.empty(tuple(saved.size), dtype=saved.properties.dtype)
    wanted = {name: value.detach() for name, value in wanted.items()}
    with warnings.catch_warnings():
        # The warning that a single process loads: that is intended.
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        try:
            load(wanted, storage_reader=reader, no_dist=not dist.is_initialized())
        except CheckpointException as error:  # it is not an Exception
            raise ValueError(f"{path} does not fit this model: {_reasons(error)}") from error
    return wanted


def _optimizer_state_dict(
    model: Module,
    optimizer: Optimizer,
    tensors: dict[str, Tensor],
    settings: dict[str, Any],
    path: Path,
) -> dict[str, Any]:
    """Return what the optimizer's `load_state_dict` takes.

    Raises:
        ValueError: it was saved by another optimizer, or its settings have other types.
    """
    current = optimizer.state_dict()["param_groups"]
    names = _parameter_names(model, optimizer)
    saved = settings["param_groups"]
    order = [[names[i] for i in group["params"]] for group in current]
    if [group.get("params") for group in saved] != order:
        raise ValueError(f"{path} was saved by an optimizer with other groups of parameters")
    state: dict[int, dict[str, Any]] = {}
    index = {name: i for i, name in enumerate(names)}
    for name, numbers in settings["numbers"].items():
        if name not in index:
            raise ValueError(
                f"{path} was saved by an optimizer for other parameters: {short_repr(name)}"
            )
        state.setdefault(index[name], {}).update(numbers)
    for name, tensor in tensors.items():
        parameter, _, key = name.rpartition(".")
        if parameter not in index:
            raise ValueError(
                f"{path} was saved by an optimizer for other parameters: {short_repr(name)}"
            )
        state.setdefault(index[parameter], {})[key] = tensor
    saved = [
        {**values, "params": group["params"]} for group, values in zip(current, saved, strict=True)
    ]
    checked_optimizer_state(optimizer, {"state": state, "param_groups": saved}, str(path))
    groups = [
        {
            key: _as_before(values[key], value)
            if key in values and key not in IMPLEMENTATION
            else value
            for key, value in group.items()
        }
        for group, values in zip(current, saved, strict=True)
    ]
    return {"state": state, "param_groups": groups}


def _as_before(value: Any, before: Any) -> Any:
    """Return a setting as the optimizer has it now: JSON makes lists of tuples."""
    return tuple(value) if isinstance(before, tuple) and isinstance(value, list) else value


def _is_dtensor(parameter: Tensor) -> bool:
    # This import is slow; torch has made it already when something is distributed.
    if not dist.is_available() or not dist.is_initialized():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(parameter, DTensor)
