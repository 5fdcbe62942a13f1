"""Fetch a dataset into the data directory: download or copy and unpack it, or generate it.

A text gets its name only when it is complete and has the SHA-256 of the registry. Until then a
download is in FILE.part, which a later call continues.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.progress import byte_bar
from cs336_basics.data.datasets.registry import SPLITS, DataFile, data_directory, find_split
from cs336_basics.data.datasets.sample import write_sample

_BLOCK = 1 << 20
_RECEIVED = 1 << 16
"""Bytes of a download that are written at a time: of a connection that breaks, fewer are lost."""
_PATIENCE = 60
"""Seconds without a byte after which a download is given up."""


class DownloadError(OSError):
    """A file could not be fetched, or is not the text that it should be."""


def fetch_split(
    name: str,
    split: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    source: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: bool = False,
) -> tuple[Path, bool]:
    """Fetch one split ("train", "valid") of a dataset, unless its file exists.

    An interrupted download is continued. The text is compared with the SHA-256 of the
    registry, wherever it comes from.

    Args:
        name: a key of `DATASETS`.
        split: "train" or "valid".
        data_dir: the data directory; None: see `data_directory`.
        source: a directory that has the file, compressed or not, or the URL of one; None: the
            Hugging Face hub, which the environment variable HF_ENDPOINT replaces and
            HF_HUB_OFFLINE=1 forbids.
        force: fetch the file even if it exists.
        progress: show progress bars.

    Returns:
        The file, and whether it was fetched now (False: it existed).

    Raises:
        DownloadError: the download failed, or is not the text; or the existing file has another
            size than the text.
        FileNotFoundError: the directory `source` lacks the file.
        ValueError: no such dataset or split; a `source` that is neither a directory nor a web
            address, or that is given for a text that is generated.
    """
    file = find_split(name, split)
    path = data_directory(data_dir) / file.name
    if source is not None and file.repository is None:
        raise ValueError(f"source is {short_repr(source)}, but {file.name} is generated: omit it")
    is_url = isinstance(source, str) and source.startswith(("http://", "https://"))
    if source is not None and not is_url and not (os.fspath(source) and Path(source).is_dir()):
        raise ValueError(
            f"source is {short_repr(os.fspath(source))}: it is not a directory, and a URL starts "
            "with http:// or https://"
        )
    if path.is_file() and not force:
        if path.stat().st_size != file.num_bytes:
            raise DownloadError(
                f"{path} has {path.stat().st_size:,} bytes, and the text of {name} has "
                f"{file.num_bytes:,}; replace it with force=True (--force)"
            )
        return path, False
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.repository is None:
        # Different seeds keep the two splits apart.
        write_sample(path, file.num_bytes, seed=SPLITS.index(split), progress=progress)
    elif source is not None and not is_url:
        _write_text(_file_in(Path(source), file), file, path, progress)
    else:
        part = part_of(path.with_name(file.download_name))
        directory = _hub_directory(file) if source is None else os.fspath(source)
        _download(f"{directory.rstrip('/')}/{file.download_name}", part, file.num_bytes, progress)
        try:
            _write_text(part, file, path, progress)
        except DownloadError:  # another text, which nothing can continue
            part.unlink()
            raise
        part.unlink()
    return path, True


def part_of(path: Path) -> Path:
    """Return the file that a download has until it is complete."""
    return path.with_name(path.name + ".part")


def _hub_directory(file: DataFile) -> str:
    """Return the URL of a file's directory on the Hugging Face hub, or on what replaces it."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise DownloadError(
            f"cannot fetch {file.name}: HF_HUB_OFFLINE is set, which forbids the network; unset "
            "it, or name a directory that has the file with source=... (--from)"
        )
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    return f"{endpoint.rstrip('/')}/datasets/{file.repository}/resolve/main"


