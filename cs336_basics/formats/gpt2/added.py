"""Added tokens beside GPT-2's pair of files, in the files that transformers writes.

A directory of a tokenizer that runs in Python has no `tokenizer.json`. Its added tokens and their
flags are in `tokenizer_config.json`, as `added_tokens_decoder`. Older versions of transformers
wrote only their ids, to `added_tokens.json`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cs336_basics._support.errors import Argument, InputError, error_in_file
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import read_json_object
from cs336_basics.formats.huggingface.kept_files import CONFIG_FILE, MAX_SIZE
from cs336_basics.formats.huggingface.parsing import added_token
from cs336_basics.tokenizer.added_tokens import AddedToken

OLD_FILE = "added_tokens.json"
ROLES_FILE = "special_tokens_map.json"

CLASSES = ("GPT2Tokenizer", "CodeGenTokenizer")
"""Classes of transformers that split text as GPT-2 does and add no tokens."""
_CHANGES = ("add_prefix_space", "add_bos_token", "add_eos_token")
"""Settings of these classes that change the ids of a text, if they are true."""
_READ_ALONE = ("pass ", Argument("special_tokens"), " to read only the vocabulary and the merges")


def added_beside(directory: Path) -> dict[int, AddedToken]:
    """Return the added tokens of a directory by their ids.

    Raises:
        ValueError: If a file is malformed, or if it says that text is not encoded as GPT-2 does.
        OSError: If a file cannot be read.
    """
    config = _object_in(directory / CONFIG_FILE)
    _check_encodes_as_gpt2(config, directory / CONFIG_FILE)
    place, listed = directory / CONFIG_FILE, config.get("added_tokens_decoder")
    if listed is None:
        place = directory / OLD_FILE
        listed = _listed(_object_in(place), config, _object_in(directory / ROLES_FILE), place)
    if not isinstance(listed, dict):
        raise InputError(
            f"added_tokens_decoder must be an object, got {short_repr(listed)}", place=str(place)
        )
    added: dict[int, AddedToken] = {}
    for key, item in listed.items():
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise InputError(f"{short_repr(key)} is not the id of a token", place=str(place))
        try:
            added[int(key)] = added_token(item)
        except InputError as error:
            raise error_in_file(error, str(place)) from None
    return added


def _listed(
    ids: dict[str, Any], config: dict[str, Any], roles: dict[str, Any], place: Path
) -> dict[str, dict[str, Any]]:
    """Return the tokens of an `added_tokens.json` in the form of an `added_tokens_decoder`.

    As in transformers, the tokens that have a role are special, and only they are found before the
    text is normalized.
    """
    special: set[Any] = set()
    for name, value in (config | roles).items():
        if name.endswith(("_token", "_special_tokens")):
            for item in value if isinstance(value, list) else [value]:
                content = item.get("content") if isinstance(item, dict) else item
                special |= {content} if isinstance(content, str) else set()
    listed: dict[str, dict[str, Any]] = {}
    for content, token_id in ids.items():
        if type(token_id) is not int or str(token_id) in listed:
            raise InputError(
                f"token {short_repr(content)} must have an id of its own, got "
                f"{short_repr(token_id)}",
                place=str(place),
            )
        is_special = content in special
        flags = {"special": is_special, "normalized": not is_special}
        listed[str(token_id)] = {"content": content} | flags
    return listed


def _check_encodes_as_gpt2(config: dict[str, Any], path: Path) -> None:
    """Raise ValueError if a configuration says that its tokenizer does not encode as GPT-2 does."""
    name = config.get("tokenizer_class") or CLASSES[0]
    if str(name).removesuffix("Fast") not in CLASSES:
        raise InputError(
            f"tokenizer_class {short_repr(name)} may not split text as GPT-2 does",
            place=str(path),
            remedy=(
                "load the directory with transformers, save it as tokenizer.json, and read that "
                "with Tokenizer.from_pretrained; or ",
                *_READ_ALONE,
            ),
        )
    for change in _CHANGES:
        if config.get(change):
            raise InputError(
                f"{change} is {short_repr(config[change])}, which GPT-2's pair of files cannot say",
                place=str(path),
                remedy=_READ_ALONE,
            )


def _object_in(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if there is no file."""
    return read_json_object(path, MAX_SIZE) if path.exists() else {}
