"""Keeps calibrations in the user's cache directory, one for each machine, shape and search.

The file is JSON, and only a cache: one that is damaged, or that cannot be written, costs a new
calibration and nothing else.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cs336_basics._support.files import write_json
from cs336_basics.training.calibration import (
    Calibration,
    Candidate,
    Candidates,
    Timing,
    sequences_to_time,
)
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.devices import device_name

_FORMAT = 1
"""Part of every key. To be raised when what is timed changes, so that old entries are not found."""
_MAX_ENTRIES = 200
_MAX_BYTES = 4 << 20


def calibration_file() -> Path:
    """Return the cache's path: below $XDG_CACHE_HOME, or ~/.cache where that is not set."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "cs336_basics" / "calibration.json"


def calibration_key(config: TrainConfig, device: torch.device, candidates: Candidates) -> str:
    """Return what a calibration depends on: machine, versions, shape and candidates, as JSON."""
    shape = dataclasses.asdict(config.model)
    del shape["attention"], shape["num_layers"]  # the one is chosen, the other only a factor
    key = {
        "format": _FORMAT,
        "device": device_name(device),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": config.num_workers or torch.get_num_threads(),
        "torch": torch.__version__,
        "model": shape,
        "sequences": sequences_to_time(config),
        "deterministic": config.deterministic,
        "candidates": dataclasses.asdict(candidates),
    }
    return json.dumps(key, sort_keys=True)


class CalibrationCache:
    """Calibrations by key, in a file.

    Args:
        path: the file; it need not exist.
        report: is given a line where the file is damaged or cannot be read or written.
    """

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self.path = path
        self._report = report

    def get(self, key: str, candidates: Candidates) -> Calibration | None:
        """Return the calibration of that key, or None where there is none that can be used."""
        entry = self._read().get(key)
        if entry is None:
            return None
        try:
            return _calibration_from(entry, candidates)
        except (ValueError, TypeError, KeyError):
            self._report(f"{self.path} is damaged: measuring again")
            return None

    def put(self, key: str, calibration: Calibration) -> None:
        """Keep a calibration; the oldest ones go where there are too many."""
        entries = self._read(silent=True)
        entries.pop(key, None)
        entries[key] = dataclasses.asdict(calibration)
        newest = dict(list(entries.items())[-_MAX_ENTRIES:])
        try:
            write_json(self.path, {"calibrations": newest})
        except (OSError, ValueError) as error:
            self._report(f"{self.path} cannot be written ({error}): the next run measures again")

    def _read(self, silent: bool = False) -> dict[str, Any]:
        """Return all entries, unchecked; none where the file is missing or damaged."""
        report = (lambda line: None) if silent else self._report
        try:
            with self.path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
            if len(content) > _MAX_BYTES:
                raise ValueError("too large")
            entries = json.loads(content)["calibrations"]
            if isinstance(entries, dict):
                return entries
        except FileNotFoundError:
            return {}
        except OSError as error:
            report(f"{self.path} cannot be read ({error.strerror}): measuring again")
            return {}
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        report(f"{self.path} is damaged: measuring again")
        return {}


def _calibration_from(entry: Any, candidates: Candidates) -> Calibration:
    """Return a calibration of these candidates from its JSON.

    Raises:
        KeyError, TypeError, ValueError: it is not one.
    """
    timings = []
    for row in entry["timings"]:
        candidate = Candidate(**row["candidate"])
        seconds, setup_seconds = row["seconds"], row["setup_seconds"]
        times_are_plausible = all(
            type(number) in (int, float) and 0 < number < math.inf
            for number in (seconds, setup_seconds)
        )
        if not times_are_plausible or not candidates.contain(candidate):
            raise ValueError(f"not a timing: {row}")
        timings.append(Timing(candidate, float(seconds), float(setup_seconds)))
    if type(entry["sequences"]) is not int or entry["sequences"] < 1 or not timings:
        raise ValueError("not a calibration")
    calibration = Calibration(entry["sequences"], tuple(timings))
    calibration.choose(1, 1)  # raises where it is not complete
    return calibration
