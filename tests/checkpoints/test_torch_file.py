"""CS336's checkpoints: paths and file objects work, no code runs, damaged files are rejected."""

from __future__ import annotations

import copy
import io
import itertools
import os
import pickle
import random
import zipfile

import numpy as np
import pytest
import torch

from cs336_basics.checkpoints.torch_file import load_checkpoint, save_checkpoint
from tests.checkpoints.both_formats import assert_same, linear_run, new_run
from tests.errors import rejects


@pytest.fixture
def saved(tmp_path):
    """Return a trained run and the path of its checkpoint."""
    run = new_run(0, steps=3)
    save_checkpoint(*run, 3, tmp_path / "c.pt")
    return run, tmp_path / "c.pt"


def test_paths_may_be_strings_and_file_objects_are_read_from_their_start(saved, tmp_path):
    run, path = saved
    save_checkpoint(*run, 7, str(path))
    assert load_checkpoint(str(path), *new_run(1)) == 7
    with open(tmp_path / "other.pt", "wb") as file:
        save_checkpoint(*run, 8, file)
    with open(tmp_path / "other.pt", "rb") as file:
        assert load_checkpoint(file, *new_run(1)) == 8
    buffer = io.BytesIO()
    save_checkpoint(*run, 5, buffer)
    assert load_checkpoint(buffer, *new_run(1)) == 5  # the buffer is at its end
    assert load_checkpoint(io.BytesIO(path.read_bytes()), *new_run(1)) == 7


def test_iteration_may_be_a_numpy_integer_but_not_a_fraction(saved, tmp_path):
    run, _ = saved
    save_checkpoint(*run, np.int64(7), tmp_path / "a.pt")
    assert type(load_checkpoint(tmp_path / "a.pt", *new_run(1))) is int
    with pytest.raises(TypeError):
        save_checkpoint(*run, 7.5, tmp_path / "b.pt")
    assert not (tmp_path / "b.pt").exists()


def test_a_file_from_another_program_is_loaded(saved):
    run, path = saved
    content = torch.load(path, weights_only=True)
    del content["kind"]
    content["model"] = {f"_orig_mod.{name}": value for name, value in content["model"].items()}
    torch.save(content, path)
    resumed = new_run(1)
    assert load_checkpoint(path, *resumed) == 3
    assert_same(run, resumed)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.longdouble, np.int64])
def test_numpy_numbers_are_saved_as_python_numbers(tmp_path, kind):
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    optimizer.param_groups[0].update(lr=kind(2), steps=[kind(3), (kind(4), 5)])
    save_checkpoint(model, optimizer, 1, tmp_path / "c.pt")
    twin = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    load_checkpoint(tmp_path / "c.pt", model, twin)
    group = twin.param_groups[0]
    assert (group["lr"], group["steps"]) == (2, [3, (4, 5)])
    assert type(group["lr"]) is (int if kind is np.int64 else float)
    assert type(optimizer.param_groups[0]["lr"]) is kind  # the optimizer is unchanged


def test_settings_of_parameter_groups_are_restored(tmp_path):
    run, other = linear_run("AdamW"), linear_run("AdamW")
    run[1].param_groups[0].update(lr=0.5, betas=(0.1, 0.2))
    save_checkpoint(*run, 1, tmp_path / "c.pt")
    load_checkpoint(tmp_path / "c.pt", *other)
    assert other[1].param_groups[0]["lr"] == 0.5
    assert other[1].param_groups[0]["betas"] == (0.1, 0.2)


# Damaged and hostile files


def some_flips(whole):
    """Yield offsets and bits at random and in the attributes of the archive's directory.

    Changed attributes could make torch read different values.
    """
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        entry = archive.start_dir
    while whole[entry : entry + 4] == b"PK\x01\x02":
        yield from itertools.product([entry + i for i in (8, 10, 38, 39, 40, 41)], (0, 4))
        sizes = (int.from_bytes(whole[entry + i : entry + i + 2], "little") for i in (28, 30, 32))
        entry += 46 + sum(sizes)
    generator = random.Random(4)
    yield from ((generator.randrange(len(whole)), generator.randrange(8)) for _ in range(200))


