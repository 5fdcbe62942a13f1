"""Engines, which compute the logits for the next token of growing texts.

Read `Recomputing` first, which computes every text from its start. `Cached` keeps the keys and
values of earlier tokens, and `Compiled` also avoids the time that PyTorch takes for each operation.
All have the same results up to rounding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter

from cs336_basics.generation.precision import Precision, check_precision, with_rounded_matrices
from cs336_basics.model.attention import MultiHeadSelfAttention, RotaryPositionalEmbedding
from cs336_basics.model.bigrams import NO_TOKEN, BigramEmbedding, bigram_rows
from cs336_basics.model.kv_cache import KVCache
from cs336_basics.model.layers import Embedding, Linear, RMSNorm, SiLUFeedForward, SwiGLU
from cs336_basics.model.transformer import TransformerBlock, TransformerLM

_COMPILED_MODULES = {
    TransformerLM,
    TransformerBlock,
    MultiHeadSelfAttention,
    RotaryPositionalEmbedding,
    Linear,
    Embedding,
    BigramEmbedding,
    RMSNorm,
    SwiGLU,
    SiLUFeedForward,
    ModuleList,
}
_COMPILED_WEIGHTS = re.compile(
    r"bigram_embeddings\.(weight|scale)|(token_embeddings|lm_head|ln_final"
    r"|layers\.\d+\.(ln1|ln2|attn\.([qkv]_proj|output_proj|[qk]_norm)|ffn\.w[123]))\.(weight|bias)"
)
_INT8_PAYS = 2_000_000
"""Minimum number of weights that "auto" rounds. Fewer fit into a CPU's caches."""


