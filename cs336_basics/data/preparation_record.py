"""The record of what each stage of a run's preparation was made from, so that it is made once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cs336_basics._support.files import sha256_file, write_json
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import read_json_object

_FILE = "stages.json"
_MAX_BYTES = 1 << 20


class Stages:
    """Records in stages.json what each stage was made from, and the hash of what it made.

    Args:
        directory: the directory of that file, which need not exist.
        report: is called with a line for each stage.

    Raises:
        ValueError: the file is damaged.
    """

    def __init__(self, directory: Path, report: Callable[[str], None]) -> None:
        self._path = directory / _FILE
        self._report = report
        self._records = read_records(directory)

    def run(
        self,
        name: str,
        inputs: dict[str, Any],
        output: Path,
        make: Callable[[], object],
        others: Sequence[Path] = (),
    ) -> None:
        """Call `make`, which writes `output`, unless `output` exists with the recorded hash.

        Args:
            name: the name of the stage.
            inputs: what determines the output, as JSON.
            output: the file whose hash is recorded.
            make: writes `output` and `others`.
            others: further files that must exist.

        Raises:
            ValueError: the stage was made from other inputs before; a run keeps its data.
        """
        record = self._records.get(name)
        if record is not None and record["inputs"] != inputs:
            raise ValueError(
                f"{output} was made from different data "
                f"({_difference(record['inputs'], inputs)}): start a new run"
            )
        is_complete = output.is_file() and all(file.is_file() for file in others)
        if record is not None and is_complete and sha256_file(output) == record.get("sha256"):
            self._report(f"{name}: unchanged")
            return
        start = time.perf_counter()
        make()
        seconds = time.perf_counter() - start
        self._records[name] = {"inputs": inputs, "sha256": sha256_file(output)}
        write_json(self._path, self._records)
        self._report(f"{name}: done in {seconds:.1f} s")

    def check(self, name: str, inputs: dict[str, Any]) -> None:
        """Record the inputs of a stage that a run was given finished.

        Raises:
            ValueError: other inputs were recorded before.
        """
        record = self._records.get(name)
        if record is None:
            self._records[name] = {"inputs": inputs}
            write_json(self._path, self._records)
        elif record["inputs"] != inputs:
            raise ValueError(
                f"{name}: the data changed since the run began "
                f"({_difference(record['inputs'], inputs)}): start a new run"
            )


def read_records(directory: Path) -> dict[str, Any]:
    """Return the records of a directory: name of the stage -> its inputs, hash of its output.

    Where nothing was recorded, there are none.

    Raises:
        ValueError: the file of the records is damaged.
    """
    path = directory / _FILE
    if not path.exists():
        return {}
    try:
        records = read_json_object(path, _MAX_BYTES)
        if not all(map(_is_record, records.values())):
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{path} is damaged: remove it, and the data that it records is made again"
        ) from None
    return records


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    return ", ".join(
        f"{key}: {short_repr(before.get(key))} became {short_repr(now[key])}"
        for key in now
        if before.get(key) != now[key]
    )


def _is_record(record: Any) -> bool:
    return isinstance(record, dict) and isinstance(record.get("inputs"), dict)
