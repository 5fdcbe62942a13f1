"""A model and its tokenizer for Hugging Face's transformers, without remote code.

The directory holds config.json, model.safetensors, generation_config.json, tokenizer.json,
tokenizer_config.json and README.md, the model card. `AutoTokenizer` and `AutoModelForCausalLM` load
it offline, as a Llama or, with QK-norm, as a Qwen3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cs336_basics._support.files import json_text, printable_path
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.formats.agreement import Agreement
from cs336_basics.formats.huggingface import huggingface_tokenizers
from cs336_basics.formats.huggingface.huggingface_tokenizers import tokenizer_contents
from cs336_basics.formats.huggingface.llama import llama_config, llama_state
from cs336_basics.formats.logit_agreement import compare_logits
from cs336_basics.formats.model_card import ModelCard, card_text
from cs336_basics.formats.outputs import write_directory
from cs336_basics.model import TransformerLM
from cs336_basics.tokenizer import Tokenizer

LOGITS_LIMIT = 1e-4
"""Largest difference of a float32 logit that counts as agreement."""

STALE = (
    *huggingface_tokenizers.STALE,
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "adapter_config.json",
)
"""Files that transformers reads besides or instead of these."""


def write(model: TransformerLM, tokenizer: Tokenizer, output: Path, card: ModelCard) -> None:
    """Write the directory; the weights are float32. See `export_model`."""
    import safetensors.torch

    end_id = None
    if END_OF_TEXT in tokenizer.special_tokens:
        end_id = tokenizer.special_token_id(END_OF_TEXT)
    config = llama_config(model.config, end_id)
    state = llama_state(model.config, model.state_dict())
    weights = {name: value.to("cpu", torch.float32) for name, value in state.items()}
    generation = {"eos_token_id": end_id, "pad_token_id": end_id, "do_sample": True}
    contents: dict[str, str | bytes] = {
        **tokenizer_contents(tokenizer, model.config.context_length),
        "README.md": card_text(card, model.config, printable_path(output.resolve().name)),
        "generation_config.json": json_text(generation),
        "model.safetensors": safetensors.torch.save(weights, metadata={"format": "pt"}),
        "config.json": json_text(config),
    }
    write_directory(output, contents, STALE)


def check(model: TransformerLM, tokenizer: Tokenizer, output: Path) -> Agreement:
    """Load the directory with transformers and compare ids, logits and greedy text."""
    import transformers

    found = huggingface_tokenizers.check(tokenizer, output)
    with _no_progress_bar(transformers.utils.logging):
        theirs: Any = transformers.AutoModelForCausalLM.from_pretrained(
            str(output), local_files_only=True
        )
    theirs.eval()

    def logits_of(ids: Tensor) -> Tensor:
        with torch.inference_mode():
            logits: Tensor = theirs(ids).logits
        return logits

    line = compare_logits(model, logits_of, LOGITS_LIMIT)
    return Agreement(found.runtime, (*found.lines, f"{type(theirs).__name__}: {line}"))


@contextlib.contextmanager
def _no_progress_bar(logging: Any) -> Iterator[None]:
    """Keep transformers from printing a bar, which it does even where there is no terminal."""
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
