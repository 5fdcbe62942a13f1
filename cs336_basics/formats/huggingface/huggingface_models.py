"""Export and import models in the format of Hugging Face's transformers, without remote code.

The directory contains config.json, model.safetensors, generation_config.json, tokenizer.json,
tokenizer_config.json and the model card, README.md. `AutoTokenizer` and `AutoModelForCausalLM` load
the directory offline, as a Llama, Qwen2 or Qwen3; see `family_of`.

Weights are read only from safetensors files, because pytorch_model.bin is a pickle, which may run
code. The configuration is compared with the tensors in the files before any memory is allocated.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cs336_basics._support.errors import Argument, InputError, MissingFileError, error_in_file
from cs336_basics._support.files import json_text, write_directory
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.paths import printable_path
from cs336_basics._support.reading import check_tensor_names, read_json_object
from cs336_basics.formats.agreement import Agreement, compare_decoding, compare_ids, compare_logits
from cs336_basics.formats.chat_template import CHAT_TEMPLATE
from cs336_basics.formats.huggingface import tokenizer_json
from cs336_basics.formats.huggingface.llama import (
    config_from_llama,
    llama_config,
    llama_state,
    state_from_llama,
)
from cs336_basics.formats.library_errors import library_errors
from cs336_basics.formats.model_card import ModelCard, card_text
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.model.config import context_fits
from cs336_basics.tokenizer import Tokenizer

LOGITS_LIMIT = 1e-4
"""Maximum difference between float32 logits."""


def write(
    model: TransformerLM,
    tokenizer: Tokenizer,
    output: Path,
    card: ModelCard,
    kept: Mapping[str, bytes],
    **roles: str,
) -> None:
    """Write the directory, with weights in float32. See `export_model` and `contents`."""
    import safetensors.torch

    found = tokenizer_json.special_roles(tokenizer.definition, roles)
    ids = {
        f"{role}_id": None if (token := found[role]) is None else tokenizer.special_token_id(token)
        for role in ("bos_token", "eos_token", "pad_token")
    }
    config = {**llama_config(model.config), **ids}
    state = llama_state(model.config, model.state_dict())
    weights = {name: value.to("cpu", torch.float32) for name, value in state.items()}
    contents: dict[str, str | bytes] = {
        **tokenizer_json.contents(
            tokenizer.definition,
            kept,
            model.config.context_length,
            CHAT_TEMPLATE if card.chats else None,
            **roles,
        ),
        "README.md": card_text(
            card,
            model.config,
            printable_path(output.resolve().name),
            found["bos_token"] or found["eos_token"] or "The",
        ),
        "generation_config.json": json_text({**ids, "do_sample": True}),
        "model.safetensors": safetensors.torch.save(weights, metadata={"format": "pt"}),
        "config.json": json_text(config),
    }
    write_directory(output, contents)


def check(model: TransformerLM, tokenizer: Tokenizer, output: Path) -> Agreement:
    """Load the directory with transformers, and compare ids, logits and greedy text."""
    import transformers

    # transformers writes a progress bar, even without a terminal.
    with library_errors(f"{output} cannot be read"), contextlib.redirect_stderr(io.StringIO()):
        runtime, encode, decode = tokenizer_json.runtime(output)
        theirs: Any = transformers.AutoModelForCausalLM.from_pretrained(
            str(output), local_files_only=True
        )
    theirs.eval()

    def logits_of(ids: Tensor) -> Tensor:
        with torch.inference_mode(), library_errors(f"{output} cannot be run"):
            logits: Tensor = theirs(ids).logits
        return logits

    ids = f"{compare_ids(tokenizer, encode)}; {compare_decoding(tokenizer, decode)}"
    logits = compare_logits(model, logits_of, LOGITS_LIMIT)
    return Agreement(runtime, (ids, f"{type(theirs).__name__}: {logits}"))


# --------------------------------------------------------------------- loading


_LONGEST_CONFIG = 1 << 20
_LONGEST_INDEX = 1 << 26
_SHARD = r"[^/\\]*\.safetensors"


def load_model(
    directory: str | os.PathLike[str],
    *,
    context_length: int | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> TransformerLM:
    """Load a Llama, Qwen2 or Qwen3 model saved by transformers or `export`.

    Args:
        directory: Directory that contains config.json and either model.safetensors or several
            safetensors files and their index.
        context_length: Maximum number of tokens. Defaults to the value in config.json.
        device, dtype: Device and dtype of the parameters. Default to the CPU and float32.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, or TransformerLM cannot represent the model.

    Example:
        >>> from cs336_basics import load_run
        >>> from cs336_basics.formats import export_model
        >>> from cs336_basics.formats.huggingface import load_model
        >>> run = load_run("runs/stories")
        >>> export_model(run.model, run.tokenizer, "huggingface", "exports/loaded")
        >>> load_model("exports/loaded").config.num_layers
        1
    """
    found = find_model(directory, context_length)
    directory, config = Path(directory), found.config
    path = directory / "config.json"
    tensors = _read_tensors(found.files)
    if not context_fits(config, sum(tensor.nbytes for tensor in tensors.values())):
        raise InputError(
            f"max_position_embeddings {config.context_length:,} is too large",
            place=str(path),
            remedy=("pass a smaller ", Argument("context_length")),
        )
    try:
        state = state_from_llama(config, tensors)
    except InputError as error:
        raise error_in_file(error, os.fspath(directory)) from None
    model = TransformerLM(config, device, dtype)
    model.load_state_dict(state)
    return model


class FoundModel(NamedTuple):
    """A model in Hugging Face's format whose weights have not been read."""

    config: ModelConfig
    files: tuple[Path, ...]
    """The safetensors files."""
    end_of_text_id: int | None
    """The id that ends a text, the first one if there are several."""


