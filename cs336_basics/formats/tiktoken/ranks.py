"""Write tiktoken's rank files; `loading.py` reads them.

A file contains a `base64(token) rank` line for each token, but no special tokens, no split pattern
and no list of merges (see `rank_merges.py`). A token's rank is also its id. The format was checked
with tiktoken 0.14.0.

Our exports add an `encoding.json` with the split pattern and the special tokens, and an
`encoding.py` that loads the tokenizer with tiktoken.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import json_text
from cs336_basics._support.messages import short_repr
from cs336_basics.formats.foreign_patterns import (
    to_fancy_regex,
)
from cs336_basics.formats.tiktoken.loading import ENCODING_FILE, RANKS_FILE, read_export
from cs336_basics.formats.tiktoken.rank_merges import merges_of_ranks
from cs336_basics.formats.unsaid_parts import check_only_plain_parts, warn_of_post_processor
from cs336_basics.tokenizer.definition import TokenizerDefinition

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Runtime

SNIPPET_FILE = "encoding.py"

SNIPPET = '''\
"""Load the tokenizer in this directory with tiktoken: `encoding = load()`."""

import base64
import json
from pathlib import Path

import tiktoken


def load(directory=Path(__file__).parent):
    # tiktoken's load_tiktoken_bpe caches files by path, even if they change later.
    lines = Path(directory, "ranks.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    settings = json.loads(Path(directory, "encoding.json").read_text(encoding="utf-8"))
    return tiktoken.Encoding(mergeable_ranks=ranks, **settings)


if __name__ == "__main__":
    encoding = load()
    ids = encoding.encode("Hello, world", allowed_special="all")
    print(ids, encoding.decode(ids))
'''


def contents(definition: TokenizerDefinition) -> dict[str, str | bytes]:
    """Return the content of each file by its name.

    Raises:
        ValueError: If tiktoken would give different ids. See `tiktoken_ranks` and `to_fancy_regex`.

    Warns:
        UserWarning: If the tokenizer has a post-processor that adds ids.
    """
    ranks = tiktoken_ranks(definition)
    lines = (b"%b %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
    warn_of_post_processor(definition, "tiktoken")
    settings = {
        "name": "cs336_basics",
        "pat_str": to_fancy_regex(definition.pattern),
        "special_tokens": definition.special_ids,
    }
    return {
        SNIPPET_FILE: SNIPPET,
        ENCODING_FILE: json_text(settings),
        RANKS_FILE: b"".join(lines),
    }


def runtime(directory: Path) -> Runtime:
    """Load the directory as its encoding.py does."""
    import tiktoken

    from cs336_basics.formats.agreement import Runtime

    encoding = exported_encoding(directory)
    special = set(encoding._special_tokens.values())

    def decode(ids: Sequence[int], skip: bool) -> str:
        return str(encoding.decode([i for i in ids if not skip or i not in special]))

    return Runtime(
        f"tiktoken {tiktoken.__version__}",
        lambda text: encoding.encode(text, allowed_special="all"),
        decode,
    )


def exported_encoding(directory: Path) -> Any:
    """Return the tiktoken `Encoding` in an exported directory."""
    import tiktoken

    ranks, settings = read_export(directory)  # encoding.py is not run: it may be anyone's
    return tiktoken.Encoding(**{**settings, "mergeable_ranks": ranks})


def tiktoken_ranks(definition: TokenizerDefinition) -> dict[bytes, int]:
    """Return mergeable ranks, in ascending order, with which tiktoken gives the same ids.

    Raises:
        ValueError: If ranks cannot represent the tokenizer, so that tiktoken would silently give
            different ids.
    """
    check_only_plain_parts(definition, "tiktoken")
    vocab, merges = definition.vocab, definition.merges
    own_ids = definition.arguments()["added_ids"]
    special = {token.encode() for token in definition.special_ids}
    for first, second in pairwise(sorted(special)):
        if second.startswith(first):
            raise InputError(
                f"special token {short_repr(second)} starts with special token "
                f"{short_repr(first)}; tiktoken could match either"
            )
    ranks = {token: token_id for token_id, token in sorted(vocab.items())}
    merged = {left + right for left, right in merges}
    for token in special:
        if len(token) == 1 or token in merged or token.decode() in own_ids:
            raise InputError(
                f"special token {short_repr(token)} is also an ordinary token, which tiktoken does "
                "not allow"
            )
        del ranks[token]
    number_of = {pair: number for number, pair in enumerate(merges)}
    made = merges_of_ranks(ranks)
    before = -1
    for pair in made:
        number = number_of.get(pair, -1)
        if number <= before:  # tiktoken merges in the order of the ids
            token = b"".join(pair)
            raise InputError(
                f"ranks cannot represent the merges that produce {short_repr(token)}, id "
                f"{ranks[token]}; tiktoken would join {short_repr(list(pair))}"
            )
        before = number
    unmade = ranks.keys() - set(map(b"".join, made))
    for token in sorted(unmade, key=ranks.__getitem__):
        if len(token) > 1 and not definition.ignore_merges:
            raise InputError(
                f"no merge produces token {short_repr(token)}, but tiktoken would produce it",
                remedy="remove the token",
            )
    return ranks