class Engine(Protocol):
    """Computes logits for a batch of texts."""

    def next_logits(self, windows: Sequence[list[int]]) -> Tensor:
        """Return the logits (texts, vocab_size) for the token after each text.

        A window contains the ids that the model sees. Since the previous call, tokens were added to
        each window, or it was cut to its last part. The next call may overwrite the result.
        """
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only the texts in the given rows, at least one."""
        ...


def choose_engine(
    model: TransformerLM, num_texts: int, use_cache: bool, precision: Precision
) -> Engine:
    """Return the fastest engine for a model.

    Args:
        model: The model.
        num_texts: Number of texts.
        use_cache: Whether to keep the keys and values of earlier tokens.
        precision: See `generate`.

    Raises:
        ValueError: If there is no such precision.
    """
    check_precision(precision)
    compiled = is_fast() and can_be_compiled(model)
    if precision == "auto":
        precision = "int8" if compiled and _num_weights(model) >= _INT8_PAYS else "float32"
    if not use_cache:
        return Recomputing(with_rounded_matrices(model, precision))
    if compiled:
        return Compiled(model, num_texts, precision)
    return Cached(with_rounded_matrices(model, precision), num_texts)


class Recomputing:
    """Computes each window from its start."""

    def __init__(self, model: TransformerLM) -> None:
        self._model = model
        self._device = next(model.parameters()).device

    def next_logits(self, windows: Sequence[list[int]]) -> Tensor:
        """See `Engine`."""
        rows = [self._model(torch.tensor([window], device=self._device)) for window in windows]
        return torch.stack([logits[0, -1] for logits in rows])

    def keep(self, rows: Sequence[int]) -> None:
        """See `Engine`."""


class Cached:
    """Computes only the last token of each window, with a KVCache of the others.

    After a window is cut to its last half, its row of the cache is computed again.
    """

    def __init__(self, model: TransformerLM, num_texts: int) -> None:
        self._model = model
        weight = next(model.parameters())
        self._device, self._dtype = weight.device, weight.dtype
        self._cache = self._new_cache(num_texts)

    def next_logits(self, windows: Sequence[list[int]]) -> Tensor:
        """See `Engine`."""
        lengths = self._cache.lengths
        cut = [row for row, window in enumerate(windows) if lengths[row] != len(window) - 1]
        if cut:
            self._cache.replace(cut, self._filled_cache([windows[row] for row in cut]))
        last = torch.tensor([window[-1:] for window in windows], device=self._device)
        logits: Tensor = self._model(last, self._cache)  # (texts, 1, vocab_size)
        return logits[:, -1]

    def keep(self, rows: Sequence[int]) -> None:
        """See `Engine`."""
        self._cache.select(rows)

    def _filled_cache(self, windows: list[list[int]]) -> KVCache:
        """Return a new cache with all tokens of each window except the last."""
        cache = self._new_cache(len(windows))
        lengths = [len(window) - 1 for window in windows]
        if max(lengths) > 0:
            # The padding is at the end, so no token attends to it. `truncate` removes it.
            padded = torch.zeros(len(windows), max(lengths), dtype=torch.long)
            for row, window in enumerate(windows):
                padded[row, : lengths[row]] = torch.tensor(window[:-1], dtype=torch.long)
            self._model.hidden_states(padded.to(self._device), cache)
            cache.truncate(lengths)
        return cache

    def _new_cache(self, num_texts: int) -> KVCache:
        return KVCache(self._model.config, num_texts, self._device, self._dtype)


class Compiled:
    """Computes with native/inference/transformer.hpp, which keeps its own keys and values.

    Its threads sleep while there is nothing to do. Other programs that use the cores therefore slow
    it down less than PyTorch, whose threads wait for each other actively.
    """

    def __init__(
        self,
        model: TransformerLM,
        num_texts: int,
        precision: Precision,
        simd_level: str | None = None,
    ) -> None:
        from cs336_basics.generation._inference import Inference

        config = model.config
        weights = {
            name: tensor.detach().contiguous().numpy()
            for name, tensor in model.state_dict().items()
        }
        rope = cast(TransformerBlock, model.layers[0]).attn.rope  # shared by all layers
        angles = None
        if rope is not None:
            angles = tuple(table.contiguous().numpy() for table in (rope.cos, rope.sin))
        self._inference = Inference(
            config, weights, angles, num_texts, precision, torch.get_num_threads(), simd_level
        )
        self._bigram_rows = config.bigram_rows
        self._texts = list(range(num_texts))
        self._lengths = [0] * num_texts  # number of tokens of each text that were added
        self._logits = np.empty((num_texts, config.vocab_size), np.float32)

    def next_logits(self, windows: Sequence[list[int]]) -> Tensor:
        """See `Engine`."""
        ids: list[int] = []
        texts: list[int] = []
        positions: list[int] = []
        before: list[int] = []  # the token before each
        last: list[int] = []
        for text, window in zip(self._texts, windows, strict=True):
            start = self._lengths[text]
            if start >= len(window):  # the window was cut, which changed the positions
                start = 0
            ids += window[start:]
            texts += [text] * (len(window) - start)
            positions += range(start, len(window))
            before += window[start - 1 : -1] if start else [NO_TOKEN, *window[:-1]]
            last.append(len(ids) - 1)
            self._lengths[text] = len(window)
        logits = self._logits[: len(windows)]
        tokens = np.array(ids, np.int64)
        rows = []
        if self._bigram_rows:
            rows = [bigram_rows(np.array(before, np.int64), tokens, self._bigram_rows)]
        self._inference.forward(
            tokens,
            np.array(texts, np.int64),
            np.array(positions, np.int64),
            np.array(last, np.int64),
            logits,
            *rows,
        )
        return torch.from_numpy(logits)

    def keep(self, rows: Sequence[int]) -> None:
        """See `Engine`."""
        self._texts = [self._texts[row] for row in rows]


def is_fast() -> bool:
    """Return whether the extension of `Compiled` is built and has vector code for this CPU.

    Without vector code, PyTorch is faster.
    """
    try:
        from cs336_basics.generation._inference import default_simd_level
    except ImportError:
        return False
    return default_simd_level() != "scalar"


def can_be_compiled(model: Module) -> bool:
    """Return whether `Compiled` computes what the model computes.

    The model must be in float32 on the CPU and consist of the library's own modules. A user may
    have replaced one, sharding replaces classes, and hooks may change results.
    """
    if torch.is_autocast_enabled("cpu"):
        return False
    if not all(_COMPILED_WEIGHTS.fullmatch(name) for name in model.state_dict()):
        return False
    for module in model.modules():
        if type(module) not in _COMPILED_MODULES:
            return False
        if module._forward_hooks or module._forward_pre_hooks:
            return False
        if module.training and getattr(module, "dropout", False):
            return False
    return all(
        type(tensor) in (Parameter, Tensor)
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        for tensor in (*model.parameters(), *model.buffers())
    )


def _num_weights(model: TransformerLM) -> int:
    return sum(module.weight.numel() for module in model.modules() if isinstance(module, Linear))
