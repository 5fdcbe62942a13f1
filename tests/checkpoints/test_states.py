"""States are restored exactly, and only into a matching model and optimizer."""

from __future__ import annotations

import copy
import io
import random

import pytest
import torch
from torch.testing import assert_close

from cs336_basics.checkpoints.torch_file import load_checkpoint
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training import AdamW
from tests.checkpoints.both_formats import (
    FORMATS,
    OPTIMIZERS,
    SAME,
    assert_same,
    linear_run,
    new_run,
    state_of,
    take_step,
)
from tests.training.small_runs import train

formats = pytest.mark.parametrize(("save", "load"), FORMATS.values(), ids=FORMATS)


@formats
def test_a_restored_run_equals_an_uninterrupted_one(tmp_path, save, load):
    run, resumed = new_run(0, steps=3), new_run(1)
    save(tmp_path / "c", *run, 3)
    assert load(tmp_path / "c", *resumed) == 3
    assert_same(run, resumed)
    for each in (run, resumed):
        train(*each, 4, seed=1)
    assert_same(run, resumed)


@formats
def test_weights_are_restored_without_an_optimizer(tmp_path, save, load):
    run, (model, _) = new_run(0, steps=3), new_run(1)
    save(tmp_path / "c", *run, 3)
    assert load(tmp_path / "c", model, None) == 3
    assert_close(model.state_dict(), run[0].state_dict(), atol=0, rtol=0)


@formats
@pytest.mark.parametrize("saved_compiled", [False, True])
@pytest.mark.parametrize("loaded_compiled", [False, True])
def test_compiled_models_have_plain_names(tmp_path, save, load, saved_compiled, loaded_compiled):
    def maybe_compiled(run, compiled):
        # Both calls to `torch.compile` add `_orig_mod.` to names. Nothing is compiled before the
        # model is first called.
        model, optimizer = run
        if compiled:
            model.layers[1] = torch.compile(model.layers[1])
            model = torch.compile(model)
        return model, optimizer

    run, other = new_run(0, steps=2), new_run(1)
    expected = copy.deepcopy(run[0].state_dict())
    save(tmp_path / "c", *maybe_compiled(run, saved_compiled), 2)
    load(tmp_path / "c", *maybe_compiled(other, loaded_compiled))
    values = {
        name.replace("_orig_mod.", ""): value for name, value in other[0].state_dict().items()
    }
    assert_close(values, dict(expected), atol=0, rtol=0)


@formats
def test_any_module_and_optimizer_can_be_saved(tmp_path, save, load):
    def pair():
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    model, optimizer = pair()
    model(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    twin = pair()
    save(tmp_path / "c", model, optimizer, 1)
    load(tmp_path / "c", *twin)
    assert_same((model, optimizer), twin)


@formats
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("steps", [0, 3])
def test_a_state_is_restored_by_the_same_algorithm_only(tmp_path, save, load, kind, steps):
    save(tmp_path / "c", *linear_run(kind, steps), 3)
    for other in OPTIMIZERS:
        run = linear_run(other, steps=0)
        if other == kind or {other, kind} <= SAME:
            load(tmp_path / "c", *run)
            take_step(*run)
            continue
        before = state_of(run)
        with pytest.raises(ValueError, match="saved by a different optimizer than"):
            load(tmp_path / "c", *run)
        assert repr(state_of(run)) == repr(before)


@formats
@pytest.mark.parametrize(
    ("saved", "restored"),
    [*((kind, kind) for kind in OPTIMIZERS), ("AdamW", "torch AdamW"), ("fused AdamW", "AdamW")],
)
def test_the_next_steps_equal_an_uninterrupted_run(tmp_path, save, load, saved, restored):
    run, other = linear_run(saved), linear_run(restored, steps=0)
    save(tmp_path / "c", *run, 3)
    load(tmp_path / "c", *other)
    for _ in range(50):
        take_step(*run)
        take_step(*other)
    # Storing the step as float32 would change the seventh digit.
    assert_close(other[0].weight, run[0].weight, rtol=1e-12, atol=1e-14)


@formats
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (ModelConfig(20, 6, 8, num_layers=3, num_heads=2, d_ff=8), r"'layers\.2.* is missing"),
        (ModelConfig(20, 6, 8, num_layers=1, num_heads=2, d_ff=8), r"unexpected 'layers\.1"),
        (ModelConfig(20, 6, 16, num_layers=2, num_heads=2, d_ff=8), r"of shape \(20, 16\), got"),
    ],
)
def test_weights_of_a_different_model_are_refused(tmp_path, save, load, model, reason):
    save(tmp_path / "c.x", *new_run(0), 3)
    other = TransformerLM(model)
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(ValueError, match=rf"c\.x .* different model: .*{reason}"):
        load(tmp_path / "c.x", other, None)
    assert_close(other.state_dict(), before, atol=0, rtol=0)


@formats
def test_weights_of_a_different_dtype_are_refused(tmp_path, save, load):
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    model.weight = torch.nn.Parameter(torch.ones(2, 2, dtype=torch.int64), requires_grad=False)
    save(tmp_path / "c", model, AdamW([model.bias]), 3)
    with pytest.raises(ValueError, match=r"weight must be .*got torch\.int64"):
        load(tmp_path / "c", other, None)


