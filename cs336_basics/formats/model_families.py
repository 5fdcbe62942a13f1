"""The model families of other libraries that can represent a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cs336_basics._support.errors import InputError

if TYPE_CHECKING:
    from cs336_basics.model import ModelConfig

Family = Literal["llama", "qwen2", "qwen3"]

FAMILY_NAMES: dict[Family, str] = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}
"""Names for messages and cards."""


def family_of(config: ModelConfig) -> Family:
    """Return the family of a model.

    This library's default model is a Llama (Touvron et al. 2023). With `qkv_bias`, it is a Qwen2,
    and with `qk_norm`, a Qwen3.

    Raises:
        ValueError: If no family can represent the model.
    """
    for switch, value, needed in (
        ("norm", config.norm, "pre"),
        ("position", config.position, "rope"),
        ("ffn", config.ffn, "swiglu"),
        ("logit_soft_cap", config.logit_soft_cap, None),
        ("bigram_rows", config.bigram_rows, 0),
        ("qkv_bias", config.qkv_bias and config.qk_norm, False),
    ):
        if value != needed:
            note = " with qk_norm" if switch == "qkv_bias" else ""
            raise InputError(
                f"must be {needed!r}{note} to export a model as a Llama, Qwen2 or Qwen3, got "
                f"{value!r}",
                argument=switch,
            )
    return "qwen3" if config.qk_norm else "qwen2" if config.qkv_bias else "llama"
