"""Export a model and its tokenizer to ONNX, for onnxruntime and other engines.

The directory contains model.onnx, tokenizer.json and tokenizer_config.json. ONNX describes
arithmetic, not architectures, so any `ModelConfig` can be exported, but one with `bigram_rows` only
without a cache. There are two kinds of graphs:

- With a cache (the default). Inputs: `input_ids` (batch, sequence), int64, and for each layer N
  `past_key_values.N.key` and `.value` (batch, kv_heads, past, d_head), float32, with past = 0 in
  the first call. Outputs: `logits` (batch, sequence, vocab_size), float32, and `present.N.key` and
  `.value` (batch, kv_heads, past + sequence, d_head), which become the past in the next call.
- Without a cache: only `input_ids` and `logits`.

The sizes batch, sequence and past are dynamic. The graphs were checked with torch 2.13, onnx
1.23 and onnxruntime 1.31.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

import cs336_basics
from cs336_basics._support.errors import Argument, InputError, RunError
from cs336_basics._support.files import write_directory
from cs336_basics._support.lazy import needed_for
from cs336_basics._support.messages import short_reason
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.formats.agreement import Agreement, compare_ids, compare_logits
from cs336_basics.formats.huggingface import tokenizer_json
from cs336_basics.formats.library_errors import library_errors
from cs336_basics.formats.model_card import ModelCard
from cs336_basics.model import TransformerLM
from cs336_basics.model.kv_cache import LayerCache
from cs336_basics.tokenizer import Tokenizer

MODEL_FILE = "model.onnx"

LOGITS_LIMIT = 1e-4
"""Maximum difference between float32 logits."""

_MAX_BYTES = (1 << 31) - (1 << 24)
"""Maximum size of the weights in bytes. An ONNX file is a protocol buffer, limited to 2 GiB."""

Cache = list[tuple[Tensor, Tensor]]
"""Keys and values of each layer, shape (batch, kv_heads, tokens, d_head)."""


class _Past(LayerCache):
    """A layer's cache that grows by concatenation, because a graph cannot write to its inputs."""

    def store(self, keys: Tensor, values: Tensor, positions: Tensor) -> None:
        """Append keys and values (batch, heads, sequence, d_head). `positions` is not used."""
        self.keys = torch.cat((self.keys, keys), dim=-2)
        self.values = torch.cat((self.values, values), dim=-2)


class _Exported(Module):
    """A model whose inputs and outputs include its cache.

    It computes the same result as `TransformerLM.forward`, but without checking lengths, because
    the checks would limit the exported graph to certain lengths.
    """

    def __init__(self, model: TransformerLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, past: Cache | None = None) -> tuple[Tensor, Cache]:
        """Return the logits, keys and values of all tokens. See the module docstring for shapes."""
        model = self.model
        start = past[0][0].shape[-2] if past else 0
        positions = start + torch.arange(input_ids.shape[1])
        positions = positions.expand(input_ids.shape[0], -1)  # (batch, sequence)
        caches = [_Past(keys, values) for keys, values in past or []]
        x = model.embed(input_ids)  # (batch, sequence, d_model)
        for number, layer in enumerate(model.layers):
            x = layer(x, positions, caches[number] if caches else None)
        if model.ln_final is not None:
            x = model.ln_final(x)
        return model.logits(x), [(cache.keys, cache.values) for cache in caches]


def write(
    model: TransformerLM,
    tokenizer: Tokenizer,
    output: Path,
    card: ModelCard,
    kept: Mapping[str, bytes],
    *,
    without_cache: bool = False,
    **roles: str,
) -> None:
    """Write the directory. See `export_model`.

    Args:
        model, tokenizer, output, card: See `export_model`.
        kept, roles: See `contents` in tokenizer_json.py.
        without_cache: Whether to export a graph without a cache.

    Raises:
        ImportError: If onnx or onnxscript is not installed.
        ValueError: If the weights take more than 2 GiB, the limit for one file, or a graph with a
            cache would need the token before.
        RunError: If torch's exporter fails.
    """
    with needed_for("ONNX", "'cs336-basics[onnx]'"):
        import onnx
        import onnxscript  # noqa: F401 -- torch's exporter needs onnx and onnxscript
    if model.config.bigram_rows and not without_cache:
        raise InputError(
            "must be 0 to export a graph with a cache, which has no input for the token before, "
            f"got {model.config.bigram_rows}",
            argument="bigram_rows",
            remedy=("pass ", Argument("without_cache", True)),
        )
    size = 4 * model.config.num_parameters()
    if size > _MAX_BYTES:
        raise InputError(
            f"the weights take {size / 2**30:.1f} GiB in float32; an ONNX file must be smaller "
            "than 2 GiB"
        )
    contents: dict[str, str | bytes] = {
        **tokenizer_json.contents(tokenizer.definition, kept, model.config.context_length, **roles)
    }
    proto = _graph(model, without_cache)
    proto.producer_name, proto.producer_version = "cs336-basics", cs336_basics.__version__
    onnx.helper.set_model_props(proto, _properties(model, tokenizer, card))
    contents[MODEL_FILE] = proto.SerializeToString()
    write_directory(output, contents)


