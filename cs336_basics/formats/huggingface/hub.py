"""Files of the Hugging Face hub, by the name of their repository."""

from __future__ import annotations

import os
import re
from pathlib import Path

from cs336_basics._support.messages import short_reason, short_repr

# Two names, or one for the oldest models: openai-community/gpt2, gpt2.
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)


def find_or_download(
    source: str | os.PathLike[str], file_name: str, revision: str | None = None
) -> Path:
    """Return a file or directory that exists, or download a file of the hub.

    huggingface_hub downloads it, with a progress bar on a terminal, and keeps it in its cache. It
    obeys HF_ENDPOINT, HF_HUB_OFFLINE, HF_HOME and HF_TOKEN.

    Args:
        source: a file or directory; or, where neither exists, the name of a repository, such as
            `openai-community/gpt2`.
        file_name: the file of the repository.
        revision: a branch, tag or commit of the repository; None: its main branch.

    Raises:
        FileNotFoundError: there is no such file here, and the source does not name a repository.
        ImportError: the source names a repository, and huggingface_hub is not installed.
        OSError: the file cannot be downloaded; says why.
    """
    path = Path(source)
    if path.exists():
        return path
    name = os.fspath(source)
    if not _HUB_NAME.fullmatch(name) or name.endswith(".json"):
        raise FileNotFoundError(
            f"{source} does not exist: name a file, a directory, or a repository of the Hugging "
            "Face hub, such as openai-community/gpt2"
        )
    try:
        import huggingface_hub
    except ImportError:
        raise ImportError(
            f"{name} does not exist here; to download it from the Hugging Face hub, install "
            "huggingface_hub: pip install huggingface_hub"
        ) from None
    try:
        return Path(huggingface_hub.hf_hub_download(name, file_name, revision=revision))
    except MemoryError:
        raise
    except Exception as error:  # those of httpx, of the hub and of the system
        raise OSError(
            f"cannot download {file_name} of {short_repr(name)}, which does not exist here, from "
            f"the Hugging Face hub: {short_reason(error)}"
        ) from error
