"""Fetch a dataset into the data directory: download or copy and unpack it, or generate it.

A file gets its name only when it is complete and has the SHA-256 of the registry. Until then a
download is in FILE.part, which a later call continues. FILE.txt.json, next to a text, records its
source and its SHA-256.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import os
import shutil
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cs336_basics._support.disk import naming
from cs336_basics._support.files import atomic_writer, sha256_file, write_json
from cs336_basics._support.journal import open_regular
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.progress import byte_bar
from cs336_basics._support.reading import read_json_object
from cs336_basics.data.datasets.downloads import (
    DownloadError,
    Source,
    WrongContentError,
    downloaded,
    record_of,
)
from cs336_basics.data.datasets.registry import (
    DATASETS,
    SPLITS,
    DataFile,
    data_directory,
    find_split,
)
from cs336_basics.data.datasets.sample import write_sample

__all__ = ["DownloadError", "check_against_record", "fetch_split", "part_of"]

HUB = "https://huggingface.co"
"""The address that the environment variable HF_ENDPOINT replaces."""

_BLOCK = 1 << 20
_MAX_RECORD = 1 << 16  # bytes


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
            dataset's own. Then the environment variable `HF_ENDPOINT` replaces the address of the
            Hugging Face hub, and `HF_HUB_OFFLINE=1` forbids using it.
        force: fetch the file even if it exists.
        progress: show progress bars.

    Returns:
        The file, and whether it was fetched now (False: it existed).

    Raises:
        DownloadError: the download failed, is incomplete, damaged or another file, or does not fit
            on the disk; or the existing file differs in size from its record, or from the text
            that is generated.
        FileNotFoundError: the directory `source` lacks the file.
        ValueError: no such dataset or split; a `source` that is neither a directory nor a web
            address, or that is given for a text that is generated.
    """
    file = find_split(name, split)
    path = data_directory(data_dir) / file.name
    directory = _checked_source(source, file)
    if path.is_file() and not force:
        check_against_record(path)
        if file.url is None and path.stat().st_size != file.num_bytes:
            raise DownloadError(
                f"{path} has {path.stat().st_size:,} bytes, and the text of {name} has "
                f"{file.num_bytes:,}; replace it with force=True"
            )
        return path, False
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.url is None:
        # Different seeds keep the two splits apart.
        write_sample(path, file.num_bytes, seed=SPLITS.index(split), progress=progress)
        _write_record(path, file, _record(name, split))
        return path, True
    if directory is not None:
        _copy(directory, file, path, _record(name, split), progress)
    else:
        url = _download_url(file, None if source is None else str(source))
        _download(url, file, path, _record(name, split), progress)
    return path, True


def part_of(path: Path) -> Path:
    """Return the file that a download has until it is complete."""
    return path.with_name(path.name + ".part")


def check_against_record(path: Path) -> None:
    """Check that a text still has the size that was recorded when it was fetched.

    Raises:
        DownloadError: it has another size, or the record cannot be read.
    """
    record_path = record_of(path)
    if not record_path.is_file():
        return  # a copy of the user's own
    try:
        recorded = read_json_object(record_path, _MAX_RECORD)["num_bytes"]
        if type(recorded) is not int or not 0 <= recorded < 2**63:
            raise ValueError(f"its num_bytes are {short_repr(recorded)}")
    except (ValueError, KeyError) as error:
        reason = short_reason(error)
        raise DownloadError(f"{record_path} cannot be read ({reason}); delete it") from error
    if recorded != path.stat().st_size:
        raise DownloadError(
            f"{path} has {path.stat().st_size:,} bytes, not the {recorded:,} that were fetched "
            f"({record_path.name}); fetch it again with force=True"
        )


# --------------------------------------------------------------------- where it comes from


def _checked_source(source: str | os.PathLike[str] | None, file: DataFile) -> Path | None:
    """Return the directory that `source` is, None if it is a web address or not given."""
    if source is None:
        return None
    if file.url is None:
        raise ValueError(f"source is {short_repr(source)}, but {file.name} is generated: omit it")
    if isinstance(source, str) and "://" in source:
        if not _is_web_address(source):
            raise ValueError(
                f"source is {short_repr(source)}: it must be a directory, or start with http:// or "
                "https://"
            )
        return None
    if not os.fspath(source) or not Path(source).is_dir():
        raise ValueError(
            f"source is {short_repr(os.fspath(source))}: it is not a directory, and a URL starts "
            "with http:// or https://"
        )
    return Path(source)


