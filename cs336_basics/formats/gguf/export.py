"""The export format of llama.cpp: GGUF."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from cs336_basics._support.validation import one_of, option
from cs336_basics.formats.export_format import ModelFormat

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Agreement
    from cs336_basics.formats.model_card import ModelCard
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer

WEIGHT_TYPES = ("f32", "f16", "q8_0")
"""Types of matrices: float32, float16, and int8 with one float16 scale per 32 numbers. Norm gains
are always float32."""


@dataclass(kw_only=True)
class GgufModel(ModelFormat):
    """A model and its tokenizer in one GGUF file."""

    name: ClassVar[str] = "gguf"
    is_file: ClassVar[bool] = True

    type: Annotated[str, one_of(WEIGHT_TYPES)] = option(
        f"GGUF: type of the weight matrices, one of {', '.join(WEIGHT_TYPES)}",
        "f32",
        metavar="TYPE",
    )

    def write(
        self, model: TransformerLM, tokenizer: Tokenizer, output: Path, card: ModelCard
    ) -> None:
        """See `ModelFormat`."""
        from cs336_basics.formats.gguf import gguf_models

        gguf_models.write(model, tokenizer, output, card, type=self.type)

    def check(self, model: TransformerLM, tokenizer: Tokenizer, output: Path) -> Agreement:
        """See `ModelFormat`."""
        from cs336_basics.formats.gguf import gguf_models

        return gguf_models.check(model, tokenizer, output, type=self.type)
