"""Stanford CS336 assignment 1 as a library: raw text in, a trained language model out.

The public names load on first use, so that `import cs336_basics` is quick and never imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# public name -> the module that holds it
_PUBLIC = {
    "BPE_Trainer": "cs336_basics.bpe",
    "TRAINERS": "cs336_basics.bpe",
    "train_bpe": "cs336_basics.bpe",
    "Tokenizer": "cs336_basics.tokenizer",
    "TransformerLM": "cs336_basics.model",
    "ModelConfig": "cs336_basics.model",
    "load_run": "cs336_basics.training.load_run",
}

__all__ = [
    "TRAINERS",
    "BPE_Trainer",
    "ModelConfig",
    "Tokenizer",
    "TransformerLM",
    "load_run",
    "train_bpe",
]

if TYPE_CHECKING:
    from cs336_basics.bpe import TRAINERS, BPE_Trainer, train_bpe
    from cs336_basics.model import ModelConfig, TransformerLM
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.training.load_run import load_run


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
