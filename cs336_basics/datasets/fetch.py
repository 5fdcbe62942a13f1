"""Fetch a dataset into the data directory: download and unpack it, or generate it.

A file gets its name only when it is complete: the download goes into a temporary directory next
to it, is checked, and is then written through `atomic_writer`. FILE.txt.json, next to a downloaded
FILE.txt, records its source and its SHA-256.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import os
import re
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cs336_basics._files import atomic_writer, sha256_file, write_json
from cs336_basics._messages import short_reason, short_repr
from cs336_basics._reading import read_json_object
from cs336_basics.datasets.registry import DATASETS, SPLITS, DataFile, data_directory, find_split
from cs336_basics.datasets.sample import write_sample

_BLOCK = 1 << 20
_MAX_RECORD = 1 << 16  # bytes
_TIMEOUT_SECONDS = 60  # without a byte from the server
_BAR: dict[str, Any] = {"unit": "B", "unit_scale": True, "leave": False}


class DownloadError(OSError):
    """A file could not be fetched; the message names the URL and the file."""


def fetch_split(
    name: str,
    split: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    base_url: str | None = None,
    force: bool = False,
    progress: bool = False,
) -> tuple[Path, bool]:
    """Fetch one split ("train", "valid") of a dataset, unless its file exists.

    Args:
        name: a key of `DATASETS`.
        split: "train" or "valid".
        data_dir: the data directory; None: see `data_directory`.
        base_url: a mirror; replaces the part of the URL before the file name.
        force: fetch the file even if it exists.
        progress: show progress bars.

    Returns:
        The file, and whether it was fetched now (False: it existed).

    Raises:
        DownloadError: the download failed, is incomplete or damaged, or does not fit on the disk;
            or the existing file differs in size from its record.
        ValueError: no such dataset or split; a `base_url` that is not a web address.
    """
    file = find_split(name, split)
    if base_url is not None and urlsplit(base_url).scheme not in ("http", "https"):
        raise ValueError(f"base_url is {base_url!r}: it must start with http:// or https://")
    path = data_directory(data_dir) / file.name
    if path.is_file() and not force:
        _check_against_record(path)
        return path, False
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.url is None:
        # Different seeds keep the two splits apart.
        write_sample(path, file.num_bytes, seed=SPLITS.index(split), progress=progress)
        return path, True
    url = file.url
    if base_url is None:
        _check_room(file, path.parent)
    else:
        url = f"{base_url.rstrip('/')}/{file.url.rsplit('/', 1)[1]}"
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=path.parent) as directory:
        arrived = Path(directory) / "arrived"
        decoded = _download(url, arrived, path, progress)
        record = {
            "dataset": name,
            "split": split,
            "licence": DATASETS[name].licence,
            "url": url,
            "fetched_at": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
            "fetched_bytes": arrived.stat().st_size,
            "fetched_sha256": sha256_file(arrived),
        }
        if url.endswith(".gz") and not decoded and not _is_gzip(arrived):
            raise DownloadError(f"cannot fetch {path} from {url}: the download is not a gzip file")
        num_bytes, sha256 = _write_text(arrived, path, url, file.num_bytes, progress)
    write_json(_record_path(path), {**record, "num_bytes": num_bytes, "sha256": sha256})
    return path, True


def _download(url: str, destination: Path, path: Path, progress: bool) -> bool:
    """Download `url` to `destination`, and check that it is complete; `path` is for messages.

    Returns whether the server sent the file encoded, as some do with `.gz` files; then the download
    is already decoded.
    """
    # Imported here: generating the sample and finding files need neither.
    import pooch
    from tqdm import tqdm

    failure = f"cannot fetch {path} from {url}: "
    answers: list[Any] = []  # of the server: redirections, if any, and the last one
    # The answer brings the true total. Until then it must not be 0: bool(tqdm) is that of its
    # total, and pooch ignores a bar that is false.
    with tqdm(desc=path.name, total=1, disable=None if progress else True, **_BAR) as bar:
        downloader = pooch.HTTPDownloader(
            progressbar=bar,
            chunk_size=_BLOCK,
            timeout=_TIMEOUT_SECONDS,
            # Unencoded, since its size is compared with that on the server.
            headers={"Accept-Encoding": "identity"},
            hooks={"response": lambda answer, **_: answers.append(answer)},
        )
        try:
            downloader(url, str(destination), None)
        except OSError as error:  # the base class of the exceptions of `requests`
            raise DownloadError(failure + _reason(answers, destination, error)) from error
    headers = answers[-1].headers
    size = destination.stat().st_size
    decoded = "Content-Encoding" in headers
    expected = None if decoded else headers.get("Content-Length")
    if expected is not None and size != int(expected):
        raise DownloadError(f"{failure}only {size:,} of {int(expected):,} bytes arrived; try again")
    if headers.get("Content-Type", "").startswith("text/html"):
        raise DownloadError(
            f"{failure}the server answered with a web page; does this network ask for a login?"
        )
    for answer in answers:
        # The Hugging Face hub sends the SHA-256 of large files in this header.
        sha256 = answer.headers.get("X-Linked-ETag", "").strip('"')
        if re.fullmatch("[0-9a-f]{64}", sha256) and sha256 != sha256_file(destination):
            raise DownloadError(f"{failure}its SHA-256 is not the server's, {sha256}; try again")
    return decoded


def _reason(answers: list[Any], destination: Path, error: OSError) -> str:
    """Return in a few words why a download failed."""
    if error.errno is not None and not answers:
        return str(error)
    if not answers:
        return "no connection; is there a network, and is the address right?"
    answer = answers[-1]
    if answer.status_code >= 400:
        return f"the server answered {answer.status_code} {answer.reason}"
    if error.errno is not None:
        return str(error)
    size = destination.stat().st_size if destination.exists() else 0
    expected = int(answer.headers.get("Content-Length", 0))
    of_all = f" of {expected:,}" if expected else ""
    return f"the connection broke after {size:,}{of_all} bytes; try again"


def _is_gzip(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _write_text(
    arrived: Path, path: Path, url: str, expected: int, progress: bool
) -> tuple[int, str]:
    """Write the download to `path`, decompressed; return the size and SHA-256 of the text."""
    from tqdm import tqdm

    packed = _is_gzip(arrived)
    num_bytes = 0
    digest = hashlib.sha256()
    try:
        with (
            open(arrived, "rb") as file,
            atomic_writer(path) as text,
            tqdm(
                desc=f"{'unpacking' if packed else 'writing'} {path.name}",
                total=expected,
                disable=None if progress else True,
                **_BAR,
            ) as bar,
        ):
            source: Any = gzip.GzipFile(fileobj=file) if packed else file
            while block := source.read(_BLOCK):
                text.write(block)
                digest.update(block)
                num_bytes += len(block)
                bar.update(len(block))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DownloadError(
            f"cannot fetch {path} from {url}: the gzip data is damaged ({error}); try again"
        ) from error
    return num_bytes, digest.hexdigest()


def _check_room(file: DataFile, directory: Path) -> None:
    # The text and, for a while, the download: of the same size, or compressed to about a third.
    packed = file.url is not None and file.url.endswith(".gz")
    needed = file.num_bytes * 3 // 2 if packed else file.num_bytes * 2
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise DownloadError(
            f"cannot fetch {file.name} from {file.url}: it needs about {needed / 1e9:.1f} GB, and "
            f"{directory} has only {free / 1e9:.1f} GB free; choose another data directory"
        )


def _record_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _check_against_record(path: Path) -> None:
    record_path = _record_path(path)
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
