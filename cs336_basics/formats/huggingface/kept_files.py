"""Files beside a tokenizer that this library does not use: chat templates and their settings.

They can be copied, byte for byte, to where the tokenizer is saved. Only files with known names are
copied. A link that leads out of the directory is refused, because a copy of a downloaded directory
could otherwise contain any file of the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import parse_json, read_small, unique_keys
from cs336_basics.formats.huggingface.export import ROLES

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer

CONFIG_FILE = "tokenizer_config.json"
KEPT_FILES = (CONFIG_FILE, "special_tokens_map.json", "chat_template.jinja", "chat_template.json")
TEMPLATES = "additional_chat_templates"
"""Folder of chat templates with names of their own."""

MAX_SIZE = 1 << 24
"""Maximum size of a file in bytes."""
MAX_TEMPLATES = 100
_TEMPLATE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\.jinja", re.ASCII)


def files_to_keep(directory: Path | None) -> dict[str, bytes]:
    """Return the content of each of these files that exist in a directory, by name.

    Args:
        directory: Directory that a tokenizer was loaded from. None is refused.

    Raises:
        ValueError: If there is no directory, a file is not a regular file, is too large or is a
            link out of the directory, or there are too many templates. The message names the file.
        OSError: If a file cannot be read.
    """
    if directory is None:
        raise InputError(
            "needs a tokenizer that was loaded from a directory or a file",
            argument="keep_files",
            remedy="download the repository and load its directory, or copy the files yourself",
        )
    names = [name for name in KEPT_FILES if os.path.lexists(directory / name)]
    if (directory / TEMPLATES).is_dir():
        templates = [
            f"{TEMPLATES}/{name}"
            for name in sorted(os.listdir(directory / TEMPLATES))
            if _TEMPLATE_NAME.fullmatch(name)
        ]
        if len(templates) > MAX_TEMPLATES:
            raise InputError(
                f"must have at most {MAX_TEMPLATES} chat templates, got {len(templates):,}",
                place=str(directory / TEMPLATES),
                remedy="remove some",
            )
        names += templates
    return {name: _read(directory, name) for name in names}


def _read(directory: Path, name: str) -> bytes:
    path = directory / name
    found, root = Path(os.path.realpath(path)), Path(os.path.realpath(directory))
    if root.parent.name == "snapshots":  # in the cache of the hub, files are links to ../../blobs
        root = root.parent.parent
    if not found.is_relative_to(root):
        raise InputError(
            f"is a link to {found}, outside of the directory of the tokenizer",
            place=str(path),
            remedy="replace the link with the file",
        )
    return read_small(path, MAX_SIZE)


def kept_roles(files: Mapping[str, bytes], tokenizer: Tokenizer) -> dict[str, str]:
    """Return the special tokens that a kept `tokenizer_config.json` names, by role.

    A model's configuration refers to the same tokens.

    Args:
        files: Kept files.
        tokenizer: Tokenizer that is exported.

    Raises:
        ValueError: If the file is not a JSON object, or names a token that is not a special token
            of the tokenizer. transformers would give it an id that no model has.
    """
    if CONFIG_FILE not in files:
        return {}
    place = os.path.join(tokenizer.loaded_from or "", CONFIG_FILE)
    config = parse_json(files[CONFIG_FILE], place, unique_keys)
    if not isinstance(config, dict):
        raise InputError("must contain a JSON object", place=place)
    roles: dict[str, str] = {}
    for role in ROLES:
        token = config.get(role)
        token = token.get("content") if isinstance(token, dict) else token
        if token is None:
            continue
        if not isinstance(token, str) or token not in tokenizer.definition.special_ids:
            raise InputError(
                f"the {role} must be one of the special tokens "
                f"{short_repr(tokenizer.special_tokens)}, got {short_repr(token)}",
                place=place,
                remedy="correct the file, or add the token to the tokenizer",
            )
        roles[role] = token
    return roles