def _download(url: str, part: Path, num_bytes: int, progress: bool) -> None:
    """Download a file over HTTP, after the bytes of it that are there.

    After a broken connection the rest is requested again, as long as some of it arrives. Neither
    ETag nor date is compared: the SHA-256 of the text is known, and finds every mixture.

    Args:
        num_bytes: size of the text, and so about the most that a server may send.

    Raises:
        DownloadError: the server does not have the file, or nothing more arrives.
    """
    import requests  # here, since the sample needs no network
    import urllib3

    limit = num_bytes + num_bytes // 1000 + _BLOCK  # incompressible data grows a little
    while True:
        held = part.stat().st_size if part.exists() else 0
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={held}-"}
        if not held:
            del headers["Range"]
        try:
            with requests.get(url, headers=headers, stream=True, timeout=_PATIENCE) as answer:
                if answer.status_code == 416 and held:  # nothing lies beyond what is there
                    return
                if answer.status_code not in (200, 206):
                    raise DownloadError(f"cannot fetch {url}: answered {answer.status_code}")
                with (
                    open(part, "ab" if answer.status_code == 206 else "wb") as file,
                    byte_bar(progress, num_bytes, part.stem) as bar,
                ):
                    bar.update(file.tell())
                    for block in answer.raw.stream(_RECEIVED, decode_content=False):
                        file.write(block)
                        bar.update(len(block))
                        if file.tell() > limit:  # another file, or one without an end
                            return
            return
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            if held >= (part.stat().st_size if part.exists() else 0):
                raise DownloadError(f"cannot fetch {url}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Return why a download failed, in words; a library wraps the reason several times."""
    import urllib3

    cause: BaseException | None = error
    while cause is not None:
        reason = next((arg for arg in cause.args if isinstance(arg, Exception)), cause.__context__)
        if isinstance(cause, http.client.RemoteDisconnected):
            return "the server closed the connection without an answer; try again later"
        is_cut = isinstance(cause, http.client.IncompleteRead)
        if is_cut and not isinstance(cause, urllib3.exceptions.InvalidChunkLength):
            return "the connection broke; the same command continues the download"
        if isinstance(cause, http.client.HTTPException):
            got = short_repr(str(cause))
            return f"the server's answer is not HTTP ({got}): is the address that of a web server?"
        if isinstance(cause, urllib3.exceptions.NewConnectionError):
            return (
                f"no connection ({short_reason(cause)}): is there a network, is the address right?"
            )
        if isinstance(cause, urllib3.exceptions.ReadTimeoutError):
            return f"the server sent nothing for {_PATIENCE} seconds; try again later"
        cause = reason
    return short_reason(error)


def _file_in(directory: Path, file: DataFile) -> Path:
    """Return the file of a directory that has the text, plain or compressed."""
    names = (file.name, f"{file.name}.gz")
    for name in names:
        if (directory / name).is_file():
            return directory / name
    raise FileNotFoundError(f"there is no {names[0]} and no {names[1]} in {directory}")


def _write_text(arrived: Path, file: DataFile, path: Path, progress: bool) -> None:
    """Write a file to `path`, decompressed; refuse a text other than the registry's.

    Raises:
        DownloadError: it is not that text, or damaged.
    """
    digest, num_bytes = hashlib.sha256(), 0
    label = f"writing {path.name}"
    packed = arrived.name.removesuffix(".part").endswith(".gz")
    opened: Callable[..., Any] = gzip.open if packed else open
    try:
        with (
            opened(arrived, "rb") as content,
            atomic_writer(path) as text,
            byte_bar(progress, file.num_bytes, label) as bar,
        ):
            # Compressed data may be a thousand times as long as it seems.
            while num_bytes <= file.num_bytes and (block := content.read(_BLOCK)):
                text.write(block)
                digest.update(block)
                num_bytes += len(block)
                bar.update(len(block))
            if digest.hexdigest() != file.sha256:
                raise DownloadError(
                    f"{arrived} is not {file.name}: its {num_bytes:,} bytes have the SHA-256 "
                    f"{digest.hexdigest()}, not {file.sha256} of {file.num_bytes:,} bytes"
                )
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DownloadError(f"{arrived} is damaged: {short_reason(error)}; try again") from error
