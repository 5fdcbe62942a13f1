"""The export format of nanoGPT: a file of uint16 ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cs336_basics.formats.export_format import TokenFormat

if TYPE_CHECKING:
    from cs336_basics.tokenizer.files.joined_tokens import TokenPaths


@dataclass(kw_only=True)
class NanoGptTokens(TokenFormat):
    """A file such as `train.bin`, which nanoGPT maps as uint16."""

    name: ClassVar[str] = "nanogpt"
    is_file: ClassVar[bool] = True

    def write(self, paths: TokenPaths, output: Path) -> None:
        """See `TokenFormat`."""
        from cs336_basics.formats import binary_tokens

        binary_tokens.write(paths, output, has_header=False)
