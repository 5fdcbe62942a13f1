"""What an export format is: its options, and how it writes and checks an export.

A format is a class in `export.py` of its folder, listed in `exports.py`. The fields of the class
are the options of the format, on the command line too. The modules of a format, which may need
torch or another library, are imported inside its methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cs336_basics._support.validation import Checked

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Agreement, Runtime
    from cs336_basics.formats.model_card import ModelCard
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.tokenizer.files.joined_tokens import TokenPaths


@dataclass(kw_only=True)
class ExportFormat(Checked):
    """An export format with the options for one export."""

    name: ClassVar[str]
    """Name of the format, such as "huggingface"."""


class TokenizerFormat(ExportFormat, ABC):
    """A format of tokenizers, which is a directory of files."""

    @abstractmethod
    def contents(self, tokenizer: Tokenizer) -> dict[str, str | bytes]:
        """Return the content of each file by its name.

        Raises:
            ValueError: If the format cannot represent the tokenizer.
        """

    @abstractmethod
    def runtime(self, directory: Path, special_tokens: list[str]) -> Runtime:
        """Load a directory in the other library.

        Raises:
            ImportError: If the other library is not installed.
        """


class ModelFormat(ExportFormat, ABC):
    """A format of models with their tokenizers."""

    is_file: ClassVar[bool] = False
    """Whether the output is a file. Otherwise, it is a directory."""

    @abstractmethod
    def write(
        self, model: TransformerLM, tokenizer: Tokenizer, output: Path, card: ModelCard
    ) -> None:
        """Write the output; see `export_model`."""

    @abstractmethod
    def check(self, model: TransformerLM, tokenizer: Tokenizer, output: Path) -> Agreement:
        """Load the output in the other library and compare it; see `check_model`."""


class TokenFormat(ExportFormat, ABC):
    """A format of token files."""

    is_file: ClassVar[bool] = False
    """Whether the output is a file. Otherwise, it is a directory."""

    @abstractmethod
    def write(self, paths: TokenPaths, output: Path) -> None:
        """Write the output; see `export_tokens`."""
