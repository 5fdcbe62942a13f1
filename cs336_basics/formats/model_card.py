"""The card of an exported model: its shape, its training text, and an example that loads it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import cs336_basics
from cs336_basics._support.paths import printable_path
from cs336_basics._support.visible import markdown_code, markdown_text
from cs336_basics.formats.model_families import FAMILY_NAMES, family_of

if TYPE_CHECKING:
    from cs336_basics.model import ModelConfig


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """Facts about a model's training."""

    data: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Mapping from the name of a text or token file to the SHA-256 of its bytes."""
    steps: int | None = None
    """Number of optimizer steps."""
    tokens: int | None = None
    """Number of tokens trained on, including repetitions."""
    losses: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Mapping from names, such as "validation loss", to values in nats per token."""
    origin: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Facts about the model that the training started from, if it did."""
    chats: bool = False
    """Whether the model was trained on prompts and answers. Exports then contain the template."""


def card_text(card: ModelCard, config: ModelConfig, name: str, prompt: str) -> str:
    """Return the model card as Markdown, with a metadata block for the Hugging Face hub.

    The card's example continues `prompt`. The license is "unknown", because only the user knows the
    terms of the data.
    """
    kind = FAMILY_NAMES[family_of(config)]
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: text-generation",
        "# Fill in the license; the terms of the training text may limit it.",
        "license: unknown",
        "tags:",
        "- cs336-basics",
        "---",
        "",
        f"# {_shown(name)}",
        "",
        f"A causal language model with {config.num_parameters():,} weights, trained with "
        f"cs336-basics {cs336_basics.__version__} and exported as a {kind}.",
        "",
        *_example(card, config, name, prompt),
        "",
        "| | |",
        "|---|---|",
        *_facts(card, config),
    ]
    if card.data:
        lines += ["", "## Trained on", "", "| file | SHA-256 |", "|---|---|"]
        lines += [
            f"| {_shown(file)} | {markdown_code(digest)} |" for file, digest in card.data.items()
        ]
    return "\n".join([*lines, ""])


def _example(card: ModelCard, config: ModelConfig, name: str, prompt: str) -> list[str]:
    """Return the lines of a block of code that continues the prompt."""
    encoded = f'tokenizer({prompt!r}, return_tensors="pt").input_ids'
    if card.chats:
        encoded = (
            'tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}], '
            'add_generation_prompt=True, return_tensors="pt").input_ids'
        )
    return [
        "```python",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f"tokenizer = AutoTokenizer.from_pretrained({name!r})",
        f"model = AutoModelForCausalLM.from_pretrained({name!r})",
        f"ids = {encoded}",
        f"output = model.generate(ids, max_length={config.context_length}, do_sample=True)",
        "print(tokenizer.decode(output[0]))",
        "```",
    ]


def _facts(card: ModelCard, config: ModelConfig) -> list[str]:
    """Return the table rows about the model and its training."""
    lines = [
        f"| context length | {config.context_length:,} tokens |",
        f"| vocabulary | {config.vocab_size:,} tokens |",
        f"| layers, heads, d_model, d_ff | {config.num_layers}, {config.num_heads}, "
        f"{config.d_model}, {config.d_ff} |",
    ]
    if config.kv_heads != config.num_heads:
        lines.append(f"| heads of keys and values | {config.kv_heads} |")
    if config.tied_embeddings:
        two = config.embedding_factor != 1
        note = "tied in training, with a scale; stored here as two matrices" if two else "tied"
        lines.append(f"| embeddings | {note} |")
    if card.steps is not None:
        lines.append(f"| optimizer steps | {card.steps:,} |")
    if card.tokens is not None:
        lines.append(f"| tokens trained on | {card.tokens:,} |")
    lines += [f"| {_shown(key)} | {value:.4f} |" for key, value in card.losses.items()]
    lines += [f"| {_shown(key)} | {_shown(value)} |" for key, value in card.origin.items()]
    return lines


def _shown(text: str) -> str:
    """Return text, such as a file name, without effect in Markdown, in HTML and in a table."""
    return markdown_text(printable_path(text))