def all_flips(whole):
    return itertools.product(range(len(whole)), range(8))


@pytest.mark.parametrize("flips", [some_flips, pytest.param(all_flips, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_refused_or_harmless(flips):
    run, file = linear_run("AdamW"), io.BytesIO()
    save_checkpoint(*run, 3, file)
    refused = 0
    for offset, bit in flips(file.getvalue()):
        changed = bytearray(file.getvalue())
        changed[offset] ^= 1 << bit
        other = linear_run("AdamW", steps=1)
        try:
            assert load_checkpoint(io.BytesIO(bytes(changed)), *other) == 3
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017 -- the error is optional
            assert len(str(error)) < 500  # noqa: PT017
            refused += 1
        else:
            assert_same(run, other)
    assert refused > 20


class Malicious:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (os.mkdir, (str(self.marker),))


def test_code_in_a_file_is_not_run(tmp_path):
    path, marker = tmp_path / "evil.pt", tmp_path / "marker"
    content = {"model": {}, "optimizer": {}, "iteration": 3, "extra": Malicious(marker)}
    torch.save(content, path)
    with rejects(None, "evil.pt"):
        load_checkpoint(path, *new_run(0))
    assert not marker.exists()
    torch.load(path, weights_only=False)  # without this check, the code would run
    assert marker.exists()


def test_a_compressed_archive_is_refused(saved, tmp_path):
    # 200 MB of zeros compress to 200 KB.
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(saved[1]) as plain, zipfile.ZipFile(packed, "w") as archive:
        for name in plain.namelist():
            archive.writestr(name, plain.read(name), zipfile.ZIP_DEFLATED)
    with rejects(None, "packed.pt"):
        load_checkpoint(packed, *new_run(1))


@pytest.mark.parametrize("name", ["a", "a{}"])
def test_entries_that_share_bytes_are_refused_before_they_are_read(saved, tmp_path, name):
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a", bytes(1_000_000))
        (entry,) = archive.infolist()
        entry.external_attr = 0
        for number in range(1, 20):
            other = copy.copy(entry)
            other.filename = name.format(number)
            archive.filelist.append(other)
    with rejects(None, "packed.pt"):
        load_checkpoint(packed, *new_run(1))


def test_a_small_file_with_a_huge_tensor_is_refused():
    model, optimizer = linear_run("AdamW")
    file = io.BytesIO()
    huge = torch.zeros(1).expand(1 << 50)  # all elements share the memory of one element
    content = {"optimizer": optimizer.state_dict(), "iteration": 3}
    torch.save({"model": {"weight": huge}, **content}, file)
    assert file.tell() < 10_000
    with rejects(None, f"({1 << 50},)"):
        load_checkpoint(file, model, optimizer)


CONTENTS = [
    {}, [1, 2], torch.zeros(3), {"model": {}, "optimizer": {}},
    {"model": {}, "optimizer": None, "iteration": 3}, {"model": {1: 2}, "optimizer": {}},
    {"model": torch.zeros(1), "optimizer": {}, "iteration": 3},
    *({"model": {}, "optimizer": {}, "iteration": value} for value in ("3", True, -1, 1.0)),
]  # fmt: skip


@pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
def test_a_file_with_other_contents_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "x.pt")
    with rejects(None, "x.pt"):
        load_checkpoint(tmp_path / "x.pt", *new_run(0))


@pytest.mark.parametrize(
    "content", [b"once upon a time", b"", pickle.dumps({"model": {}, "iteration": 3})]
)
def test_a_file_that_torch_save_did_not_write_is_refused(tmp_path, content):
    (tmp_path / "x.pt").write_bytes(content)
    with rejects(None, "x.pt"):
        load_checkpoint(tmp_path / "x.pt", *new_run(0))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_checkpoint(tmp_path / "nowhere", *new_run(0))
    with pytest.raises(IsADirectoryError):
        save_checkpoint(*new_run(0), 1, tmp_path)
