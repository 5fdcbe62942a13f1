"""Formats of other libraries: whole tokenizers and models, written for them and compared there.

`formats.py` is the table of the formats and the way in; each format is one more file. Names and
layouts are translated where the parts belong: those of tokenizers in `tokenizer/`
(`huggingface_files.py`, `tiktoken_files.py`), those of weights in `model/llama.py`.
"""

from cs336_basics.interop.agreement import Agreement
from cs336_basics.interop.formats import (
    MODEL_FORMATS,
    TOKENIZER_FORMATS,
    check_model,
    check_tokenizer,
    export_model,
    export_tokenizer,
)
from cs336_basics.interop.model_card import ModelCard

__all__ = [
    "MODEL_FORMATS",
    "TOKENIZER_FORMATS",
    "Agreement",
    "ModelCard",
    "check_model",
    "check_tokenizer",
    "export_model",
    "export_tokenizer",
]
