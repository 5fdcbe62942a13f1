"""KeptCountJob: count pieces, and keep the counts of each piece in a directory.

The directory has two files for each piece that was counted: its counts, and a record. Both files
are named after a key, a hash of everything that determines the counts. The record contains the key,
the hash of the counts' file, and what happened while the text was read. A later run loads the files
instead of counting the piece again, if the key and the hash are right.
"""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import check_has_no_links, sha256_file, write_json
from cs336_basics._support.reading import parse_json
from cs336_basics._support.urls import downloaded, is_url, names_in, uploaded
from cs336_basics.counting.count_job import Counted, CountJob
from cs336_basics.counting.word_counts import WordCounts
from cs336_basics.splitting.reference import unicode_version
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.text.sources import Piece
from cs336_basics.text.storage import state_of


@dataclass(frozen=True)
class KeptCountJob:
    """A CountJob that counts only the pieces whose counts are not kept yet.

    Args:
        job: The job.
        folder: Absolute path or URL of the directory, as returned by `opened_folder`.
    """

    job: CountJob
    folder: str

    def run(self, piece: Piece) -> Counted:
        """Return the counts of a piece; see `CountJob.run`.

        Raises:
            OSError: If the counts cannot be written.
        """
        key = self.key(piece)
        path = f"{self.folder}/{key}"
        if (kept := _load(path, key)) is not None:
            return kept
        counts, reading = self.job.run(piece)
        with uploaded(f"{path}.npz") as file:
            counts.save(file)
            digest = sha256_file(file)
        with uploaded(f"{path}.json") as file:
            write_json(file, {"key": key, "counts_sha256": digest, "reading": reading.as_json()})
        return counts, reading

    def combine(self, partials: Iterable[Counted]) -> Counted:
        """See `CountJob.combine`."""
        return self.job.combine(partials)

    def key(self, piece: Piece) -> str:
        """Return a hash of everything that determines the counts of a piece."""
        source, splitter = piece.source, self.job.splitter
        text = [source.path, *state_of(source.path), source.settings(), piece.start, piece.end]
        rules = [splitter.expression, sorted(splitter.special_tokens), unicode_version()]
        if splitter.normalizer is not None:
            rules += [splitter.normalizer, unicodedata.unidata_version]
        return hashlib.sha256(json.dumps([text, rules]).encode()).hexdigest()[:32]


def opened_folder(folder: str | os.PathLike[str]) -> str:
    """Return the absolute path or URL of a directory, which is created if it is missing.

    Raises:
        ValueError: If a file in the directory is a symbolic link.
        OSError: If the directory cannot be created, or the URL cannot be read.
    """
    name = os.fspath(folder).rstrip("/") or "/"
    if is_url(name):
        names_in(name)  # reports errors before the work starts
        return name
    os.makedirs(name, exist_ok=True)
    check_has_no_links(name)
    return os.path.abspath(name)


def _load(path: str, key: str) -> Counted | None:
    """Return the kept counts and the reading record of a piece.

    Return None if they are missing or damaged, or belong to another piece.
    """
    try:
        with downloaded(f"{path}.json") as file:
            record = parse_json(file.read_bytes(), file)
        if not isinstance(record, dict) or record.get("key") != key:
            return None
        reading = ReadingRecord.from_json(record.get("reading"))
        with downloaded(f"{path}.npz") as file:
            if record.get("counts_sha256") != sha256_file(file):
                return None
            return WordCounts.load(file), reading
    except (FileNotFoundError, InputError):
        return None
