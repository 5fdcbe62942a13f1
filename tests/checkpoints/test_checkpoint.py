"""Checkpoints: states are restored exactly, and damaged or malicious files are refused."""

from __future__ import annotations

import copy
import io
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training import AdamW, load_checkpoint, save_checkpoint
from tests.training.small_runs import SMALL, train


def new_run(seed):
    torch.manual_seed(seed)
    model = TransformerLM(SMALL)
    return model, AdamW(model.parameters(), lr=1e-2 * (seed + 1))


def assert_same(run, other):
    for ours, theirs in zip(run, other, strict=True):
        assert_close(ours.state_dict(), theirs.state_dict(), atol=0, rtol=0)


@pytest.fixture
def saved(tmp_path):
    """A trained run and its checkpoint file."""
    run = new_run(0)
    train(*run, 3, seed=0)
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(*run, 3, path)
    return run, path


def test_a_resumed_run_equals_an_uninterrupted_one(saved):
    run, path = saved
    resumed = new_run(1)
    assert load_checkpoint(path, *resumed) == 3
    assert_same(run, resumed)
    for each in (run, resumed):
        train(*each, 4, seed=1)
    assert_same(run, resumed)


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_every_path_type_is_accepted(saved, kind, tmp_path):
    run, _ = saved
    path = kind(tmp_path / "other.pt")
    save_checkpoint(*run, 8, path)
    assert load_checkpoint(path, *new_run(1)) == 8


def test_open_files_are_accepted(saved, tmp_path):
    run, _ = saved
    with open(tmp_path / "other.pt", "wb") as file:
        save_checkpoint(*run, 8, file)
    with open(tmp_path / "other.pt", "rb") as file:
        assert load_checkpoint(file, *new_run(1)) == 8


def test_file_objects_are_used_from_their_current_position(saved):
    run, path = saved
    buffer = io.BytesIO()
    save_checkpoint(*run, 5, buffer)
    resumed = new_run(1)
    assert load_checkpoint(buffer, *resumed) == 5  # still at its end
    assert_same(run, resumed)
    buffer.seek(0)
    assert load_checkpoint(buffer, *new_run(1)) == 5
    assert load_checkpoint(io.BytesIO(path.read_bytes()), *new_run(1)) == 3


def test_iteration_may_be_a_numpy_integer_but_not_a_fraction(saved, tmp_path):
    run, _ = saved
    save_checkpoint(*run, np.int64(7), tmp_path / "a.pt")
    iteration = load_checkpoint(tmp_path / "a.pt", *new_run(1))
    assert type(iteration) is int
    assert iteration == 7
    with pytest.raises(TypeError):
        save_checkpoint(*run, 7.5, tmp_path / "b.pt")
    assert not (tmp_path / "b.pt").exists()


def test_weights_are_loaded_without_an_optimizer(saved):
    run, path = saved
    model, _ = new_run(1)
    assert load_checkpoint(path, model, None) == 3
    assert_close(model.state_dict(), run[0].state_dict(), atol=0, rtol=0)


@pytest.mark.parametrize("saved_compiled", [False, True])
@pytest.mark.parametrize("loaded_compiled", [False, True])
def test_checkpoints_of_compiled_models_have_plain_names(tmp_path, saved_compiled, loaded_compiled):
    def maybe_compiled(model, compiled):
        # Both ways that put `_orig_mod.` into names; nothing is compiled before the first call.
        if compiled:
            model.layers[1] = torch.compile(model.layers[1])
            model = torch.compile(model)
        return model

    plain, optimizer = new_run(0)
    train(plain, optimizer, 2, seed=0)
    expected = copy.deepcopy(plain.state_dict())
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(maybe_compiled(plain, saved_compiled), optimizer, 2, path)
    names = torch.load(path, weights_only=True)["model"].keys()
    assert set(names) == set(expected)

    model, optimizer = new_run(1)
    assert load_checkpoint(path, maybe_compiled(model, loaded_compiled), optimizer) == 2
    values = {name.replace("_orig_mod.", ""): v for name, v in model.state_dict().items()}
    assert_close(values, dict(expected), atol=0, rtol=0)


