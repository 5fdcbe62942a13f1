"""The export format of llm.c: a file with a header of 1,024 bytes and the ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cs336_basics.formats.export_format import TokenFormat

if TYPE_CHECKING:
    from cs336_basics.tokenizer.files.joined_tokens import TokenPaths


@dataclass(kw_only=True)
class LlmCTokens(TokenFormat):
    """A file of uint16 ids or, for vocabularies above 65,536, of uint32 ids."""

    name: ClassVar[str] = "llm.c"
    is_file: ClassVar[bool] = True

    def write(self, paths: TokenPaths, output: Path) -> None:
        """See `TokenFormat`."""
        from cs336_basics.formats import binary_tokens

        binary_tokens.write(paths, output, has_header=True)