def _properties(model: TransformerLM, tokenizer: Tokenizer, card: ModelCard) -> dict[str, str]:
    """Return the metadata for onnxruntime's `custom_metadata_map`."""
    found = {
        **{key: str(value) for key, value in dataclasses.asdict(model.config).items()},
        **{f"trained_on: {file}": digest for file, digest in card.data.items()},
        **{key: f"{value:.6g}" for key, value in card.losses.items()},
        **card.origin,
    }
    if card.steps is not None:
        found["steps"] = str(card.steps)
    if card.tokens is not None:
        found["tokens"] = str(card.tokens)
    if END_OF_TEXT in tokenizer.special_tokens:
        found["end_of_text_id"] = str(tokenizer.special_token_id(END_OF_TEXT))
    return found


def _graph(model: TransformerLM, without_cache: bool) -> Any:
    """Return the `onnx.ModelProto` of a model."""
    config = model.config
    # Export a copy with "sdpa", because the other implementations of attention cannot be exported.
    copy = TransformerLM(dataclasses.replace(config, attention="sdpa"))
    copy.load_state_dict(model.state_dict())
    copy.eval()
    batch, sequence, past = map(torch.export.Dim, ("batch", "sequence", "past"))
    # The exporter treats sizes 0 and 1 as constants, and equal sizes as the same dimension.
    shape = (2, config.kv_heads, 5, config.d_head)
    layers = range(0 if without_cache else config.num_layers)
    # Each input must be a separate tensor, because the exporter would confuse shared tensors.
    cache = [(torch.zeros(shape), torch.zeros(shape)) for _ in layers]
    names = [f"{{}}.{layer}.{part}" for layer in layers for part in ("key", "value")]
    arguments: tuple[Any, ...] = (torch.zeros(2, 3, dtype=torch.int64),)
    dynamic: dict[str, Any] = {"input_ids": {0: batch, 1: sequence}}
    if not without_cache:
        arguments += (cache,)
        dynamic["past"] = [({0: batch, 2: past}, {0: batch, 2: past}) for _ in layers]
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                _Exported(copy),
                arguments,
                dynamo=True,
                dynamic_shapes=dynamic,
                input_names=["input_ids", *(name.format("past_key_values") for name in names)],
                output_names=["logits", *(name.format("present") for name in names)],
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise RunError(f"torch could not export the model: {short_reason(error)}") from error
    assert program is not None
    proto = program.model_proto
    graph = proto.graph
    # Remove each node's source location, a traceback with local paths.
    values = (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
    for part in (graph, *graph.node, *values):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    return proto


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the progress messages and developer warnings of torch's exporter."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


# --------------------------------------------------------------------- comparison


def onnx_logits(directory: Path) -> Callable[[Tensor], Tensor]:
    """Load an exported directory with onnxruntime, and return a function from ids to logits.

    A graph with a cache receives the ids in three steps: the first half, the rest except the last
    id, and the last id.

    Raises:
        ImportError: If onnxruntime is not installed.
    """
    import onnxruntime

    path = str(directory / MODEL_FILE)
    with library_errors(f"{path} cannot be read"):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    shapes = {each.name: each.shape for each in session.get_inputs()[1:]}

    def logits_of(ids: Tensor) -> Tensor:
        cache = {
            name: np.zeros((len(ids), heads, 0, width), np.float32)
            for name, (_, heads, _, width) in shapes.items()
        }
        length = ids.shape[1]
        cuts = sorted({length // 2, length - 1} - {0}) if shapes else []
        found = []
        for part in np.split(ids.numpy(), cuts, axis=1):
            with library_errors(f"{path} cannot be run"):
                logits, *present = session.run(None, {"input_ids": part, **cache})
            cache = dict(zip(shapes, present, strict=True))
            found.append(torch.from_numpy(logits))
        return torch.cat(found, dim=1)

    return logits_of


def check(
    model: TransformerLM, tokenizer: Tokenizer, output: Path, *, without_cache: bool = False
) -> Agreement:
    """Load the directory with onnxruntime, and compare logits, greedy text and ids.

    Raises:
        ImportError: If onnxruntime is not installed.
        RunError: If something differs.
    """
    line = compare_logits(model, onnx_logits(output), LOGITS_LIMIT)
    lines = [f"{'without' if without_cache else 'with'} the cache: {line}"]
    runtime = f"onnxruntime {importlib.metadata.version('onnxruntime')}"
    with contextlib.suppress(ImportError):  # if neither transformers nor tokenizers is installed
        with library_errors(f"{output} cannot be read"):
            name, encode, _ = tokenizer_json.runtime(output)
        runtime, lines = f"{runtime}, {name}", [compare_ids(tokenizer, encode), *lines]
    return Agreement(runtime, tuple(lines))