def find_model(directory: str | os.PathLike[str], context_length: int | None = None) -> FoundModel:
    """Read the configuration of a model, and find the files of its weights; see `load_model`."""
    directory = Path(directory)
    path = directory / "config.json"
    if not path.exists():
        raise MissingFileError(
            f"{path} does not exist", remedy="pass a directory saved by transformers"
        )
    content = read_json_object(path, _LONGEST_CONFIG)
    if context_length is not None:
        content["max_position_embeddings"] = context_length
    try:
        config = config_from_llama(content)
    except InputError as error:
        raise error_in_file(error, os.fspath(path)) from None
    ends = content.get("eos_token_id")
    end = next(iter(ends), None) if isinstance(ends, list) else ends
    is_id = type(end) is int and 0 <= end < config.vocab_size
    files = _weight_files(directory)
    for file in files:  # reading a device or a FIFO would not end
        if not file.is_file():
            raise MissingFileError(f"{file} does not exist, or is not a regular file")
    return FoundModel(config, files, end if is_id else None)


def _weight_files(directory: Path) -> tuple[Path, ...]:
    """Return the path of model.safetensors, or of all files listed in the index."""
    path, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if path.exists():
        return (path,)
    if not index.exists():
        pickles = sorted(path.name for path in directory.glob("*.bin"))
        remedy = f"{pickles[0]} is a pickle, which may run code; convert it" if pickles else ""
        raise MissingFileError(f"{path} does not exist", remedy=remedy)
    weight_map = read_json_object(index, _LONGEST_INDEX).get("weight_map")
    names = weight_map.values() if isinstance(weight_map, dict) else [None]
    if not all(isinstance(n, str) and re.fullmatch(_SHARD, n) and n.isprintable() for n in names):
        raise InputError(
            f"weight_map must map tensors to NAME.safetensors files in the same "
            f"directory, got {short_repr(weight_map)}",
            place=str(index),
        )
    return tuple(directory / name for name in sorted(set(names)))


def _read_tensors(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the tensors in all files."""
    found: dict[str, Tensor] = {}
    for file in files:
        for key, tensor in _read_file(file).items():
            if key in found:
                raise InputError(f"tensor {short_repr(key)} occurs twice", place=str(file))
            found[key] = tensor
    return found


def _read_file(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
        check_tensor_names(path)
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:  # KeyError: an unknown dtype
        raise InputError(
            f"not a safetensors file: {short_reason(error)}", place=str(path)
        ) from error
    return tensors
