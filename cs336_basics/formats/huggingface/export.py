"""The export formats of Hugging Face: tokenizers and models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.validation import Checked, option
from cs336_basics.formats.export_format import ModelFormat, TokenizerFormat

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Agreement, Runtime
    from cs336_basics.formats.model_card import ModelCard
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer

ROLES = ("eos_token", "pad_token", "bos_token", "unk_token")
"""Roles of special tokens in `tokenizer_config.json`."""


@dataclass(kw_only=True)
class TokenizerFiles(Checked):
    """Options for what transformers reads beside `tokenizer.json`; see `special_roles`."""

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

    keep_files: bool = option(
        "Hugging Face and ONNX: copy the chat templates and the tokenizer_config.json from the "
        "tokenizer's directory, unchanged",
        False,
    )

    def roles_and_kept(self, tokenizer: Tokenizer) -> tuple[dict[str, str], dict[str, bytes]]:
        """Return the special tokens that are given or named in a kept file, and the kept files.

        Raises:
            ValueError: If tokens are given and a kept file names them, too. See also
                `files_to_keep` and `kept_roles`.
        """
        from cs336_basics.formats.huggingface.kept_files import (
            CONFIG_FILE,
            files_to_keep,
            kept_roles,
        )

        roles = {role: getattr(self, role) for role in ROLES}
        roles = {role: token for role, token in roles.items() if token is not None}
        if not self.keep_files:
            return roles, {}
        directory = tokenizer.loaded_from
        kept = files_to_keep(directory)
        if CONFIG_FILE in kept:
            for role in roles:
                raise InputError(
                    f"cannot change the {CONFIG_FILE} in {directory}, which is kept",
                    argument=role,
                    remedy=("omit it or ", Argument("keep_files")),
                )
            roles = kept_roles(kept, tokenizer)
        return roles, kept


@dataclass(kw_only=True)
class HuggingFaceTokenizer(TokenizerFiles, TokenizerFormat):
    """`tokenizer.json` and `tokenizer_config.json`, which `AutoTokenizer` loads."""

    name: ClassVar[str] = "huggingface"

    def contents(self, tokenizer: Tokenizer) -> dict[str, str | bytes]:
        """See `TokenizerFormat`."""
        from cs336_basics.formats.huggingface import tokenizer_json

        roles, kept = self.roles_and_kept(tokenizer)
        return tokenizer_json.contents(tokenizer.definition, kept, None, **roles)

    def runtime(self, directory: Path, special_tokens: list[str]) -> Runtime:
        """See `TokenizerFormat`."""
        from cs336_basics.formats.huggingface import tokenizer_json

        return tokenizer_json.runtime(directory)


@dataclass(kw_only=True)
class HuggingFaceModel(TokenizerFiles, ModelFormat):
    """A directory that `AutoModelForCausalLM` and `AutoTokenizer` load."""

    name: ClassVar[str] = "huggingface"

    def write(
        self, model: TransformerLM, tokenizer: Tokenizer, output: Path, card: ModelCard
    ) -> None:
        """See `ModelFormat`."""
        from cs336_basics.formats.huggingface import huggingface_models

        roles, kept = self.roles_and_kept(tokenizer)
        huggingface_models.write(model, tokenizer, output, card, kept, **roles)

    def check(self, model: TransformerLM, tokenizer: Tokenizer, output: Path) -> Agreement:
        """See `ModelFormat`."""
        from cs336_basics.formats.huggingface import huggingface_models

        return huggingface_models.check(model, tokenizer, output)
