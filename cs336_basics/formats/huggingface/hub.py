"""Download files from the Hugging Face hub."""

from __future__ import annotations

import os
import re

from cs336_basics._support.errors import MissingFileError
from cs336_basics._support.lazy import needed_for
from cs336_basics._support.messages import short_reason, short_repr

# The oldest models may have a name without an owner: gpt2 for openai-community/gpt2.
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)


def find_or_download(
    source: str | os.PathLike[str], file_name: str, revision: str | None = None
) -> str:
    """Return the path of an existing file or directory, or download a file from the hub.

    huggingface_hub downloads the file, with a progress bar on a terminal, and caches it. It
    respects HF_ENDPOINT, HF_HUB_OFFLINE, HF_HOME and HF_TOKEN.

    Args:
        source: File or directory, or the name of a repository, such as `openai-community/gpt2`. A
            file or directory with this name takes precedence.
        file_name: File in the repository.
        revision: Branch, tag or commit. Defaults to the main branch.

    Raises:
        FileNotFoundError: If the file does not exist and `source` is not a repository name.
        ImportError: If a file must be downloaded and huggingface_hub is not installed.
        OSError: If the file cannot be downloaded.
    """
    path = os.path.expanduser(os.fspath(source))
    if os.path.exists(path):
        return path
    name = os.fspath(source)
    if not _HUB_NAME.fullmatch(name) or name.endswith(".json"):
        raise MissingFileError(
            f"{source} does not exist",
            remedy="pass a file, a directory, or a repository on the Hugging Face hub, such as "
            "openai-community/gpt2",
        )
    with needed_for(f"{name} does not exist; its download", "huggingface_hub"):
        import huggingface_hub
    try:
        return str(huggingface_hub.hf_hub_download(name, file_name, revision=revision))
    except MemoryError:
        raise
    except Exception as error:  # from httpx, huggingface_hub or the operating system
        raise OSError(
            f"{short_repr(name)} does not exist, and {file_name} cannot be downloaded from the "
            f"Hugging Face hub: {short_reason(error)}"
        ) from error
