"""Encode a corpus of many files on a Ray cluster: one token file for each file of the corpus.

Each Ray task encodes one file. It reads the file from storage that all machines can access, and
writes the ids to a directory that the machines share or to an object store. The names of the token
files follow the order of the corpus, so `load_token_files` returns the ids that `encode_file` would
write.

`token_folders.py` makes the folder complete once all token files are complete. Until then, a later
run keeps the token files that are complete. The metadata of a token file records the text and the
options that it was made from. If these differ from the text and options of the later run, that run
stops instead of mixing two texts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TypeAlias

import cs336_basics
from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.paths import printable_path
from cs336_basics._support.progress import byte_bar, title_of
from cs336_basics._support.urls import uploaded
from cs336_basics.execution.executors import executor
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.paths import PathsLike
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.text.sources import Source
from cs336_basics.text.storage import state_of
from cs336_basics.tokenizer.files.encode_files import NoTokensError, no_tokens, write_token_file
from cs336_basics.tokenizer.files.encode_job import EncodeJob, encoded_blocks
from cs336_basics.tokenizer.files.token_folders import TokenFolder, token_folder
from cs336_basics.tokenizer.ids import token_dtype
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer

Encoded: TypeAlias = tuple["dict[str, Any] | None", ReadingRecord]
"""The metadata of a token file, or None if its text has no tokens, and the record of reading it."""


@dataclass(frozen=True)
class _Shard:
    """A file of the corpus and its token file.

    Attributes:
        source: The file.
        shown: Name of the file, for the metadata.
        name: Name of the token file.
        destination: Path or URL of the token file.
        made_from: Metadata that records everything that determines the ids, except the tokenizer.
        num_bytes: Stored size of the file.
    """

    source: Source
    shown: str
    name: str
    destination: str
    made_from: dict[str, Any]
    num_bytes: int


def encode_files_ray(
    tokenizer: Tokenizer,
    source: Corpus | PathsLike,
    directory: str | os.PathLike[str],
    *,
    num_workers: int | None = None,
    progress: bool = False,
    address: str | None = None,
    document_starts: bool = False,
    end_of_document: str | None = None,
) -> dict[str, Any]:
    """Encode a corpus with Ray tasks, to a directory with one token file for each file.

    The token files are named `00000.npy`, `00001.npy` and so on, in the order of the corpus. A file
    without tokens, such as an empty file, gets no token file. If the run is interrupted, call the
    function again with the same arguments: token files that are complete are kept.

    Args:
        tokenizer, source, document_starts, end_of_document: See `encode_file`. The files must have
            the same paths on all machines, or be URLs.
        directory: New directory on a file system that all machines share, or the URL of a new
            folder in an object store. A folder in an object store contains `complete.json` once it
            is complete, and only token files before that.
        num_workers: Number of tasks to run at a time, each with one thread. Defaults to the number
            of CPUs in the cluster.
        progress: Whether to show a progress bar on a terminal.
        address: See `ray_cluster`.

    Returns:
        Information about all token files together: tokenizer_hash, vocab_size, dtype, num_tokens,
        num_bytes (of the uncompressed text), bytes_per_token, num_files (number of token files),
        num_kept (how many of them are from an earlier run) and, with `document_starts`,
        num_documents.

    Raises, in addition to the errors of `encode_file` and `ray_cluster`:
        FileExistsError: If the directory exists and is not empty, or the folder is complete.
        FileNotFoundError: If a machine wrote its token file to another file system.
        ValueError: If the directory is the address of a web page, or if an unfinished run encoded
            other text or had other options.
        RuntimeError: If all attempts to encode a file failed, the head node does not answer, or no
            CPU is left.
    """
    check_is_tokenizer(tokenizer)
    corpus = Corpus.of(source)
    folder = token_folder(directory)
    runner = executor("ray", num_workers, ray_address=address)
    job = EncodeJob(
        tokenizer, corpus.errors, document_starts=document_starts, end_of_document=end_of_document
    )
    folder.create()
    shards = _shards(corpus, folder.path, job)
    _check_names(folder, shards)
    results: dict[str, Encoded] = {
        shard.name: found
        for shard in shards
        if (found := _finished(shard, tokenizer.hash(), folder)) is not None
    }
    num_kept = len(results)
    left = [shard for shard in shards if shard.name not in results]
    # The largest files are encoded first, so that none of them prolongs the end of the run.
    left.sort(key=lambda shard: shard.num_bytes, reverse=True)
    with byte_bar(progress, corpus.num_bytes, f"encoding {title_of(corpus.files)}") as bar:
        bar.update(corpus.num_bytes - sum(shard.num_bytes for shard in left))
        encoded = runner.map_ordered(
            EncodeShardJob(job), left, lambda shard: bar.update(shard.num_bytes)
        )
        for shard, result in zip(left, encoded, strict=True):
            if result[0] is not None:
                folder.check_is_visible(shard.name)
            results[shard.name] = result
    reading = ReadingRecord()
    for shard in shards:  # in the order of the corpus
        reading.add(results[shard.name][1])
    files = {name: metadata for name, (metadata, _) in sorted(results.items()) if metadata}
    if not files:
        folder.discard()
        raise no_tokens([shard.shown for shard in shards])
    information = _information(job, list(files.values()), reading.num_bytes, num_kept)
    folder.complete(list(files), information)
    reading.warn()
    return information


def _information(
    job: EncodeJob, files: list[dict[str, Any]], num_bytes: int, num_kept: int
) -> dict[str, Any]:
    """Return information about all token files together, from the metadata of each."""
    num_tokens = sum(metadata["num_tokens"] for metadata in files)
    information = {
        "tokenizer_hash": job.tokenizer.hash(),
        "vocab_size": job.tokenizer.vocab_size,
        "dtype": token_dtype(job.tokenizer.vocab_size).name,
        "num_tokens": num_tokens,
        "num_bytes": num_bytes,
        "bytes_per_token": num_bytes / num_tokens,
        "num_files": len(files),
        "num_kept": num_kept,
    }
    if job.document_starts:
        information["num_documents"] = sum(found.get("num_documents", 0) for found in files)
    return information


def _shards(corpus: Corpus, directory: str, job: EncodeJob) -> list[_Shard]:
    width = max(5, len(str(len(corpus.files) - 1)))
    shards = []
    for index, given in enumerate(corpus.sources):
        source = given.absolute()
        num_bytes, changed = state_of(source.path)
        made_from = {
            "stored_bytes": num_bytes,
            "changed_ns": changed,
            **source.settings(),
            "document_starts": job.document_starts,
            "end_of_document": job.end_of_document,
        }
        name = f"{index:0{width}}.npy"
        destination = f"{directory}/{name}"
        shown = printable_path(given.path)
        shards.append(_Shard(source, shown, name, destination, made_from, num_bytes))
    return shards


def _check_names(folder: TokenFolder, shards: list[_Shard]) -> None:
    """Raise ValueError if the folder contains anything but token files of this corpus."""
    expected = {shard.name for shard in shards}
    for name in folder.names():
        if name not in expected:
            raise InputError(
                f"{folder.path} contains {short_repr(name)}, which is not a token file of this "
                "corpus",
                remedy="remove the directory to encode everything again",
            )


def _finished(shard: _Shard, tokenizer_hash: str, folder: TokenFolder) -> Encoded | None:
    """Return the result of an earlier run, or None if the file must be encoded.

    Raises:
        ValueError: If the token file was made from another text or with other settings.
    """
    try:
        found = folder.metadata(shard.name)
    except (FileNotFoundError, InputError):  # a damaged file is replaced
        return None
    made_from = found.get("made_from")
    expected = {
        "tokenizer": (found["tokenizer_hash"], tokenizer_hash),
        "library_version": (found.get("library_version"), cs336_basics.__version__),
        "source": (found.get("source"), shard.shown),
    }
    for name, value in shard.made_from.items():
        expected[name] = (made_from.get(name) if isinstance(made_from, dict) else None, value)
    other = [name for name, (before, now) in expected.items() if before != now]
    if other:
        raise InputError(
            f"made with another text or other settings ({', '.join(other)})",
            place=str(shard.destination),
            remedy=f"encode the same text with the same settings, or remove {folder.path} to "
            "encode everything again",
        )
    try:
        reading = ReadingRecord.from_json(found.get("reading"))
    except InputError:  # a damaged record
        return None
    return (found, reading) if folder.ids_are_intact(shard.name) else None


@dataclass(frozen=True)
class EncodeShardJob:
    """Encodes files in one thread each, and writes their token files."""

    job: EncodeJob

    def run(self, shard: _Shard) -> Encoded:
        """Write the token file of a file, unless there are no tokens."""
        reading = ReadingRecord()
        try:
            with uploaded(shard.destination) as file:
                metadata = write_token_file(
                    self.job,
                    encoded_blocks(self.job, [shard.source], 1),
                    file,
                    source=shard.shown,
                    reading=reading,
                    record=lambda: {"made_from": shard.made_from, "reading": reading.as_json()},
                    with_hash=True,
                )
        except NoTokensError:
            return None, reading
        return metadata, reading
