"""The record of the stages that prepare a run's data, so that finished stages are not repeated."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cs336_basics._support.errors import Argument, InputError, Text
from cs336_basics._support.files import sha256_file, write_json
from cs336_basics._support.messages import short_repr
from cs336_basics._support.paths import printable_path
from cs336_basics._support.reading import read_json_object
from cs336_basics._support.urls import is_url
from cs336_basics.text.storage import size_of
from cs336_basics.text.utf8 import lone_surrogate

_FILE = "stages.json"
_MAX_BYTES = 1 << 26
_MOST_FILE_BYTES = 1 << 24  # longer lists of files are not recorded
_MOST_CHANGES = 5
_FILES = "files"

MIXTURE = "mixture"
"""Stage that records the names and the weights of the corpora of a mixture."""

_RESTORE: Text = (
    "restore the data, start a new run, or pass ",
    Argument("data.from", "run"),
    " to go on from the run's own token files",
)


class RecordedFile(NamedTuple):
    """A file that a run reads."""

    path: str
    num_bytes: int
    sha256: str
    """Hash of the content; for a URL, only its size in words."""

    def described(self) -> str:
        """Return the size and the hash, for messages."""
        return f"{self.num_bytes:,} bytes, {self.sha256[:12]}"


class Stages:
    """The inputs of each stage and the hashes of its output files, stored in stages.json.

    Args:
        directory: Directory of stages.json. It does not need to exist.
        report: Callback invoked with a line for each stage.

    Raises:
        ValueError: If stages.json is damaged.
    """

    def __init__(self, directory: Path, report: Callable[[str], None]) -> None:
        self._path = directory / _FILE
        self._report = report
        self._records = read_records(directory)
        self.sha256_of = functools.cache(_sha256_of)

    def run(
        self,
        name: str,
        inputs: dict[str, Any],
        outputs: Sequence[Path],
        make: Callable[[], object],
    ) -> None:
        """Call `make` to write `outputs`, unless they exist and have the recorded hashes.

        `inputs` are the values that determine the outputs, as JSON.

        Raises:
            ValueError: If the record has different inputs for this stage.
        """
        self._check_inputs(name, inputs)
        record = self._records.get(name, {})
        hashes = {file.name: sha256_file(file) for file in outputs if file.is_file()}
        if len(hashes) == len(outputs) and hashes == record.get("sha256"):
            self._report(f"{name}: unchanged")
            return
        start = time.perf_counter()
        make()
        seconds = time.perf_counter() - start
        self._write(name, {"inputs": inputs, "sha256": {f.name: sha256_file(f) for f in outputs}})
        self._report(f"{name}: done in {seconds:.1f} s")

    def check(
        self,
        name: str,
        inputs: dict[str, Any],
        examine: Callable[[], object] = lambda: None,
        remedy: Text = _RESTORE,
    ) -> None:
        """Record the inputs of a stage whose outputs the user supplies.

        `examine` is called once, before they are recorded. It raises an error if they are unusable.

        Raises:
            ValueError: If the record has different inputs for this stage. The message ends with the
                remedy.
        """
        self._check_inputs(name, inputs, remedy)
        if name not in self._records:
            examine()
            self._write(name, {"inputs": inputs})

    def check_outputs(self, name: str, outputs: Sequence[Path]) -> None:
        """Check that a finished stage wrote these files, and that they have not changed.

        Raises:
            ValueError: If the stage is not recorded or wrote no such files, or one of them is
                missing or has other content.
        """
        recorded = self._records.get(name, {}).get("sha256")
        for file in outputs:
            expected = recorded.get(file.name) if isinstance(recorded, dict) else None
            if expected is None:
                problem = "the run did not write this file, or not completely"
            elif not file.is_file():
                problem = "the file is missing"
            elif sha256_file(file) != expected:
                problem = "the file has changed since the run wrote it"
            else:
                continue
            raise InputError(
                problem, place=str(file), remedy=("pass ", Argument("data.from", "files"))
            )

    def record_files(self, found: Mapping[str, tuple[Any, Sequence[str]]]) -> None:
        """Record the files that paths stand for, so that a resumed run reads the same files.

        Very long lists of files and names that are not UTF-8 are not recorded. A resumed run then
        searches for its files again.

        Args:
            found: Mapping from the name of a path to its value and the files found for it.

        Raises:
            ValueError: If the record has other files for a path. The message names the files that
                changed, came or went. Files that have only moved are accepted.
        """
        known = self._records.get(_FILES, {}).get("inputs", {})
        inputs: dict[str, Any] = {}
        for name, (paths, files) in found.items():
            now = [RecordedFile(file, size_of(file), self.sha256_of(file)) for file in files]
            before = _files_in(known.get(name))
            if before is not None and [f.sha256 for f in before] != [f.sha256 for f in now]:
                raise _changed(_changes(before, now))
            inputs[name] = {"paths": paths, "files": now}
        text = json.dumps(inputs)  # tuples become lists
        is_utf8 = lone_surrogate(json.dumps(inputs, ensure_ascii=False)) is None
        if inputs and is_utf8 and len(text) <= _MOST_FILE_BYTES and known != json.loads(text):
            self._write(_FILES, {"inputs": json.loads(text)})

    def _check_inputs(self, name: str, inputs: dict[str, Any], remedy: Text = _RESTORE) -> None:
        before = self._records.get(name, {"inputs": inputs})["inputs"]
        if before != inputs:
            changes = ", ".join(
                f"{key}: {short_repr(before.get(key))} became {short_repr(inputs.get(key))}"
                for key in {**before, **inputs}
                if before.get(key) != inputs.get(key)
            )
            raise InputError(
                f"the data has changed since the run started ({changes})",
                place=name,
                remedy=remedy,
            )

    def _write(self, name: str, record: dict[str, Any]) -> None:
        self._records[name] = record
        write_json(self._path, self._records)


def _sha256_of(file: str) -> str:
    """Return the SHA-256 of a local file, or the size of a remote file to avoid a download."""
    return f"{size_of(file)} bytes" if is_url(file) else sha256_file(file)


def _changed(changes: Sequence[str]) -> InputError:
    more = f", and {len(changes) - _MOST_CHANGES:,} more" if len(changes) > _MOST_CHANGES else ""
    return InputError(
        f"the data has changed since the run started: {'; '.join(changes[:_MOST_CHANGES])}{more}",
        remedy=_RESTORE,
    )


def _changes(before: Sequence[RecordedFile], now: Sequence[RecordedFile]) -> list[str]:
    """Return the differences between two lists of files in words.

    Files are identified by their paths or, if all paths are new, by their names.
    """
    is_moved = not {file.path for file in before} & {file.path for file in now}

    def by_name(files: Sequence[RecordedFile]) -> dict[str, RecordedFile]:
        return {os.path.basename(file.path) if is_moved else file.path: file for file in files}

    old, new = by_name(before), by_name(now)
    changes = []
    for name, file in {**old, **new}.items():
        shown = printable_path(file.path)
        if name not in new:
            changes.append(f"{shown} went ({file.described()})")
        elif name not in old:
            changes.append(f"{shown} came ({file.described()})")
        elif old[name].sha256 != file.sha256:
            changes.append(f"{shown} changed ({old[name].described()} became {file.described()})")
    return changes or ["the files have another order"]


def data_digest(records: Mapping[str, Any], split: str) -> str | None:
    """Return the hash of a split's text or token files, or None if it is not recorded.

    Args:
        records: What `read_records` returned.
        split: "train" or "valid".
    """
    mixture = records.get(MIXTURE, {}).get("inputs", {})
    names = mixture.get("names")
    if not isinstance(names, list) or f"{split} tokens" in records:
        return _digest_of(records.get(f"{split} tokens", {}))
    found = [_digest_of(records.get(f"{name} {split} tokens", {})) for name in names]
    if None in found:
        return None
    text = json.dumps([names, mixture.get("weights"), found])
    return f"{len(names)} corpora, {hashlib.sha256(text.encode()).hexdigest()}"


def _digest_of(record: Mapping[str, Any]) -> str | None:
    inputs = record.get("inputs", {})
    # The hash of one text or token file, or the joint hash of several.
    digests = [inputs.get(key) for key in ("source", "file", "sources", "files")]
    return next((digest for digest in digests if isinstance(digest, str)), None)


def recorded_files(directory: Path, name: str, paths: Any) -> tuple[str, ...] | None:
    """Return the files that were found for a path with this value, or None if there is no record.

    Raises:
        ValueError: If stages.json is damaged, or a file is missing or has another size. The message
            names the files.
    """
    record = read_records(directory).get(_FILES, {}).get("inputs", {}).get(name)
    files = _files_in(record)
    if files is None or record.get("paths") != json.loads(json.dumps(paths)):
        return None
    changes = []
    for file in files:
        if is_url(file.path):
            continue
        shown = printable_path(file.path)
        if not os.path.isfile(file.path):
            changes.append(f"{shown} went ({file.described()})")
        elif (size := os.path.getsize(file.path)) < file.num_bytes:
            changes.append(
                f"{shown} has lost {file.num_bytes - size:,} of its {file.num_bytes:,} bytes"
            )
        elif size > file.num_bytes:
            changes.append(f"{shown} grew from {file.num_bytes:,} to {size:,} bytes")
    if changes:
        raise _changed(changes)
    return tuple(file.path for file in files)


def _files_in(record: Any) -> list[RecordedFile] | None:
    """Return the files in a record, or None if there are none or the record is damaged."""
    match record:
        case {"files": [*files]} if files and all(_is_file(file) for file in files):
            return [RecordedFile(*file) for file in files]
    return None


def _is_file(file: Any) -> bool:
    return isinstance(file, list) and [type(value) for value in file] == [str, int, str]


def read_records(directory: Path) -> dict[str, Any]:
    """Return the inputs and output hashes of each recorded stage, by stage name.

    The result is empty if there is no stages.json.

    Raises:
        ValueError: If stages.json is damaged.
    """
    path = directory / _FILE
    if not path.exists():
        return {}
    try:
        records = read_json_object(path, _MAX_BYTES)
        if not all(
            isinstance(r, dict) and isinstance(r.get("inputs"), dict) for r in records.values()
        ):
            raise InputError
    except InputError:
        raise InputError(
            f"{path} is damaged", remedy="remove it to prepare the data again"
        ) from None
    return records
