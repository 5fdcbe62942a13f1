"""Stanford CS336 assignment 1 as a library: raw text in, a trained language model out.

The public names load on first use, so `import cs336_basics` is fast and does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cs336_basics._support.lazy import lazy_names

__version__ = "1.0.0"

__all__ = [
    "TRAINERS",
    "BPE_Trainer",
    "ModelConfig",
    "Tokenizer",
    "TransformerLM",
    "evaluate",
    "load_run",
    "train_bpe",
]

if TYPE_CHECKING:
    from cs336_basics.bpe import TRAINERS, BPE_Trainer, train_bpe
    from cs336_basics.model import ModelConfig, TransformerLM
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.training.load_run import load_run
    from cs336_basics.training.text_evaluation import evaluate
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cs336_basics.bpe": "BPE_Trainer TRAINERS train_bpe",
            "cs336_basics.model": "ModelConfig TransformerLM",
            "cs336_basics.tokenizer": "Tokenizer",
            "cs336_basics.training.load_run": "load_run",
            "cs336_basics.training.text_evaluation": "evaluate",
        },
    )
