"""Fetch a dataset into the data directory: download, copy or generate it.

A text appears under its name only when it is complete and its SHA-256 has been verified. An
unfinished download is stored in FILE.part, and a later call resumes it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cs336_basics._support.errors import Argument, InputError, MissingFileError, ReportedError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.processes import lock_file
from cs336_basics._support.progress import byte_bar
from cs336_basics._support.urls import is_web
from cs336_basics.data.datasets.registry import SPLITS, DataFile, data_directory, find_split
from cs336_basics.data.datasets.sample import write_sample

_BLOCK = 1 << 20
_RECEIVED = 1 << 16
"""Bytes written at a time during a download. A broken connection loses at most this many."""
_PATIENCE = 60
"""Timeout in seconds for a download that receives no data."""


class DownloadError(ReportedError, OSError):
    """Raised if a file cannot be fetched or has the wrong content."""


def fetch_split(
    name: str,
    split: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    source: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: bool = False,
) -> tuple[Path, bool]:
    """Fetch one split of a dataset, unless its file exists.

    An interrupted download is resumed. The SHA-256 of the text is always verified.

    Args:
        name: Name of the dataset, a key of `DATASETS`.
        split: Name of the split, "train" or "valid".
        data_dir: Data directory. Defaults to the directory that `data_directory` returns.
        source: Directory or directory URL that contains the file, compressed or not. Defaults to
            the Hugging Face hub. The HF_ENDPOINT environment variable selects another server, and
            HF_HUB_OFFLINE=1 forbids downloads from the hub.
        force: Whether to fetch the file even if it exists.
        progress: Whether to show progress bars.

    Returns:
        The path of the file, and whether it was fetched by this call.

    Raises:
        DownloadError: If the download fails or has the wrong content, if another process is
            downloading the file, or if the existing file has the wrong size.
        FileNotFoundError: If the `source` directory does not contain the file.
        ValueError: If the dataset or the split is unknown, if `source` is neither a directory nor a
            URL, or if `source` is passed for the generated sample.
    """
    file = find_split(name, split)
    path = data_directory(data_dir) / file.name
    if source is not None:
        _check_source(source, file)
    if path.is_file() and not force:
        if path.stat().st_size != file.num_bytes:
            raise DownloadError(
                f"{path} must have {file.num_bytes:,} bytes, got {path.stat().st_size:,}",
                remedy=("replace it with ", Argument("force", True)),
            )
        return path, False
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.repository is None:
        # Different seeds prevent overlap between the two splits.
        write_sample(path, file.num_bytes, seed=SPLITS.index(split), progress=progress)
    elif source is not None and not is_web(os.fspath(source)):
        _write_text(_file_in(Path(source), file), file, path, progress)
    else:
        directory = _hub_directory(file) if source is None else os.fspath(source)
        _write_download(directory, file, path, progress)
    return path, True


def _check_source(source: str | os.PathLike[str], file: DataFile) -> None:
    if file.repository is None:
        raise InputError(
            f"does not apply to {file.name}, which is generated, not downloaded",
            argument="source",
            remedy="omit it",
        )
    if not is_web(os.fspath(source)) and not (os.fspath(source) and Path(source).is_dir()):
        raise InputError(
            "must be an existing directory or start with http:// or https://, got "
            f"{short_repr(os.fspath(source))}",
            argument="source",
        )


def _write_download(directory: str, file: DataFile, path: Path, progress: bool) -> None:
    """Download a file from a directory URL, and write its text to `path`."""
    part = part_of(path.with_name(file.download_name))
    with _locked(part):
        url = f"{directory.rstrip('/')}/{file.download_name}"
        _download(url, part, file.num_bytes, progress)
        try:
            _write_text(part, file, path, progress)
        except DownloadError:  # wrong content, so there is nothing to resume
            part.unlink()
            raise
        part.unlink()


def part_of(path: Path) -> Path:
    """Return the path of a file's unfinished download."""
    return path.with_name(path.name + ".part")


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[None]:
    """Lock an unfinished download against other processes, which would write to the same file."""
    try:
        handle = lock_file(part)
    except BlockingIOError:
        raise DownloadError(
            f"another process is writing {part}", remedy="wait until it exits"
        ) from None
    try:
        yield
    finally:
        if part.exists() and not part.stat().st_size:  # there is nothing to resume
            part.unlink()
        if handle is not None:
            os.close(handle)


def _hub_directory(file: DataFile) -> str:
    """Return the URL of a file's directory on the Hugging Face hub or at HF_ENDPOINT."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise DownloadError(
            f"cannot fetch {file.name} because HF_HUB_OFFLINE is set",
            remedy=("unset it, or set ", Argument("source"), " to a directory with the file"),
        )
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    return f"{endpoint.rstrip('/')}/datasets/{file.repository}/resolve/main"


def _download(url: str, part: Path, num_bytes: int, progress: bool) -> None:
    """Download a file over HTTP to `part`, appending to any bytes already in it.

    If the connection breaks, the remaining bytes are requested until a request yields no bytes. The
    download stops if it becomes much larger than the text, which has `num_bytes` bytes. The SHA-256
    of the text detects a file that changes on the server, so ETags and dates are not compared.
    """
    import requests  # imported here, because the sample needs no network
    import urllib3

    limit = num_bytes + num_bytes // 1000 + _BLOCK  # gzip enlarges incompressible data a little
    while True:
        held = part.stat().st_size if part.exists() else 0
        headers = {"Accept-Encoding": "identity"}
        if held:
            headers["Range"] = f"bytes={held}-"
        try:
            with requests.get(url, headers=headers, stream=True, timeout=_PATIENCE) as answer:
                if answer.status_code == 416 and held:  # range not satisfiable: file complete
                    return
                if answer.status_code not in (200, 206):
                    raise DownloadError(f"cannot fetch {url}: HTTP status {answer.status_code}")
                with (
                    open(part, "ab" if answer.status_code == 206 else "wb") as file,
                    byte_bar(progress, num_bytes, part.stem) as bar,
                ):
                    bar.update(file.tell())
                    for block in answer.raw.stream(_RECEIVED, decode_content=False):
                        file.write(block)
                        bar.update(len(block))
                        if file.tell() > limit:  # a wrong file, or an endless one
                            return
            return
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            if held >= (part.stat().st_size if part.exists() else 0):
                raise DownloadError(f"cannot fetch {url}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Describe why a download failed. The libraries wrap the original exception several times."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{short_repr(error)}; check the URL and the network, then repeat the command"


def _file_in(directory: Path, file: DataFile) -> Path:
    """Return the path of the text in a directory, plain or compressed."""
    for name in (file.name, f"{file.name}.gz"):
        if (directory / name).is_file():
            return directory / name
    raise MissingFileError(f"{directory} contains neither {file.name} nor {file.name}.gz")


def _write_text(arrived: Path, file: DataFile, path: Path, progress: bool) -> None:
    """Decompress a file to `path`, and check its SHA-256."""
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
            # Compressed data may expand a thousandfold, so stop after the known size.
            while num_bytes <= file.num_bytes and (block := content.read(_BLOCK)):
                text.write(block)
                digest.update(block)
                num_bytes += len(block)
                bar.update(len(block))
            if digest.hexdigest() != file.sha256:
                raise DownloadError(
                    f"{arrived} is not {file.name}: expected {file.num_bytes:,} bytes with SHA-256 "
                    f"{file.sha256}, got {num_bytes:,} bytes with SHA-256 {digest.hexdigest()}"
                )
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DownloadError(
            f"{arrived} is damaged: {short_reason(error)}", remedy="try again"
        ) from error
