"""The export formats of Hugging Face: tokenizers and models."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cs336_basics._support.validation import Checked, option
from cs336_basics.formats.export_format import ModelFormat, TokenizerFormat

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Agreement, Runtime
    from cs336_basics.formats.model_card import ModelCard
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer, TokenizerDefinition


@dataclass(kw_only=True)
class SpecialRoles(Checked):
    """Options that name special tokens for `tokenizer_config.json`; see `special_roles`."""

    eos_token: str | None = option(
        "Hugging Face and ONNX: special token at the end of a text (default: <|endoftext|>)",
        None,
        metavar="TOKEN",
    )
    pad_token: str | None = option(
        "Hugging Face and ONNX: special token for padding (default: the eos token)",
        None,
        metavar="TOKEN",
    )
    bos_token: str | None = option(
        "Hugging Face and ONNX: special token for the start of a text; not added automatically",
        None,
        metavar="TOKEN",
        rare=True,
    )
    unk_token: str | None = option(
        "Hugging Face and ONNX: special token for unknown text", None, metavar="TOKEN", rare=True
    )

    def roles(self) -> dict[str, str]:
        """Return the special tokens that are given, by role."""
        roles = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(SpecialRoles)
        }
        return {role: token for role, token in roles.items() if token is not None}


@dataclass(kw_only=True)
class HuggingFaceTokenizer(SpecialRoles, TokenizerFormat):
    """`tokenizer.json` and `tokenizer_config.json`, which `AutoTokenizer` loads."""

    name: ClassVar[str] = "huggingface"

    def contents(self, definition: TokenizerDefinition) -> dict[str, str | bytes]:
        """See `TokenizerFormat`."""
        from cs336_basics.formats.huggingface import tokenizer_json

        return {**tokenizer_json.contents(definition, None, **self.roles())}

    def runtime(self, directory: Path, special_tokens: list[str]) -> Runtime:
        """See `TokenizerFormat`."""
        from cs336_basics.formats.huggingface import tokenizer_json

        return tokenizer_json.runtime(directory)


@dataclass(kw_only=True)
class HuggingFaceModel(SpecialRoles, ModelFormat):
    """A directory that `AutoModelForCausalLM` and `AutoTokenizer` load."""

    name: ClassVar[str] = "huggingface"

    def write(
        self, model: TransformerLM, tokenizer: Tokenizer, output: Path, card: ModelCard
    ) -> None:
        """See `ModelFormat`."""
        from cs336_basics.formats.huggingface import huggingface_models

        huggingface_models.write(model, tokenizer, output, card, **self.roles())

    def check(self, model: TransformerLM, tokenizer: Tokenizer, output: Path) -> Agreement:
        """See `ModelFormat`."""
        from cs336_basics.formats.huggingface import huggingface_models

        return huggingface_models.check(model, tokenizer, output)
