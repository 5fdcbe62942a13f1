"""Export a model and its tokenizer to one GGUF file, for llama.cpp and programs that build on it.

llama.cpp's own converter recognizes only published byte-level vocabularies, by their hashes. This
module therefore writes the file itself, with the `gguf` package. The default model becomes a
`llama`, which rotates pairs of features, as this library does. A model with biases becomes a
`qwen2` and one with QK-norm a `qwen3`, which rotate halves (`llama_model_rope_type` in
`llama-model.cpp`). The files were checked with gguf 0.19.0 and the llama.cpp in llama-cpp-python
0.3.36.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

import cs336_basics
from cs336_basics._support.errors import InputError, RunError
from cs336_basics._support.files import atomic_path
from cs336_basics._support.lazy import needed_for
from cs336_basics._support.messages import short_repr
from cs336_basics._support.paths import printable_path
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.formats.agreement import Agreement, compare_ids, compare_logits
from cs336_basics.formats.chat_template import CHAT_TEMPLATE
from cs336_basics.formats.gguf.gguf_vocab import gguf_vocab
from cs336_basics.formats.huggingface.llama import llama_state
from cs336_basics.formats.library_errors import library_errors
from cs336_basics.formats.model_card import ModelCard
from cs336_basics.formats.model_families import family_of
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.model.attention import scaled_frequencies
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.unmerged_tokens import check_merges_suffice

LOGITS_LIMIT = 1e-3
"""Maximum difference between float32 logits."""

RELATIVE_LIMITS = {"f16": 0.02, "q8_0": 0.1}
"""Maximum difference between logits for smaller types, relative to the largest logit. llama.cpp
also rounds the activations. The logits of random models differ by 0.002 (f16) and 0.02 (q8_0)."""

_MAX_LAYERS = 512
"""LLAMA_MAX_LAYERS in `llama-hparams.h`."""

_ARCHITECTURE = "general.architecture"

Fields = dict[str, Any]
"""Mapping of key -> bool, int (stored as uint32), float (stored as float32), str, or list of int or
str."""


def write(
    model: TransformerLM, tokenizer: Tokenizer, output: Path, card: ModelCard, *, type: str = "f32"
) -> None:
    """Write the GGUF file. See `export_model`.

    Args:
        model, tokenizer, card: See `export_model`.
        output: File to write. Its stem becomes the model's name.
        type: One of WEIGHT_TYPES. With q8_0, matrices whose row length is not a multiple of 32 are
            stored as float16, as llama.cpp's converter does.

    Raises:
        ImportError: If gguf is not installed.
        ValueError: If llama.cpp cannot represent the model or the tokenizer, or a weight is not
            finite or is too large for the type.
    """
    gguf = _gguf()
    fields = _fields(model.config, tokenizer, output, card, type)
    tensors = _tensors(gguf, model, type)
    with atomic_path(output) as path:
        writer = gguf.GGUFWriter(path, fields.pop(_ARCHITECTURE))
        try:
            for key, value in fields.items():
                kind = gguf.GGUFValueType.get_type(value)
                if kind == gguf.GGUFValueType.INT32:
                    kind = gguf.GGUFValueType.UINT32  # llama.cpp reads sizes and ids as unsigned
                writer.add_key_value(key, value, kind)
            for name, (data, kind) in tensors.items():
                writer.add_tensor(name, data, raw_dtype=kind)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
        finally:
            writer.close()


def check(
    model: TransformerLM, tokenizer: Tokenizer, output: Path, *, type: str = "f32"
) -> Agreement:
    """Read the file back and compare its content. If llama.cpp is installed, also compare results.

    Raises:
        ImportError: If gguf is not installed.
        RunError: If something differs.
    """
    runtime = f"gguf {importlib.metadata.version('gguf')}"
    lines = [_compare_file(model, tokenizer, output, type)]
    try:
        from cs336_basics.formats.gguf.llama_cpp_runtime import LlamaCpp

        theirs = LlamaCpp(output, model.config.context_length)
    except ImportError:
        reason = "not run in llama.cpp: llama-cpp-python is not installed"
        return Agreement(runtime, (f"{lines[0]}; {reason}",))
    with theirs:
        lines.append(compare_ids(tokenizer, theirs.encode))
        if type == "f32":
            lines.append(compare_logits(model, theirs.logits, LOGITS_LIMIT))
        else:
            limit = RELATIVE_LIMITS[type]
            lines.append(compare_logits(model, theirs.logits, limit, rounded=True))
    return Agreement(f"{runtime}, llama-cpp-python {theirs.version}", tuple(lines))


def _gguf() -> ModuleType:
    with needed_for("GGUF", "'cs336-basics[gguf]'"):
        import gguf
    return gguf


# --------------------------------------------------------------------- metadata


def _fields(
    config: ModelConfig, tokenizer: Tokenizer, output: Path, card: ModelCard, type: str
) -> Fields:
    """Return the metadata of the file. See `write` for the errors."""
    if config.num_layers > _MAX_LAYERS:
        raise InputError(
            f"the model has {config.num_layers} layers; llama.cpp allows at most {_MAX_LAYERS}"
        )
    name = printable_path(output.stem)
    if "phi-3" in name.lower() or "phi3" in name.lower():
        raise InputError(
            f"the model's name would be {short_repr(name)}, and llama.cpp treats any model with "
            "phi-3 in its name as Microsoft's",
            remedy="choose another file name",
        )
    arch = family_of(config)
    if arch != "llama" and config.rope_scaling is not None:
        raise InputError(
            f"must be unset, because llama.cpp does not scale the angles of a {arch}, got "
            f"{list(config.rope_scaling)}",
            argument="rope_scaling",
        )
    if arch == "qwen2" and config.d_head * config.num_heads != config.d_model:
        raise InputError(
            "must be unset, because a qwen2 has d_model / num_heads features per head in "
            f"llama.cpp, got {config.head_dim}",
            argument="head_dim",
        )
    return {
        _ARCHITECTURE: arch,
        "general.type": "model",
        "general.name": name,
        "general.description": _description(card),
        "general.license": "unknown",
        "general.file_type": {"f32": 0, "f16": 1, "q8_0": 7}[type],  # LlamaFileType
        "general.quantization_version": 2,  # GGML_QUANT_VERSION
        f"{arch}.vocab_size": config.vocab_size,
        f"{arch}.context_length": config.context_length,
        f"{arch}.embedding_length": config.d_model,
        f"{arch}.block_count": config.num_layers,
        f"{arch}.feed_forward_length": config.d_ff,
        f"{arch}.attention.head_count": config.num_heads,
        f"{arch}.attention.head_count_kv": config.kv_heads,
        f"{arch}.attention.key_length": config.d_head,
        f"{arch}.attention.value_length": config.d_head,
        f"{arch}.attention.layer_norm_rms_epsilon": config.norm_eps,
        f"{arch}.rope.dimension_count": config.d_head,
        f"{arch}.rope.freq_base": config.rope_theta,
        **_tokenizer_fields(tokenizer, config.vocab_size),
        **({"tokenizer.chat_template": CHAT_TEMPLATE} if card.chats else {}),
    }


def _description(card: ModelCard) -> str:
    """Return the facts about the training as a line of text."""
    parts = [f"trained with cs336-basics {cs336_basics.__version__}"]
    if card.steps is not None:
        parts.append(f"{card.steps:,} steps")
    if card.tokens is not None:
        parts.append(f"{card.tokens:,} tokens")
    parts += [f"{key} {value:.4f}" for key, value in card.losses.items()]
    parts += [f"{file} (SHA-256 {digest})" for file, digest in card.data.items()]
    parts += [f"{key} {value}" for key, value in card.origin.items()]
    return "; ".join(parts)


def _tokenizer_fields(tokenizer: Tokenizer, size: int) -> Fields:
    """Return the fields for the vocabulary, padded to `size` ids."""
    if END_OF_TEXT not in tokenizer.special_tokens:
        raise InputError(
            f"the tokenizer has no special token {END_OF_TEXT}; without it, llama.cpp would end "
            "texts at id 11"
        )
    check_merges_suffice(tokenizer.definition, "llama.cpp")
    end = tokenizer.special_token_id(END_OF_TEXT)
    before, after = _ids_around_text(tokenizer)
    return {
        "tokenizer.ggml.model": "gpt2",
        **gguf_vocab(tokenizer.definition, size),
        "tokenizer.ggml.bos_token_id": end if before is None else before,  # the default is id 11
        "tokenizer.ggml.eos_token_id": end if after is None else after,
        "tokenizer.ggml.add_bos_token": before is not None,
        "tokenizer.ggml.add_eos_token": after is not None,
    }


def _ids_around_text(tokenizer: Tokenizer) -> tuple[int | None, int | None]:
    """Return the ids that the post-processor adds before and after a text, or None for each.

    Raises:
        ValueError: If it adds several ids on a side, or repeats the text.
    """
    post_processor = tokenizer.definition.post_processor
    single = ("A",) if post_processor is None else post_processor.single
    index = single.index("A")
    before, after = single[:index], single[index + 1 :]
    if len(before) > 1 or len(after) > 1 or "A" in after:
        raise InputError(
            f"the post-processor makes {short_repr(list(single))} of a text A; llama.cpp can add "
            "only one id before and one after a text"
        )
    return next(iter(before), None), next(iter(after), None)  # type: ignore[return-value]


# --------------------------------------------------------------------- weights


def _tensors(gguf: ModuleType, model: TransformerLM, type: str) -> dict[str, tuple[Any, Any]]:
    """Return a mapping from llama.cpp's name of each weight to its data and type in the file.

    Raises:
        ValueError: If a value would overflow the target type.
    """
    family = family_of(model.config)
    state = llama_state(model.config, model.state_dict(), halves=family != "llama")
    arch = gguf.MODEL_ARCH[family.upper()]
    names = gguf.get_tensor_name_map(arch, model.config.num_layers)
    if model.config.rope_scaling is not None:
        state["rope_freqs.weight"] = _rope_divisors(model.config)
    found = {}
    for theirs, weight in state.items():
        name = names.get_name(theirs, try_suffixes=(".weight", ".bias"))
        value = weight.to("cpu", torch.float32).numpy()
        is_gain, rows_fit = value.ndim == 1, value.shape[-1] % 32 == 0
        rounded = type if type != "q8_0" or rows_fit else "f16"
        kind = gguf.GGMLQuantizationType["F32" if is_gain else rounded.upper()]
        with np.errstate(over="ignore", invalid="ignore"):
            data = gguf.quantize(value, kind)
            if not np.isfinite(gguf.dequantize(data, kind)).all():
                raise InputError(
                    f"weight {name} has a value of {np.abs(value).max():.3g}, too large for type "
                    f"{type}",
                    remedy="use f32",
                )
        found[name] = data, kind
    return found


def _rope_divisors(config: ModelConfig) -> Tensor:
    """Return the numbers by which llama.cpp divides the rotary frequencies, (d_head / 2,)."""
    assert config.rope_scaling is not None
    feature = torch.arange(0, config.d_head, 2, dtype=torch.float64)
    frequency = config.rope_theta ** (-feature / config.d_head)
    return frequency / scaled_frequencies(frequency, *config.rope_scaling)


# --------------------------------------------------------------------- reading back


def _compare_file(model: TransformerLM, tokenizer: Tokenizer, path: Path, type: str) -> str:
    """Compare the metadata and weights in a file, and return the result as a line of text.

    Raises:
        RunError: If something differs.
    """
    gguf = _gguf()
    with library_errors(f"{path} cannot be read"):
        reader = gguf.GGUFReader(path)
    expected = _fields(model.config, tokenizer, path, ModelCard(), type)
    del expected["general.description"]  # `check` has no model card
    for key, value in expected.items():
        field = reader.get_field(key)
        with library_errors(f"{path} cannot be read"):
            content = None if field is None else field.contents()
        if content != (float(np.float32(value)) if isinstance(value, float) else value):
            raise RunError(f"{key} has a different value: {short_repr(content)}", place=str(path))
    weights = _tensors(gguf, model, type)
    found = {tensor.name: (tensor.data, tensor.tensor_type) for tensor in reader.tensors}
    if found.keys() != weights.keys():
        raise RunError(
            f"missing or unknown weight: {min(found.keys() ^ weights.keys())}", place=str(path)
        )
    for name, (data, kind) in weights.items():
        read, kind_read = found[name]
        if kind_read != kind or not np.array_equal(read, data):
            raise RunError(f"weight {name} has different values", place=str(path))
    kinds = ", ".join(sorted({kind.name for _, kind in found.values()}))
    return f"{len(expected)} fields and {len(weights)} weights ({kinds}) read back"
