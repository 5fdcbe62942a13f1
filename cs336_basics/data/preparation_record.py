"""The record of the stages that prepare a run's data, so that finished stages are not repeated."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import sha256_file, write_json
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import read_json_object
from cs336_basics._support.urls import is_url
from cs336_basics.text.storage import size_of

_FILE = "stages.json"
_MAX_BYTES = 1 << 24
_MOST_NAME_BYTES = 1 << 23  # longer lists of files are not recorded
_FILES = "files"


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

    def check(self, name: str, inputs: dict[str, Any], examine: Callable[[], object]) -> None:
        """Record the inputs of a stage whose outputs the user supplies.

        `examine` is called once, before they are recorded. It raises an error if they are unusable.

        Raises:
            ValueError: If the record has different inputs for this stage.
        """
        self._check_inputs(name, inputs)
        if name not in self._records:
            examine()
            self._write(name, {"inputs": inputs})

    def record_files(self, found: Mapping[str, tuple[Any, Sequence[str]]]) -> None:
        """Record the files for which paths stand, so that a resumed run reads the same files.

        Args:
            found: Mapping from the name of a field to its value and the files found for it.
        """
        inputs = {
            name: {"paths": paths, "files": [*files]} for name, (paths, files) in found.items()
        }
        inputs = json.loads(json.dumps(inputs))  # tuples become lists
        num_bytes = sum(len(file) for record in inputs.values() for file in record["files"])
        is_known = self._records.get(_FILES, {}).get("inputs") == inputs
        if inputs and not is_known and num_bytes <= _MOST_NAME_BYTES:
            self._write(_FILES, {"inputs": inputs})

    def _check_inputs(self, name: str, inputs: dict[str, Any]) -> None:
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
                remedy="start a new run",
            )

    def _write(self, name: str, record: dict[str, Any]) -> None:
        self._records[name] = record
        write_json(self._path, self._records)


def _sha256_of(file: str) -> str:
    """Return the SHA-256 of a local file, or the size of a remote file to avoid a download."""
    return f"{size_of(file)} bytes" if is_url(file) else sha256_file(file)


def data_digest(records: Mapping[str, Any], split: str) -> str | None:
    """Return the hash of a split's text or token files, or None if it is not recorded.

    Args:
        records: What `read_records` returned.
        split: "train" or "valid".
    """
    inputs = records.get(f"{split} tokens", {}).get("inputs", {})
    # The hash of one text or token file, or the joint hash of several.
    digests = [inputs.get(key) for key in ("source", "file", "sources", "files")]
    return next((digest for digest in digests if isinstance(digest, str)), None)


def recorded_files(directory: Path, name: str, paths: Any) -> tuple[str, ...] | None:
    """Return the files that were found for a field with this value, or None if there is no record.

    Raises:
        ValueError: If stages.json is damaged.
    """
    record = read_records(directory).get(_FILES, {}).get("inputs", {}).get(name)
    match record:
        case {"paths": known, "files": [*files]} if (
            known == json.loads(json.dumps(paths)) and files and all(type(f) is str for f in files)
        ):
            return tuple(files)
    return None


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
