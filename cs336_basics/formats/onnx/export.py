"""The export format of ONNX engines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cs336_basics._support.validation import option
from cs336_basics.formats.export_format import ModelFormat
from cs336_basics.formats.huggingface.export import TokenizerFiles

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Agreement
    from cs336_basics.formats.model_card import ModelCard
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer


@dataclass(kw_only=True)
class OnnxModel(TokenizerFiles, ModelFormat):
    """A directory with a graph, and the tokenizer in Hugging Face's format."""

    name: ClassVar[str] = "onnx"

    without_cache: bool = option("ONNX: export without the key-value cache", False)

    def write(
        self, model: TransformerLM, tokenizer: Tokenizer, output: Path, card: ModelCard
    ) -> None:
        """See `ModelFormat`."""
        from cs336_basics.formats.onnx import onnx_models

        roles, kept = self.roles_and_kept(tokenizer)
        onnx_models.write(
            model, tokenizer, output, card, kept, without_cache=self.without_cache, **roles
        )

    def check(self, model: TransformerLM, tokenizer: Tokenizer, output: Path) -> Agreement:
        """See `ModelFormat`."""
        from cs336_basics.formats.onnx import onnx_models

        return onnx_models.check(model, tokenizer, output, without_cache=self.without_cache)
