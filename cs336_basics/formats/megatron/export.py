"""The export format of Megatron-LM: indexed datasets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cs336_basics.formats.export_format import TokenFormat

if TYPE_CHECKING:
    from cs336_basics.tokenizer.files.joined_tokens import TokenPaths


@dataclass(kw_only=True)
class MegatronTokens(TokenFormat):
    """Two files, `tokens.bin` and `tokens.idx`."""

    name: ClassVar[str] = "megatron"

    def write(self, paths: TokenPaths, output: Path) -> None:
        """See `TokenFormat`."""
        from cs336_basics.formats.megatron import indexed_dataset

        indexed_dataset.write(paths, output)
