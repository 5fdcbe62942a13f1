"""A run's checkpoint is one safetensors file, written atomically. Damaged files are rejected."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import struct
import tracemalloc

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from cs336_basics._support.errors import InputTypeError
from cs336_basics.checkpoints.checkpoint import (
    read_checkpoint,
    verify_checkpoint,
    write_checkpoint,
)
from cs336_basics.training import AdamW
from tests.checkpoints.both_formats import assert_same, linear_run, new_run, state_of
from tests.errors import rejects
from tests.faults import file_size_limit
from tests.training.small_runs import train


@pytest.fixture
def saved(tmp_path):
    """Return a trained run and the path of its checkpoint."""
    run = new_run(0, steps=3)
    path = tmp_path / "step_3.safetensors"
    write_checkpoint(path, *run, 3)
    return run, path


def test_a_checkpoint_is_one_safetensors_file_under_plain_names(saved):
    (model, optimizer), path = saved
    assert os.listdir(path.parent) == [path.name]
    tensors = load_file(path)
    weights = {name: tensors[f"model.{name}"] for name in model.state_dict()}
    assert_close(weights, dict(model.state_dict()), atol=0, rtol=0)
    kept = optimizer.state[model.lm_head.weight]
    assert int(tensors["optimizer.lm_head.weight.step"]) == 3
    assert torch.equal(tensors["optimizer.lm_head.weight.exp_avg"], kept["exp_avg"])
    with safe_open(path, "pt") as file:
        content = json.loads(file.metadata()["checkpoint"])
    assert (content["iteration"], content["optimizer"]) == (3, "AdamW")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_a_checkpoint_has_the_same_permissions_as_other_files(saved):
    _, path = saved
    (path.parent / "other").touch()
    assert path.stat().st_mode == (path.parent / "other").stat().st_mode


def test_a_repeated_run_writes_the_same_bytes(saved, tmp_path):
    _, path = saved
    write_checkpoint(tmp_path / "again", *new_run(0, steps=3), 3)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    resumed = new_run(1)
    read_checkpoint(path, *resumed)
    write_checkpoint(tmp_path / "again", *resumed, 3)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_restored_tensors_do_not_depend_on_the_file(saved):
    run, path = saved
    resumed = new_run(1)
    read_checkpoint(path, *resumed)
    path.write_bytes(bytes(path.stat().st_size))
    assert_same(run, resumed)


def test_a_run_without_steps_is_restored(tmp_path):
    run, resumed = new_run(0), new_run(1)
    write_checkpoint(tmp_path / "c", *run, 0)
    assert read_checkpoint(tmp_path / "c", *resumed) == 0
    assert_same(run, resumed)


def test_tied_weights_are_restored(tmp_path):
    def tied():
        model, _ = new_run(0)
        model.lm_head.weight = model.token_embeddings.weight
        return model, AdamW(model.parameters())

    run, other = tied(), tied()
    train(*run, 2, seed=0)
    write_checkpoint(tmp_path / "c", *run, 2)
    read_checkpoint(tmp_path / "c", *other)
    assert other[0].lm_head.weight is other[0].token_embeddings.weight
    assert_same(run, other)


def test_tensors_of_any_dtype_shape_and_layout_are_saved_and_loaded(tmp_path):
    model = torch.nn.Module()
    tensors = [
        torch.tensor(3), torch.empty(0), torch.ones(2, 3).t(), torch.tensor([True, False]),
        torch.ones(3, dtype=torch.bfloat16), torch.ones(2, dtype=torch.complex64),
        torch.tensor(float("nan")), torch.arange(6)[::2],
    ]  # fmt: skip
    for index, tensor in enumerate(tensors):
        model.register_buffer(f"b{index}", tensor)
    model.weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([model.weight], lr=0.1)
    write_checkpoint(tmp_path / "c", model, optimizer, 1)
    assert read_checkpoint(tmp_path / "c", model, optimizer) == 1


def test_a_state_that_cannot_be_saved_is_refused(tmp_path):
    model, optimizer = new_run(0)
    optimizer.state[model.lm_head.weight]["odd"] = object()
    with rejects(None, "odd", kind=InputTypeError):
        write_checkpoint(tmp_path / "c", model, optimizer, 1)
    with rejects(None):
        write_checkpoint(tmp_path / "c", model, AdamW([torch.nn.Parameter(torch.zeros(2))]), 1)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_an_os_error_and_leaves_nothing(saved):
    run, path = saved
    before = path.read_bytes()
    with file_size_limit(2_000), pytest.raises(OSError, match=re.escape(str(path))):
        write_checkpoint(path, *run, 4)
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == before


# Damaged and hostile files


def is_refused(path):
    """Load a damaged file. Return whether it was rejected; if not, check that no value changed."""
    run = new_run(1)
    before = state_of(run)
    try:
        assert read_checkpoint(path, *run) == 3
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017 -- the error is optional
        assert path.name in str(error)  # noqa: PT017
        assert len(str(error)) < 500 + len(str(path))  # noqa: PT017
        assert_close(state_of(run), before, atol=0, rtol=0)
        return True
    assert_same(run, new_run(0, steps=3))
    return False


def test_a_file_that_is_cut_off_fails_the_verification(saved):
    _, path = saved
    verify_checkpoint(path)
    whole = path.read_bytes()
    for length in [0, 1, 8, 9, 100, *random.Random(0).choices(range(len(whole)), k=20), -1]:
        path.write_bytes(whole[:length])
        with rejects(None, "step_3"):
            verify_checkpoint(path)


def test_a_flipped_bit_is_refused(saved):
    _, path = saved
    chooser, whole = random.Random(3), path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for end in [len(whole)] * 40 + [header] * 60:
        offset, bit = chooser.randrange(end), chooser.randrange(8)
        changed = bytearray(whole)
        changed[offset] ^= 1 << bit
        path.write_bytes(changed)
        assert is_refused(path), (offset, bit)


@pytest.mark.slow
def test_a_flipped_bit_in_any_byte_is_refused(tmp_path):
    path = tmp_path / "small.safetensors"
    write_checkpoint(path, *linear_run("AdamW"), 3)
    whole = path.read_bytes()
    for offset, bit in itertools.product(range(len(whole)), range(8)):
        changed = bytearray(whole)
        changed[offset] ^= 1 << bit
        path.write_bytes(changed)
        with rejects(None, path):
            read_checkpoint(path, *linear_run("AdamW", steps=0))


def write_header(path, header, data=b""):
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content)) + content + data)


HUGE = {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}
HOSTILE = {
    "text": lambda path: path.write_bytes(b"once upon a time"),
    "a header of 2**60 bytes": lambda path: path.write_bytes(struct.pack("<Q", 1 << 60) + b"{}"),
    "a tensor of terabytes": lambda path: write_header(path, {"model.lm_head.weight": HUGE}),
    "a shape beyond its bytes": lambda path: write_header(
        path, {"a": {**HUGE, "data_offsets": [0, 4]}}, b"1234"
    ),
    "an unknown dtype": lambda path: write_header(path, {"a": {**HUGE, "dtype": "PICKLE"}}),
    "deep nesting": lambda path: write_header(path, b"[" * 100_000),
    "no metadata": lambda path: save_file({"model.weight": torch.ones(2)}, path),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_before_memory_is_allocated(tmp_path, kind):
    path = tmp_path / "c.safetensors"
    HOSTILE[kind](path)
    run = new_run(0)  # the first optimizer of a process imports much of torch
    tracemalloc.start()
    with rejects(None, "c.safetensors") as error:
        read_checkpoint(path, *run)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "7", "\ud83d", "[" * 60_000, "{}", '{"iteration": 3}',
        *(f'{{"iteration": {value}, "optimizer": "AdamW", "crc32": {{"model": 0, "optimizer": 0}}}}'
          for value in ("NaN", "true", "-1", "1e9", "9" * 50, '"3"', "3")),
        '{"iteration": 3, "optimizer": ["AdamW"], "crc32": {}}',
        '{"iteration": 3, "optimizer": "AdamW", "crc32": {"model": NaN}}',
    ],
)  # fmt: skip
def test_invalid_metadata_is_refused(saved, text):
    _, path = saved
    save_file(load_file(path), path, {"checkpoint": text.encode("utf-8", "replace").decode()})
    assert is_refused(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("optimizer.weight.exp_avg", torch.ones(2)),
        ("optimizer.weight.exp_avg", torch.ones(2, 3, dtype=torch.int64)),
        ("optimizer.weight.step", torch.tensor(-1)),
        ("optimizer.weight.step", torch.tensor(float("nan"))),
        ("optimizer.weight.step", torch.ones(3)),
        ("optimizer.weight.odd", torch.ones(2, 3)),
        ("optimizer.other.exp_avg", torch.ones(2, 3)),
        ("optimizer.", torch.ones(2, 3)),
        ("model.other", torch.ones(2, 3)),
    ],
)
def test_invalid_tensors_with_the_right_checksum_are_refused(tmp_path, monkeypatch, name, value):
    path = tmp_path / "c"
    write_checkpoint(path, *linear_run("AdamW"), 3)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    save_file({**load_file(path), name: value}, path, metadata)
    content = json.loads(metadata["checkpoint"])
    monkeypatch.setattr(
        "cs336_basics.checkpoints.checkpoint._checksum",
        lambda _, tensors: content["crc32"]["model" if "weight" in tensors else "optimizer"],
    )
    with rejects(None, path):
        read_checkpoint(path, *linear_run("AdamW"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX FIFOs")
def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    for name in ("fifo", "directory"):
        with rejects(None, name):
            read_checkpoint(tmp_path / name, *new_run(0))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_checkpoint(tmp_path / "nowhere", *new_run(0))