def _download_url(file: DataFile, source: str | None) -> str:
    """Return the URL of a file: at `source`, or at the hub or the address that replaces it."""
    assert file.url is not None
    if source is not None:
        return f"{source.rstrip('/')}/{file.download_name}"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise DownloadError(
            f"cannot fetch {file.name}: HF_HUB_OFFLINE is set, which forbids the network; unset "
            "it, or name a directory that has the file with source=..."
        )
    endpoint = os.environ.get("HF_ENDPOINT") or HUB
    if not _is_web_address(endpoint):
        raise ValueError(
            f"HF_ENDPOINT is {short_repr(endpoint)}: it must start with http:// or https://"
        )
    return endpoint.rstrip("/") + file.url.removeprefix(HUB)


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:  # such as an IPv6 address without its end
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def _record(name: str, split: str) -> dict[str, Any]:
    return {
        "dataset": name,
        "split": split,
        "licence": DATASETS[name].licence,
        "fetched_at": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
    }


# --------------------------------------------------------------------- getting and checking it


def _download(url: str, file: DataFile, path: Path, record: dict[str, Any], progress: bool) -> None:
    """Download a file, and write its text to `path`."""
    failure = f"cannot fetch {path} from {url}: "
    plain = not url.endswith(".gz")
    source = Source(
        url=url,
        # Incompressible data grows by less than a thousandth when it is compressed.
        limit=file.num_bytes + file.num_bytes // 1000 + _BLOCK,
        num_bytes=file.num_bytes if plain else None,
        failure=failure,
        label=path.name,
    )
    part = part_of(path.with_name(file.download_name))
    _check_room(url, file, path.parent, part)
    with downloaded(source, part, progress=progress) as announced:
        found = sha256_file(part)
        if announced is not None and announced != found:
            raise WrongContentError(f"{failure}its SHA-256 is not the server's, {announced}")
        if not plain and not _is_gzip(part):
            raise WrongContentError(f"{failure}the download is not a gzip file")
        size = part.stat().st_size
        _write_text(part, file, path, failure, progress)
    fetched = {"url": url, "fetched_bytes": size, "fetched_sha256": found}
    _write_record(path, file, {**record, **fetched})


def _copy(
    directory: Path, file: DataFile, path: Path, record: dict[str, Any], progress: bool
) -> None:
    """Write the text of a file in a directory to `path`."""
    names = (file.name, f"{file.name}.gz")
    found = next((directory / name for name in names if (directory / name).is_file()), None)
    if found is None:
        raise FileNotFoundError(f"there is no {names[0]} and no {names[1]} in {directory}")
    if path.exists() and found.samefile(path):
        raise ValueError(f"source has {path} itself: name another directory")
    _write_text(found, file, path, f"cannot fetch {path} from {found}: ", progress)
    _write_record(path, file, {**record, "url": found.resolve().as_uri()})


def _write_text(arrived: Path, file: DataFile, path: Path, failure: str, progress: bool) -> None:
    """Write a file to `path`, decompressed; refuse a text other than the registry's.

    Raises:
        WrongContentError: it is not that text, or not gzip data.
    """
    packed = _is_gzip(arrived)
    num_bytes = 0
    digest = hashlib.sha256()
    label = f"{'unpacking' if packed else 'writing'} {path.name}"
    try:
        with (
            open_regular(arrived) as opened,
            atomic_writer(path) as text,
            byte_bar(progress, file.num_bytes, label) as bar,
        ):
            content: Any = gzip.GzipFile(fileobj=opened) if packed else opened
            while block := content.read(_BLOCK):
                num_bytes += len(block)
                if num_bytes > file.num_bytes:  # compressed data may be a thousand times as long
                    raise WrongContentError(
                        f"{failure}it has more than the {file.num_bytes:,} bytes of {file.name}"
                    )
                with naming(path):
                    text.write(block)
                digest.update(block)
                bar.update(len(block))
            if num_bytes != file.num_bytes:
                raise WrongContentError(
                    f"{failure}it has {num_bytes:,} bytes, and {file.name} has {file.num_bytes:,}"
                )
            if digest.hexdigest() != file.sha256:
                raise WrongContentError(
                    f"{failure}the SHA-256 of the text is {digest.hexdigest()}, and that of "
                    f"{file.name} is {file.sha256}"
                )
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise WrongContentError(
            f"{failure}the gzip data is damaged ({short_reason(error)}); try again"
        ) from error


def _write_record(path: Path, file: DataFile, record: dict[str, Any]) -> None:
    text = {"num_bytes": file.num_bytes, "sha256": file.sha256}
    write_json(record_of(path), {**record, **text})


def _is_gzip(path: Path) -> bool:
    with open_regular(path) as file:
        return file.read(2) == b"\x1f\x8b"


def _check_room(url: str, file: DataFile, directory: Path, part: Path) -> None:
    # The text and, for a while, the download: of the same size, or compressed to less than half.
    packed = url.endswith(".gz")
    needed = file.num_bytes * 3 // 2 if packed else file.num_bytes * 2
    free = shutil.disk_usage(directory).free + (part.stat().st_size if part.exists() else 0)
    if free < needed:
        raise DownloadError(
            f"cannot fetch {file.name} from {url}: it needs about {needed / 1e9:.1f} GB, and "
            f"{directory} has only {free / 1e9:.1f} GB free; choose another data directory"
        )
