"""Reads a model directory of Hugging Face's transformers: config.json and safetensors.

Only safetensors are read: a pytorch_model.bin is a pickle, which may run code. Nothing is allocated
before the configuration has been compared with the tensors that are there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.reading import read_json_object
from cs336_basics.formats.huggingface.llama import config_from_llama, state_from_llama
from cs336_basics.model.config import ModelConfig

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

_LONGEST_CONFIG = 1 << 20
_LONGEST_INDEX = 1 << 26

_MAX_ANGLES = 1 << 27
"""Entries of the table of RoPE's angles, which the configuration alone determines."""


def load_huggingface_model(
    directory: str | os.PathLike[str], context_length: int | None = None
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Read the configuration and the weights of a Llama or a Qwen3.

    Args:
        directory: holds config.json, and model.safetensors or several with their index.
        context_length: replaces that of the configuration, in tokens.

    Returns:
        the configuration, and the state dict of a TransformerLM, float32 on the CPU.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is damaged, or the model cannot be represented; names it and why.
    """
    directory = Path(directory)
    path = directory / CONFIG_FILE
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist: name a directory that holds {CONFIG_FILE} and {WEIGHTS_FILE}"
        )
    content = read_json_object(path, _LONGEST_CONFIG)
    if context_length is not None:
        content["max_position_embeddings"] = context_length
    try:
        config = config_from_llama(content)
        if config.context_length * config.d_head > _MAX_ANGLES:
            raise ValueError(
                f"its max_position_embeddings is {config.context_length:,}, too long for a table "
                "of angles: give a context_length"
            )
        tied = content.get("tie_word_embeddings", False)
        if not isinstance(tied, bool):
            raise ValueError(f"its tie_word_embeddings is {short_repr(tied)}: not true or false")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    tensors = _read_tensors(directory)
    try:
        return config, state_from_llama(config, tensors, tied=tied)
    except ValueError as error:
        raise ValueError(f"{directory}: {error}") from None


def _read_tensors(directory: Path) -> dict[str, Tensor]:
    """Return the tensors of model.safetensors, or of all files that its index names."""
    if (directory / WEIGHTS_FILE).exists():
        return _read_file(directory / WEIGHTS_FILE)
    if not (directory / INDEX_FILE).exists():
        pickles = sorted(path.name for path in directory.glob("*.bin"))
        advice = f": {pickles[0]} is a pickle, which may run code; convert it" if pickles else ""
        raise FileNotFoundError(f"{directory / WEIGHTS_FILE} does not exist{advice}")
    index = read_json_object(directory / INDEX_FILE, _LONGEST_INDEX)
    found: dict[str, Tensor] = {}
    for name in _files_of(directory / INDEX_FILE, index):
        for key, tensor in _read_file(directory / name).items():
            if key in found:
                raise ValueError(f"{directory / name}: tensor {short_repr(key)} occurs twice")
            found[key] = tensor
    return found


def _files_of(path: Path, index: Mapping[str, Any]) -> list[str]:
    """Return the names of the files in an index, which must be beside it."""
    weight_map = index.get("weight_map")
    names: list[Any] = list(weight_map.values()) if isinstance(weight_map, dict) else [None]
    for name in names:
        if (
            not isinstance(name, str)
            or name != os.path.basename(name)
            or not name.endswith(".safetensors")
        ):
            raise ValueError(
                f"{path}: its weight_map is {short_repr(weight_map)}: it must map tensors to "
                "files beside it, NAME.safetensors"
            )
    return sorted(set(names))


def _read_file(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist, or is not a regular file")
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:  # KeyError: an unknown type
        raise ValueError(f"{path} is not a safetensors file: {short_reason(error)}") from error
    return tensors
