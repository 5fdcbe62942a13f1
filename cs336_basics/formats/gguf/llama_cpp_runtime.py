"""Compute ids and logits from a GGUF file with llama.cpp, through llama-cpp-python."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cs336_basics._support.errors import RunError

_BATCH = 512


class LlamaCpp:
    """A GGUF file loaded by llama.cpp. Use it as a context manager to release the memory.

    Keys and values are cached in float32 instead of llama.cpp's default, float16.

    Args:
        path: GGUF file.
        context_length: Maximum number of tokens in a sequence.

    Raises:
        ImportError: If llama-cpp-python is not installed.
        RunError: If llama.cpp cannot load the file.
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
            raise RunError(f"llama.cpp cannot load the file: {error}", place=str(path)) from error

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, recognizing special tokens."""
        ids: list[int] = self.llama.tokenize(text.encode(), add_bos=False, special=True)
        return ids

    def logits(self, ids: Tensor) -> Tensor:
        """Return float32 logits (1, sequence, vocab_size) for ids (1, sequence)."""
        self.llama.reset()
        self.llama.eval(ids[0].tolist())
        return torch.from_numpy(np.array(self.llama.scores[: ids.shape[1]]))[None]

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(self, *_: object) -> None:
        self.llama.close()


@contextlib.contextmanager
def _silent(library: Any) -> Iterator[None]:
    """Silence llama.cpp's log, which contains warnings even with `verbose=False`."""
    before, data = library.llama_log_callback(), ctypes.c_void_p()
    library.llama_log_get(ctypes.byref(before), ctypes.byref(data))
    ignore = library.llama_log_callback(lambda level, text, user_data: None)
    library.llama_log_set(ignore, None)
    try:
        yield
    finally:
        library.llama_log_set(before, data)