def test_names_with_the_prefix_of_compile_are_loaded(saved):
    run, path = saved
    content = torch.load(path, weights_only=True)
    content["model"] = {f"_orig_mod.{name}": value for name, value in content["model"].items()}
    torch.save(content, path)
    resumed = new_run(1)
    assert load_checkpoint(path, *resumed) == 3
    assert_same(run, resumed)


def test_any_module_and_optimizer_can_be_saved(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    save_checkpoint(model, optimizer, 1, tmp_path / "c.pt")
    twin = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    twin_optimizer = torch.optim.SGD(twin.parameters(), lr=0.5)
    load_checkpoint(tmp_path / "c.pt", twin, twin_optimizer)
    assert_same((model, optimizer), (twin, twin_optimizer))


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.longdouble, np.int64])
def test_numpy_numbers_of_an_optimizer_are_saved_as_plain_ones(tmp_path, kind):
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    model(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    optimizer.param_groups[0].update(lr=kind(2), steps=[kind(3), (kind(4), 5)])
    save_checkpoint(model, optimizer, 1, tmp_path / "c.pt")
    twin = torch.optim.SGD(model.parameters(), lr=0.1)
    load_checkpoint(tmp_path / "c.pt", model, twin)
    group = twin.param_groups[0]
    assert (group["lr"], group["steps"]) == (2, [3, (4, 5)])
    assert type(group["lr"]) is (int if kind is np.int64 else float)
    states = [each.state_dict()["state"] for each in (optimizer, twin)]
    assert_close(*states, atol=0, rtol=0)
    assert type(optimizer.param_groups[0]["lr"]) is kind  # the optimizer is as it was


# Damage, interruptions and malicious files


class Interrupted(Exception):
    pass


def test_a_crash_while_writing_leaves_the_old_checkpoint(saved, monkeypatch):
    run, path = saved
    before = path.read_bytes()
    real_save = torch.save

    def dies_half_way(content, file):
        buffer = io.BytesIO()
        real_save(content, buffer)
        file.write(buffer.getvalue()[: len(buffer.getvalue()) // 2])
        raise Interrupted

    monkeypatch.setattr(torch, "save", dies_half_way)
    with pytest.raises(Interrupted):
        save_checkpoint(*run, 99, path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]  # no temporary file is left
    assert load_checkpoint(path, *new_run(1)) == 3


SAVE_FOREVER = """
import itertools, sys
from tests.checkpoints.test_checkpoint import new_run, save_checkpoint
model, optimizer = new_run(0)
for i in itertools.count():
    save_checkpoint(model, optimizer, i, sys.argv[1])
    print(i, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_leaves_a_complete_checkpoint(tmp_path):
    path = tmp_path / "checkpoint.pt"
    generator = random.Random(0)
    for _ in range(8):
        command = [sys.executable, "-c", SAVE_FOREVER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()  # the first one is saved
            time.sleep(generator.random() / 4)
            process.send_signal(signal.SIGKILL)
            last = max(map(int, process.stdout.read().split()), default=0)
        assert load_checkpoint(path, *new_run(1)) in (last, last + 1)


def test_a_file_truncated_anywhere_is_refused(saved, tmp_path):
    _, path = saved
    whole = path.read_bytes()
    model, optimizer = new_run(1)
    before = copy.deepcopy(model.state_dict())
    cut = tmp_path / "cut.pt"
    generator = random.Random(0)
    lengths = [0, 1, 4, 30, len(whole) - 1, len(whole) - 22]
    for length in lengths + generator.choices(range(len(whole)), k=60):
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.pt is not a checkpoint, or it is damaged"):
            load_checkpoint(cut, model, optimizer)
    assert_close(model.state_dict(), before, atol=0, rtol=0)


def test_a_changed_weight_is_detected(saved):
    # torch.load accepts each of these.
    _, path = saved
    whole = path.read_bytes()
    for tensor in torch.load(path, weights_only=True)["model"].values():
        position = whole.index(tensor.numpy().tobytes())
        changed = bytearray(whole)
        changed[position + 2] ^= 0x10
        torch.load(io.BytesIO(bytes(changed)), weights_only=True)
        with pytest.raises(ValueError, match=r"damaged: the checksum of .* is wrong"):
            load_checkpoint(io.BytesIO(bytes(changed)), *new_run(1))


OTHER_FILES = {
    "text": b"once upon a time",
    "empty": b"",
    "zip": None,
    "pickle": pickle.dumps({"model": {}, "optimizer": {}, "iteration": 3}),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_other_files_are_refused(tmp_path, kind):
    path = tmp_path / f"{kind}.bin"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt", "hello")
    else:
        path.write_bytes(OTHER_FILES[kind])
    with pytest.raises(ValueError, match=rf"{kind}\.bin is not a checkpoint"):
        load_checkpoint(path, *new_run(0))


@pytest.mark.parametrize(
    "content",
    [
        {},
        [1, 2],
        torch.zeros(3),
        {"model": {}, "optimizer": {}},
        {"model": {}, "optimizer": None, "iteration": 3},
        {"model": torch.zeros(1), "optimizer": {}, "iteration": 3},
        {"model": {}, "optimizer": {}, "iteration": "3"},
    ],
)
def test_torch_files_that_are_not_checkpoints_are_refused(tmp_path, content):
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r'x\.pt is not a checkpoint: it lacks "model"'):
        load_checkpoint(tmp_path / "x.pt", *new_run(0))


class Malicious:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (os.mkdir, (str(self.marker),))


def test_code_in_a_file_is_not_run(tmp_path):
    path, marker = tmp_path / "evil.pt", tmp_path / "marker"
    content = {"model": {}, "optimizer": {}, "iteration": 3, "extra": Malicious(marker)}
    torch.save(content, path)
    with pytest.raises(ValueError, match=r"evil\.pt is not a checkpoint"):
        load_checkpoint(path, *new_run(0))
    assert not marker.exists()
    torch.load(path, weights_only=False)  # the effect of the file without the check
    assert marker.exists()


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_checkpoint(tmp_path / "nowhere.pt", *new_run(0))
    with pytest.raises(ValueError, match=r"not a whole checkpoint: it has no manifest\.json"):
        load_checkpoint(tmp_path, *new_run(0))
    with pytest.raises(IsADirectoryError):
        save_checkpoint(*new_run(0), 1, tmp_path)


def test_weights_of_another_model_are_refused(saved):
    _, path = saved
    deeper = TransformerLM(ModelConfig(20, 6, 8, num_layers=3, num_heads=2, d_ff=8))
    with pytest.raises(RuntimeError, match=r"layers\.2\.attn\.q_proj\.weight"):
        load_checkpoint(path, deeper, None)
    wider = TransformerLM(ModelConfig(20, 6, 16, num_layers=2, num_heads=2, d_ff=8))
    with pytest.raises(RuntimeError, match="size mismatch"):
        load_checkpoint(path, wider, None)


def small_run(seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return model, optimizer


def flips_are_refused_or_harmless(directory, flips_of):
    """Flip bits of a small checkpoint: it is refused, or has the identical values."""
    run, path = small_run(0), directory / "small.pt"
    save_checkpoint(*run, 3, path)
    whole = path.read_bytes()
    refused = 0
    for offset, bit in flips_of(whole):
        changed = bytearray(whole)
        changed[offset] ^= 1 << bit
        other = small_run(1)
        try:
            assert load_checkpoint(io.BytesIO(bytes(changed)), *other) == 3
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017 -- it need not be raised
            assert len(str(error)) < 500  # noqa: PT017
            refused += 1
        else:
            assert_same(run, other)
    return refused


def test_a_flipped_bit_in_the_directory_of_the_archive_is_refused_or_harmless(tmp_path):
    # Checksums do not protect it: a bit of the external attributes makes torch read other values.
    def flips_of(whole):
        with zipfile.ZipFile(io.BytesIO(whole)) as archive:
            start = archive.start_dir
        entry = start
        while whole[entry : entry + 4] == b"PK\x01\x02":
            lengths = [
                int.from_bytes(whole[entry + i : entry + i + 2], "little") for i in (28, 30, 32)
            ]
            yield from (
                (entry + offset, bit) for offset in (8, 10, 38, 39, 40, 41) for bit in (0, 4)
            )
            entry += 46 + sum(lengths)
        generator = random.Random(4)
        yield from ((generator.randrange(len(whole)), generator.randrange(8)) for _ in range(200))

    assert flips_are_refused_or_harmless(tmp_path, flips_of) > 20


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_refused_or_harmless(tmp_path):
    flips_are_refused_or_harmless(
        tmp_path, lambda whole: ((offset, bit) for offset in range(len(whole)) for bit in range(8))
    )


def test_a_file_without_a_hash_is_loaded(saved):
    run, path = saved
    content = torch.load(path, weights_only=True)
    del content["sha256"]
    torch.save(content, path)
    resumed = new_run(1)
    assert load_checkpoint(path, *resumed) == 3
    assert_same(run, resumed)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(iteration=4),
        lambda content: content["optimizer"]["param_groups"][0].update(lr=0.5),
        lambda content: content["model"].popitem(),
        lambda content: content["model"]["lm_head.weight"].mul_(2),
        lambda content: content.update(sha256="0" * 64),
    ],
)
def test_a_change_of_any_value_is_refused(saved, change):
    _, path = saved
    content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, path)
    with pytest.raises(
        ValueError, match=r'checkpoint\.pt is damaged: .* remove the entry "sha256"'
    ):
        load_checkpoint(path, *new_run(1))


def test_every_kind_of_tensor_is_saved_and_loaded(tmp_path):
    model = torch.nn.Module()
    tensors = [
        torch.tensor(3), torch.empty(0), torch.ones(2, 3).t(), torch.tensor([True, False]),
        torch.ones(3, dtype=torch.bfloat16), torch.ones(2, dtype=torch.complex64),
        torch.tensor(float("nan")), torch.arange(6)[::2], torch.eye(3).to_sparse(),
    ]  # fmt: skip
    for index, tensor in enumerate(tensors):
        model.register_buffer(f"b{index}", tensor)
    model.weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([model.weight], lr=0.1)
    save_checkpoint(model, optimizer, 1, tmp_path / "c.pt")
    assert load_checkpoint(tmp_path / "c.pt", model, optimizer) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="FIFOs are those of POSIX")
def test_a_fifo_is_refused(tmp_path):
    os.mkfifo(tmp_path / "c.pt")
    with pytest.raises(ValueError, match=r"c\.pt is a FIFO"):
        load_checkpoint(tmp_path / "c.pt", *new_run(0))
    with pytest.raises(ValueError, match=r"c\.pt is a FIFO"):
        save_checkpoint(*new_run(0), 1, tmp_path / "c.pt")


def test_a_compressed_archive_is_refused(saved, tmp_path):
    # 200 MB of zeros take 200 KB.
    _, path = saved
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(path) as plain, zipfile.ZipFile(packed, "w") as archive:
        for name in plain.namelist():
            archive.writestr(name, plain.read(name), zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"packed\.pt is not a checkpoint, .* is compressed$"):
        load_checkpoint(packed, *new_run(1))


def test_a_checkpoint_of_another_optimizer_changes_nothing(saved):
    path = saved[1]
    model = new_run(3)[0]
    before = copy.deepcopy(model.state_dict())
    halves = [[*model.parameters()][:3], [*model.parameters()][3:]]
    for optimizer in (
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        AdamW([{"params": half} for half in halves], lr=0.1),
    ):
        with pytest.raises(ValueError, match="is of another optimizer"):
            load_checkpoint(path, model, optimizer)
        assert_close(model.state_dict(), before, atol=0, rtol=0)