@formats
def test_a_file_that_is_cut_off_is_refused(tmp_path, save, load):
    path, run = tmp_path / "c.x", new_run(1)
    save(path, *new_run(0, steps=3), 3)
    whole, before = path.read_bytes(), state_of(run)
    chosen = random.Random(0).choices(range(len(whole)), k=30)
    for length in [0, 1, 4, 8, 9, 30, 100, -1, -22, *chosen]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"c\.x is not a checkpoint") as error:
            load(path, *run)
        assert "\n" not in str(error.value)
    assert_close(state_of(run), before, atol=0, rtol=0)


# States that no optimizer would save


def saved_with(change, kind="AdamW"):
    """Return a checkpoint with a changed optimizer state, as a file object."""
    model, optimizer = linear_run(kind)
    content = {"model": model.state_dict(), "optimizer": copy.deepcopy(optimizer.state_dict())}
    change(content["optimizer"])
    file = io.BytesIO()
    torch.save({**content, "iteration": 3}, file)
    return file


@pytest.mark.parametrize("indices", [7, [0, 1], [[0]]])
def test_invalid_parameter_groups_are_refused(indices):
    file = saved_with(lambda state: state["param_groups"][0].update(params=indices))
    run = linear_run("AdamW", steps=1)
    before = state_of(run)
    with pytest.raises(ValueError, match="file object"):
        load_checkpoint(file, *run)
    assert repr(state_of(run)) == repr(before)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("step", "3"), ("step", -1), ("step", float("nan")), ("step", torch.ones(2)),
        ("step", 2**63), ("exp_avg", 0.5), ("exp_avg", torch.ones(2)),
        ("exp_avg", torch.ones(2, 3, dtype=torch.int64)),
    ],
)  # fmt: skip
def test_an_invalid_value_in_the_state_of_a_parameter_is_refused(key, value):
    file = saved_with(lambda state: state["state"][0].update({key: value}))
    with pytest.raises(ValueError, match=f"the optimizer's {key} must be"):
        load_checkpoint(file, *linear_run("AdamW"))


@pytest.mark.parametrize("change", [torch.Tensor.to_sparse, lambda value: value.to("meta")])
@pytest.mark.parametrize("part", ["weights", "moment", "step"])
def test_a_tensor_without_a_value_for_each_element_is_refused(change, part):
    model, optimizer = linear_run("AdamW", steps=1)
    weights, saved = dict(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    if part == "weights":
        weights["weight"] = change(weights["weight"])
    else:
        key = "step" if part == "step" else "exp_avg"
        saved["state"][0][key] = change(torch.as_tensor(saved["state"][0][key]))
    file = io.BytesIO()
    torch.save({"model": weights, "optimizer": saved, "iteration": 3}, file)
    run = linear_run("AdamW")
    before = repr(state_of(run))
    with pytest.raises(ValueError, match="must be"):
        load_checkpoint(file, *run)
    assert repr(state_of(run)) == before


@pytest.mark.parametrize(
    "setting",
    [{"lr": "x"}, {"lr": None}, {"lr": -1}, {"lr": float("nan")}, {"lr": 10**400},
     {"betas": (1, 2)}, {"betas": None}, {"params": [1, 0]}, {"lr": torch.ones((), device="meta")}],
)  # fmt: skip
def test_an_invalid_setting_of_a_group_is_refused(setting):
    file = saved_with(lambda state: state["param_groups"][0].update(setting))
    run = linear_run("AdamW", steps=1)
    before = repr(state_of(run))
    with pytest.raises(ValueError, match="was saved by a different optimizer"):
        load_checkpoint(file, *run)
    assert repr(state_of(run)) == before


def change_flag(saved):
    saved["param_groups"][0]["muon"] = False


def use_other_state(saved):
    momentum = saved["state"][0]["momentum_buffer"]
    saved["state"][0] = {"step": 3, "exp_avg": momentum, "exp_avg_sq": momentum}


@pytest.mark.parametrize("change", [change_flag, use_other_state])
def test_a_muon_group_is_restored_as_a_muon_group_only(change):
    run = linear_run("Muon")
    before = repr(state_of(run))
    with pytest.raises(ValueError, match="was saved by a different optimizer"):
        load_checkpoint(saved_with(change, "Muon"), *run)
    assert repr(state_of(run)) == before


@pytest.mark.parametrize(
    "state",
    [{}, {"param_groups": 7, "state": {}}, {"param_groups": [7], "state": {}},
     {"param_groups": [{"params": [0]}], "state": 7},
     {"param_groups": [{"params": [0]}], "state": {0: 7}}],
)  # fmt: skip
def test_an_invalid_state_is_refused(state):
    def replace(saved):
        saved.clear()
        saved.update(state)

    with pytest.raises(ValueError, match=r"the file object (is not|was saved by)"):
        load_checkpoint(saved_with(replace), *linear_run("AdamW"))
