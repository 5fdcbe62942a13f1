"""llama.cpp, by llama-cpp-python, as something to compare with: ids and logits of a GGUF file."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

_BATCH = 512


class LlamaCpp:
    """A GGUF file that llama.cpp has loaded; a context manager, which releases it.

    Keys and values are cached in float32, not in float16 as by default.

    Args:
        path: the file.
        context_length: longest sequence, in tokens.

    Raises:
        ImportError: llama-cpp-python is not installed.
        RuntimeError: llama.cpp does not load the file.
    """

    def __init__(self, path: Path, context_length: int) -> None:
        import llama_cpp

        self.version: str = llama_cpp.__version__
        try:
            with _silent(llama_cpp):
                self.llama: Any = llama_cpp.Llama(
                    str(path),
                    n_ctx=context_length,
                    n_batch=min(context_length, _BATCH),
                    logits_all=True,
                    type_k=llama_cpp.GGML_TYPE_F32,
                    type_v=llama_cpp.GGML_TYPE_F32,
                    verbose=False,
                )
        except ValueError as error:
            raise RuntimeError(f"llama.cpp does not load {path}: {error}") from error

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, special tokens included."""
        ids: list[int] = self.llama.tokenize(text.encode(), add_bos=False, special=True)
        return ids

    def logits(self, ids: Tensor) -> Tensor:
        """Return the logits (1, sequence, vocab_size), float32, of ids (1, sequence)."""
        self.llama.reset()
        self.llama.eval(ids[0].tolist())
        return torch.from_numpy(np.array(self.llama.scores[: ids.shape[1]]))[None]

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.llama.close()


@contextlib.contextmanager
def _silent(library: Any) -> Iterator[None]:
    """Keep llama.cpp from logging: `verbose=False` leaves warnings, as of a padded context."""
    before, data = library.llama_log_callback(), ctypes.c_void_p()
    library.llama_log_get(ctypes.byref(before), ctypes.byref(data))
    ignore = library.llama_log_callback(lambda level, text, user_data: None)
    library.llama_log_set(ignore, None)
    try:
        yield
    finally:
        library.llama_log_set(before, data)
