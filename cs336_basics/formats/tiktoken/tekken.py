"""Read Mistral's Tekken tokenizers: `tekken.json`, ranks of tiktoken in Mistral's own layout.

The special tokens have the ids from 0, and the ranks follow. The file may have more ranks than the
tokenizer uses, and fewer special tokens; the others are called <SPECIAL_n>. The format was checked
with mistral-common 1.13.1.

mistral-common never looks for special tokens in a text; it adds their ids itself. `Tokenizer` finds
them, unless `allowed_special=()`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.vocabularies import MAX_ID
from cs336_basics.formats.foreign_patterns import from_fancy_regex
from cs336_basics.formats.tiktoken.rank_merges import definition_of_ranks
from cs336_basics.splitting.splitter import check_special_tokens
from cs336_basics.tokenizer.definition import TokenizerDefinition

_OLD_SPECIAL_TOKENS = [
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
    *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    "[TOOL_CONTENT]",
]
"""The special tokens of files that do not list them, which are older than version 7."""

_MAX_SPECIAL_TOKENS = 100_000


def parse_tekken(content: dict[str, Any]) -> TokenizerDefinition:
    """Convert the content of a `tekken.json` to a definition.

    Raises:
        ValueError: If the file is malformed.
    """
    config = content["config"]
    size = _number(config, "default_vocab_size", MAX_ID)
    num_special = _number(config, "default_num_special_tokens", _MAX_SPECIAL_TOKENS)
    if not isinstance(config["pattern"], str):
        raise InputError(f"pattern must be a string, got {short_repr(config['pattern'])}")
    pattern = from_fancy_regex(config["pattern"])
    if not num_special <= size <= num_special + len(content["vocab"]):
        raise InputError(
            f"default_vocab_size {size:,} does not fit {num_special:,} special tokens and "
            f"{len(content['vocab']):,} tokens"
        )
    ranks = _ranks_of(content["vocab"][: size - num_special])
    special = check_special_tokens(_special_tokens(content.get("special_tokens"), num_special))
    return definition_of_ranks(
        {token: rank + num_special for token, rank in ranks.items()},
        {text: token_id for token_id, text in enumerate(special)},
        pattern,
    )


def _number(config: dict[str, Any], key: str, most: int) -> int:
    value = config.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise InputError(f"{key} must be an integer from 0 to {most:,}, got {short_repr(value)}")
    return value


def _ranks_of(items: list[Any]) -> dict[bytes, int]:
    """Return a mapping of token -> rank for the items of the vocabulary."""
    # Checking item by item takes twice as long, so it is done only to explain an error.
    with contextlib.suppress(KeyError, TypeError, ValueError):  # including binascii.Error
        texts = [item["token_bytes"] for item in items]
        tokens = list(map(binascii.a2b_base64, texts))  # ignores invalid characters
        ranks = dict(zip(tokens, range(len(tokens)), strict=True))
        if (
            [item["rank"] for item in items] == list(range(len(items)))
            and b"".join(map(binascii.b2a_base64, tokens)) == "\n".join([*texts, ""]).encode()
            and len(ranks) == len(tokens)
            and b"" not in ranks
        ):
            return ranks
    ranks = {}
    for rank, item in enumerate(items):
        token = _token_of(item, rank)
        if token in ranks:
            raise InputError(f"token {short_repr(token)} occurs twice")
        ranks[token] = rank
    return ranks


def _token_of(item: Any, rank: int) -> bytes:
    """Return the bytes of an item of the vocabulary, whose rank must be its index."""
    try:
        if item["rank"] != rank:
            raise ValueError
        token = base64.b64decode(item["token_bytes"], validate=True)
        if not token:
            raise ValueError
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise InputError(
            f"item {rank:,} of vocab must have rank {rank:,} and token_bytes in base64, got "
            f"{short_repr(item)}"
        ) from None
    return token


def _special_tokens(items: Any, number: int) -> list[str]:
    """Return the special tokens in the order of their ids."""
    if items is None:
        found = _OLD_SPECIAL_TOKENS
    else:
        try:
            by_rank = {item["rank"]: item["token_str"] for item in items}
            found = [by_rank[rank] for rank in range(len(items))]
        except (KeyError, TypeError):
            found = []
        if not isinstance(items, list) or len(found) != len(items):
            raise InputError(
                f"special_tokens must have the ranks from 0 and a token_str, got "
                f"{short_repr(items)}"
            )
    if len(found) > number:
        raise InputError(
            f"default_num_special_tokens must be at least {len(found):,}, got {number:,}"
        )
    return [*found, *(f"<SPECIAL_{index}>" for index in range(len(found), number))]
