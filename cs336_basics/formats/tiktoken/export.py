"""The export format of tiktoken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cs336_basics.formats.export_format import TokenizerFormat

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Runtime
    from cs336_basics.tokenizer import Tokenizer


@dataclass(kw_only=True)
class TiktokenTokenizer(TokenizerFormat):
    """A rank file, with the pattern and the special tokens beside it."""

    name: ClassVar[str] = "tiktoken"

    def contents(self, tokenizer: Tokenizer) -> dict[str, str | bytes]:
        """See `TokenizerFormat`."""
        from cs336_basics.formats.tiktoken import ranks

        return ranks.contents(tokenizer.definition)

    def runtime(self, directory: Path, special_tokens: list[str]) -> Runtime:
        """See `TokenizerFormat`."""
        from cs336_basics.formats.tiktoken import ranks

        return ranks.runtime(directory)
