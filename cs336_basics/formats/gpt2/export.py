"""The export format of GPT-2: a pair of files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cs336_basics.formats.export_format import TokenizerFormat

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Runtime
    from cs336_basics.tokenizer import Tokenizer


@dataclass(kw_only=True)
class Gpt2Tokenizer(TokenizerFormat):
    """`vocab.json` and `merges.txt`. Their readers produce tokens only by merging."""

    name: ClassVar[str] = "gpt2"

    def contents(self, tokenizer: Tokenizer) -> dict[str, str | bytes]:
        """See `TokenizerFormat`."""
        from cs336_basics.formats.gpt2 import pair
        from cs336_basics.tokenizer.unmerged_tokens import check_merges_suffice

        check_merges_suffice(tokenizer.definition, "readers of gpt2 files")
        return {**pair.contents(tokenizer.definition)}

    def runtime(self, directory: Path, special_tokens: list[str]) -> Runtime:
        """See `TokenizerFormat`."""
        from cs336_basics.formats.gpt2 import pair

        return pair.runtime(directory, special_tokens)
