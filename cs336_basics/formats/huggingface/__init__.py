"""Hugging Face's formats: `tokenizer.json`, Llama weights and model directories."""

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import lazy_names

__all__ = ["load_model"]

if TYPE_CHECKING:
    from cs336_basics.formats.huggingface.huggingface_models import load_model
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"cs336_basics.formats.huggingface.huggingface_models": "load_model"}
    )
