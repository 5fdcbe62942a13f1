"""The calibration cache: which entries it keeps, and how damaged files are handled."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
import torch

from cs336_basics.model import ModelConfig
from cs336_basics.training.calibration import Calibration, Candidate, Candidates, Timing
from cs336_basics.training.calibration_cache import (
    CalibrationCache,
    calibration_file,
    calibration_key,
)
from cs336_basics.training.config import TrainConfig

CPU = torch.device("cpu")
CANDIDATES = Candidates(("sdpa", "blocked"), (4, 2), ("float32",), (True, False))
CALIBRATION = Calibration(
    8,
    (
        Timing(Candidate("block", "sdpa", "float32", True), 0.25, 7.0),
        Timing(Candidate("loss", 4, "float32", True), 0.5, 3.0),
    ),
)


@pytest.fixture
def cache(tmp_path):
    lines = []
    cache = CalibrationCache(tmp_path / "sub" / "calibration.json", lines.append)
    cache.lines = lines
    return cache


def test_stored_entry_is_found_again(cache):
    assert cache.get("key", CANDIDATES) is None
    cache.put("key", CALIBRATION)
    cache.put("other", dataclasses.replace(CALIBRATION, sequences=2))
    assert cache.get("key", CANDIDATES) == CALIBRATION
    assert cache.get("other", CANDIDATES).sequences == 2
    assert cache.get("unknown", CANDIDATES) is None
    assert cache.lines == []


def test_oldest_entries_are_dropped(cache, monkeypatch):
    monkeypatch.setattr("cs336_basics.training.calibration_cache._MAX_ENTRIES", 2)
    for key in "abac":
        cache.put(key, CALIBRATION)
    assert [cache.get(key, CANDIDATES) is not None for key in "abc"] == [True, False, True]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff",
        b"[]",
        b"null",
        b'{"calibrations": 3}',
        b'{"calibrations": null}',
        b"[" * 100_000,
        b'{"calibrations": {"key": 1' + b"0" * 5000 + b"}}",
        b" " * (5 << 20),
    ],
    ids=["empty", "binary", "list", "null", "number", "no dict", "deep", "long number", "large"],
)
def test_damaged_file_is_reported_and_replaced(cache, content):
    cache.path.parent.mkdir()
    cache.path.write_bytes(content)
    assert cache.get("key", CANDIDATES) is None
    assert cache.lines == [f"{cache.path} is damaged: measuring again"]
    cache.put("key", CALIBRATION)
    assert cache.get("key", CANDIDATES) == CALIBRATION
    assert len(cache.lines) == 1


def damage(path, value):
    """Return the JSON of CALIBRATION with one value replaced."""
    entry = json.loads(json.dumps(dataclasses.asdict(CALIBRATION)))
    *parents, last = path
    target = entry
    for name in parents:
        target = target[name]
    target[last] = value
    return entry


@pytest.mark.parametrize(
    "entry",
    [
        3,
        [],
        {},
        damage(["sequences"], 0),
        damage(["sequences"], True),
        damage(["timings"], []),
        damage(["timings"], None),
        damage(["timings", 0], "x"),
        damage(["timings", 0, "seconds"], "1"),
        damage(["timings", 0, "seconds"], -1.0),
        damage(["timings", 0, "seconds"], float("nan")),
        damage(["timings", 0, "setup_seconds"], float("inf")),
        damage(["timings", 0, "candidate", "choice"], "flash"),
        damage(["timings", 0, "candidate", "choice"], [1]),
        damage(["timings", 0, "candidate", "part"], "nothing"),
        damage(["timings", 0, "candidate", "part"], []),
        damage(["timings", 0, "candidate", "extra"], 1),
        damage(["timings", 0, "candidate", "precision"], "float8"),
        damage(["timings", 0, "candidate", "compiled"], 2),
        damage(["timings", 0, "candidate", "compiled"], False),  # block and loss of different steps
        damage(["timings", 1, "candidate", "choice"], 10**9),
    ],
)
def test_damaged_entry_is_reported(cache, entry):
    cache.path.parent.mkdir()
    cache.path.write_text(json.dumps({"calibrations": {"key": entry}}))
    assert cache.get("key", CANDIDATES) is None
    assert cache.lines == [f"{cache.path} is damaged: measuring again"]


def test_directory_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    lines = []
    cache = CalibrationCache(tmp_path / "file" / "calibration.json", lines.append)
    assert cache.get("key", CANDIDATES) is None
    cache.put("key", CALIBRATION)
    assert "cannot be written" in lines[-1]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_file_that_cannot_be_read_is_reported(cache):
    cache.put("key", CALIBRATION)
    cache.path.chmod(0)
    assert cache.get("key", CANDIDATES) is None
    assert "cannot be read" in cache.lines[0]


def test_path_follows_xdg_cache_home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert calibration_file() == tmp_path / "cs336_basics" / "calibration.json"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert calibration_file() == tmp_path / "home" / ".cache" / "cs336_basics" / "calibration.json"


def test_key_depends_on_what_changes_the_times():
    config = TrainConfig(model=ModelConfig(), batch_size=8)
    key = calibration_key(config, CPU, CANDIDATES)

    def other(**changes):
        return calibration_key(dataclasses.replace(config, **changes), CPU, CANDIDATES)

    same_shape = dataclasses.replace(config.model, attention="reference", num_layers=9)
    assert other(max_steps=5, seed=1, model=same_shape) == key
    assert other(batch_size=4) != key
    assert other(num_workers=7) != key
    assert other(model=dataclasses.replace(config.model, d_ff=1408)) != key
    fewer = dataclasses.replace(CANDIDATES, attention=("sdpa",))
    assert calibration_key(config, CPU, fewer) != key
