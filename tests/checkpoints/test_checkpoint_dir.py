"""Checkpoint directories: states are restored exactly, and damaged files are named."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import sys

import pytest
import torch
from safetensors import safe_open
from torch.testing import assert_close

import cs336_basics.checkpoints.checkpoint_dir as module
from cs336_basics.checkpoints.checkpoint_dir import (
    load_checkpoint_directory,
    save_checkpoint_directory,
    verify_checkpoint_directory,
)
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training import AdamW, load_checkpoint
from tests.training.small_runs import SMALL, train


def new_run(seed, kind="ours"):
    torch.manual_seed(seed)
    model = TransformerLM(SMALL)
    if kind == "ours":
        return model, AdamW(model.parameters(), lr=1e-2)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2, fused=kind == "fused")


def bytes_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.fixture
def saved(tmp_path):
    run = new_run(0)
    train(*run, 3, seed=0)
    save_checkpoint_directory(tmp_path / "step_3", *run, 3)
    return run, tmp_path / "step_3"


@pytest.mark.skipif(sys.platform == "win32", reason="has no limits to set")
def test_a_full_disk_is_an_os_error_and_leaves_nothing(saved):
    import resource

    run, path = saved
    before = bytes_of(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))  # bytes of a file
    try:
        with pytest.raises(OSError, match=r"model\.safetensors was not written"):
            save_checkpoint_directory(path.parent / "step_4", *run, 4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(path.parent) == ["step_3"]
    assert bytes_of(path) == before


def test_errors_of_torch_for_shards_become_os_and_value_errors(saved, monkeypatch):
    from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
    from torch.distributed.checkpoint.api import CheckpointException

    def fail(*arguments, **options):
        raise CheckpointException("", {1: (failure, None)})

    (model, _), path = saved
    monkeypatch.setattr(state_dict_saver, "save", fail)
    monkeypatch.setattr(state_dict_loader, "load", fail)
    failure = KeyError("gone")
    with pytest.raises(OSError, match=r"step_3 was not written: process 1: KeyError: 'gone'$"):
        module._save_shards(path, model.state_dict())
    with pytest.raises(
        ValueError, match=r"step_3 does not fit this model: process 1: KeyError: 'gone'$"
    ):
        module._load_shards(path, model, with_optimizer=False)
    failure = KeyboardInterrupt()  # torch catches this too
    with pytest.raises(KeyboardInterrupt):
        module._save_shards(path, model.state_dict())
    with pytest.raises(KeyboardInterrupt):
        module._load_shards(path, model, with_optimizer=False)


def test_a_checkpoint_holds_safetensors_and_json_only(saved):
    (model, _), path = saved
    assert sorted(os.listdir(path)) == [
        "manifest.json",
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    ]
    with safe_open(path / "model.safetensors", "pt") as file:
        assert set(file.keys()) == set(model.state_dict())
    with safe_open(path / "optimizer.safetensors", "pt") as file:
        assert "layers.1.ffn.w2.weight.exp_avg_sq" in file.keys()  # noqa: SIM118 -- not a dict
    state = json.loads((path / "state.json").read_text())
    assert state["iteration"] == 3
    assert state["optimizer"]["numbers"]["lm_head.weight"] == {"step": 3}
    assert os.listdir(path.parent) == ["step_3"]


@pytest.mark.parametrize("load", [load_checkpoint_directory, load_checkpoint])
def test_a_resumed_run_equals_an_uninterrupted_one(saved, tmp_path, load):
    run, path = saved
    resumed = new_run(1)
    assert load(path, *resumed) == 3
    save_checkpoint_directory(tmp_path / "again", *resumed, 3)
    assert bytes_of(tmp_path / "again") == bytes_of(path)
    for number, each in enumerate((run, resumed)):
        train(*each, 4, seed=1)
        save_checkpoint_directory(tmp_path / str(number), *each, 7)
    assert bytes_of(tmp_path / "0") == bytes_of(tmp_path / "1")


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("first", ["ours", "torch", "fused"])
@pytest.mark.parametrize("second", ["ours", "torch", "fused"])
def test_implementations_of_one_optimizer_load_each_others_state(tmp_path, first, second):
    run = new_run(0, first)
    train(*run, 3, seed=0)
    save_checkpoint_directory(tmp_path / "c", *run, 3)
    other = new_run(1, second)
    load_checkpoint_directory(tmp_path / "c", *other)
    for each in (run, other):
        train(*each, 3, seed=1)
    assert_close(dict(run[0].state_dict()), dict(other[0].state_dict()))


def test_settings_of_parameter_groups_are_restored(tmp_path):
    model, _ = new_run(0)
    weights = list(model.parameters())

    def optimizer():
        return AdamW([{"params": weights[:3], "lr": 0.5, "betas": (0.1, 0.2)}, *grouped(weights)])

    def grouped(weights):
        return [{"params": weights[3:]}]

    one = optimizer()
    save_checkpoint_directory(tmp_path / "c", model, one, 0)
    one.param_groups[0]["lr"] = 0.25
    two = optimizer()
    two.param_groups[0].update(lr=7.0, betas=(0.0, 0.0))
    load_checkpoint_directory(tmp_path / "c", model, two)
    assert two.param_groups[0]["lr"] == 0.5
    assert two.param_groups[0]["betas"] == (0.1, 0.2)
    with pytest.raises(ValueError, match="other groups of parameters"):
        load_checkpoint_directory(tmp_path / "c", model, AdamW(weights))


def test_any_module_and_optimizer_can_be_saved(tmp_path):
    def pair():
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    model, optimizer = pair()
    model(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    save_checkpoint_directory(tmp_path / "c", model, optimizer, 1)
    twin = pair()
    load_checkpoint_directory(tmp_path / "c", *twin)
    save_checkpoint_directory(tmp_path / "d", *twin, 1)
    assert bytes_of(tmp_path / "c") == bytes_of(tmp_path / "d")


def test_tied_weights_are_saved_once(tmp_path):
    def tied():
        model, _ = new_run(0)
        model.lm_head.weight = model.token_embeddings.weight
        return model, AdamW(model.parameters())

    model, optimizer = tied()
    train(model, optimizer, 2, seed=0)
    save_checkpoint_directory(tmp_path / "c", model, optimizer, 2)
    other = tied()
    load_checkpoint_directory(tmp_path / "c", *other)
    assert other[0].lm_head.weight is other[0].token_embeddings.weight
    assert_close(dict(other[0].state_dict()), dict(model.state_dict()), atol=0, rtol=0)


@pytest.mark.parametrize("saved_compiled", [False, True])
@pytest.mark.parametrize("loaded_compiled", [False, True])
def test_checkpoints_of_compiled_models_have_plain_names(tmp_path, saved_compiled, loaded_compiled):
    def maybe_compiled(run, compiled):
        model, optimizer = run
        if compiled:
            model.layers[1] = torch.compile(model.layers[1])
            model = torch.compile(model)
        return model, optimizer

    plain = new_run(0)
    train(*plain, 2, seed=0)
    expected = copy.deepcopy(plain[0].state_dict())
    save_checkpoint_directory(tmp_path / "c", *maybe_compiled(plain, saved_compiled), 2)
    with safe_open(tmp_path / "c" / "model.safetensors", "pt") as file:
        assert set(file.keys()) == set(expected)
    model, optimizer = maybe_compiled(new_run(1), loaded_compiled)
    load_checkpoint_directory(tmp_path / "c", model, optimizer)
    values = {name.replace("_orig_mod.", ""): v for name, v in model.state_dict().items()}
    assert_close(values, dict(expected), atol=0, rtol=0)


# Damage and interruptions


@pytest.mark.parametrize("step", ["sync_file", "_write_manifest", "write_json"])
def test_a_crash_while_writing_leaves_nothing(tmp_path, monkeypatch, step):
    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, step, crash)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint_directory(tmp_path / "c", *new_run(0), 1)
    assert os.listdir(tmp_path) == []


def test_files_left_by_a_killed_process_are_replaced(tmp_path):
    (tmp_path / ".c.tmp").mkdir()
    (tmp_path / ".c.tmp" / "model.safetensors").write_bytes(b"half")
    save_checkpoint_directory(tmp_path / "c", *new_run(0), 1)
    assert os.listdir(tmp_path) == ["c"]


def test_a_checkpoint_is_never_overwritten(saved):
    run, path = saved
    before = bytes_of(path)
    with pytest.raises(FileExistsError, match="step_3"):
        save_checkpoint_directory(path, *run, 3)
    assert bytes_of(path) == before


def test_the_manifest_is_written_last(tmp_path, monkeypatch):
    written = []
    real = module.write_json
    monkeypatch.setattr(
        module, "write_json", lambda path, content: (written.append(path.name), real(path, content))
    )
    save_checkpoint_directory(tmp_path / "c", *new_run(0), 1)
    assert written == ["state.json", "manifest.json"]


NAMES = ["manifest.json", "state.json", "model.safetensors", "optimizer.safetensors"]


@pytest.mark.parametrize("name", NAMES)
def test_damage_anywhere_is_named_and_the_model_is_unchanged(saved, tmp_path, name):
    _, path = saved
    model, optimizer = new_run(1)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    whole = (path / name).read_bytes()
    generator = random.Random(0)
    damages = [b"", whole[:-1], whole[: len(whole) // 2], None]
    for _ in range(20):
        changed = bytearray(whole)
        changed[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
        damages.append(bytes(changed))
    for damage in damages:
        copied = tmp_path / "copy"
        shutil.copytree(path, copied)
        if damage is None:
            (copied / name).unlink()
        else:
            (copied / name).write_bytes(damage)
        if name == "manifest.json" and harmless(damage, whole):
            load_checkpoint_directory(copied, *new_run(2))
        else:
            with pytest.raises(ValueError, match="copy is ") as error:
                load_checkpoint_directory(copied, model, optimizer)
            assert "\n" not in str(error.value)
        shutil.rmtree(copied)
    after = (model.state_dict(), optimizer.state_dict())
    assert_close(dict(after[0]), dict(before[0]), atol=0, rtol=0)
    assert after[1] == before[1]


def harmless(damage, whole):
    """White space at the end, or a bit in the number of the format, changes no content."""
    try:
        return json.loads(damage)["files"] == json.loads(whole)["files"]
    except (ValueError, TypeError, KeyError):
        return False


@pytest.mark.parametrize(
    "state",
    [
        [],
        {},
        {"format": 1, "iteration": 3},
        {"format": 1, "iteration": "3", "optimizer": {"param_groups": [], "numbers": {}}},
        {"format": 1, "iteration": 3, "optimizer": {"param_groups": {}, "numbers": {}}},
        {"format": 99, "iteration": 3, "optimizer": {"param_groups": [], "numbers": {}}},
    ],
)
def test_a_malformed_state_is_refused(saved, state):
    run, path = saved
    (path / "state.json").write_text(json.dumps(state))
    module._write_manifest(path)  # complete, but wrong
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["files"]["manifest.json"]
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"state\.json|format"):
        load_checkpoint_directory(path, *run)


def test_a_manifest_cannot_name_files_elsewhere(saved):
    _, path = saved
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["../../etc/passwd"] = {"bytes": 1, "sha256": ""}
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"etc/passwd"):
        verify_checkpoint_directory(path)


def test_missing_and_other_directories_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_checkpoint_directory(tmp_path / "nowhere", *new_run(0))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"other is not a whole checkpoint: it has no manifest"):
        load_checkpoint(tmp_path / "other", *new_run(0))


def test_weights_of_another_model_are_refused(saved):
    _, path = saved
    wider = TransformerLM(ModelConfig(20, 6, 16, num_layers=2, num_heads=2, d_ff=8))
    with pytest.raises(RuntimeError, match="size mismatch"):
        load_checkpoint_directory(path, wider, None)


def test_state_that_json_cannot_hold_is_refused(tmp_path):
    model, optimizer = new_run(0)
    optimizer.state[model.lm_head.weight]["odd"] = object()
    with pytest.raises(TypeError, match="odd"):
        save_checkpoint_directory(tmp_path / "c", model, optimizer, 1)
    assert os.listdir(tmp_path) == []
    stranger = AdamW([torch.nn.Parameter(torch.zeros(2))])
    with pytest.raises(ValueError, match="not the model's"):
        save_checkpoint_directory(tmp_path / "c", model, stranger, 1)


@pytest.mark.parametrize("dropped", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_file_that_the_manifest_does_not_list_is_refused(saved, dropped):
    # It could have been changed.
    _, path = saved
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["files"][dropped]
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"step_3 is .*damaged: manifest\.json "):
        load_checkpoint_directory(path, *new_run(1))


@pytest.mark.parametrize("name", ["shard-1.safetensors", "model.safetensors.index.json"])
def test_a_file_that_was_added_is_refused(saved, name):
    _, path = saved
    (path / name).write_bytes((path / "model.safetensors").read_bytes())
    with pytest.raises(ValueError, match=rf"manifest\.json does not list {name}"):
        load_checkpoint_directory(path, *new_run(1))


def rewrite_state(path, change):
    """Change state.json, and the manifest accordingly."""
    state = json.loads((path / "state.json").read_text())
    change(state)
    (path / "state.json").write_text(json.dumps(state))
    (path / "manifest.json").unlink()
    module._write_manifest(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.update(iteration=True),
        lambda state: state.update(iteration=-1),
        lambda state: state.update(iteration=10**100),
        lambda state: state["optimizer"].update(param_groups=[7]),
        lambda state: state["optimizer"].update(numbers={"lm_head.weight": 7}),
        lambda state: state["optimizer"].update(numbers={"x" * 10**5: {"step": 3}}),
        lambda state: state["optimizer"]["param_groups"][0].update(lr="fast"),
        lambda state: state["optimizer"]["param_groups"][0].update(betas=[0.5]),
        lambda state: state["optimizer"]["param_groups"][0].update(betas=["a", "b"]),
        lambda state: state["optimizer"]["param_groups"][0].update(params={}),
    ],
)
def test_odd_values_in_a_state_are_refused_and_change_nothing(saved, change):
    _, path = saved
    rewrite_state(path, change)
    model, optimizer = new_run(1)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    with pytest.raises(ValueError, match="step_3") as caught:
        load_checkpoint_directory(path, model, optimizer)
    assert len(str(caught.value)) < 400 + len(str(path))
    assert_close(dict(model.state_dict()), dict(before[0]), atol=0, rtol=0)
    assert optimizer.state_dict() == before[1]


def flip(path, offset, bit):
    content = bytearray(path.read_bytes())
    content[offset] ^= 1 << bit
    path.write_bytes(content)


def flips_are_refused_or_harmless(saved, tmp_path, offsets_of):
    run, path = saved
    expected = [run[0].state_dict(), run[1].state_dict()]
    for name in NAMES:
        whole = (path / name).read_bytes()
        for offset, bit in offsets_of(len(whole)):
            flip(path / name, offset, bit)
            other = new_run(1)
            try:
                assert load_checkpoint_directory(path, *other) == 3
            except ValueError as error:
                assert "\n" not in str(error)  # noqa: PT017 -- it need not be raised
            else:
                assert_close(dict(other[0].state_dict()), dict(expected[0]), atol=0, rtol=0)
                assert_close(other[1].state_dict(), expected[1], atol=0, rtol=0)
            (path / name).write_bytes(whole)


def test_flipped_bits_are_refused_or_harmless(saved, tmp_path):
    generator = random.Random(3)
    flips_are_refused_or_harmless(
        saved,
        tmp_path,
        lambda size: [(generator.randrange(size), generator.randrange(8)) for _ in range(40)],
    )


@pytest.mark.slow
def test_a_flipped_bit_in_any_byte_is_refused_or_harmless(saved, tmp_path):
    flips_are_refused_or_harmless(
        saved, tmp_path, lambda size: ((offset, offset % 8) for offset in range(size))
    )


def test_a_checkpoint_may_have_a_long_name(tmp_path):
    path = tmp_path / ("é" * 127)
    save_checkpoint_directory(path, *new_run(0), 1)
    assert load_checkpoint_directory(path, *new_run(1)) == 1
    assert os.listdir(tmp_path) == [path.name]
