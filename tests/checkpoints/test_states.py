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
from tests.errors import rejects
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
        with rejects(None, tmp_path / "c"):
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
    ("model", "named"),
    [
        (ModelConfig(20, 6, 8, num_layers=3, num_heads=2, d_ff=8), "'layers.2."),
        (ModelConfig(20, 6, 8, num_layers=1, num_heads=2, d_ff=8), "'layers.1."),
        (ModelConfig(20, 6, 16, num_layers=2, num_heads=2, d_ff=8), "(20, 16)"),
    ],
)
def test_weights_of_a_different_model_are_refused(tmp_path, save, load, model, named):
    save(tmp_path / "c.x", *new_run(0), 3)
    other = TransformerLM(model)
    before = copy.deepcopy(other.state_dict())
    with rejects(None, "c.x", named):
        load(tmp_path / "c.x", other, None)
    assert_close(other.state_dict(), before, atol=0, rtol=0)


@formats
def test_weights_of_a_different_dtype_are_refused(tmp_path, save, load):
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    model.weight = torch.nn.Parameter(torch.ones(2, 2, dtype=torch.int64), requires_grad=False)
    save(tmp_path / "c", model, AdamW([model.bias]), 3)
    with rejects(None, "torch.int64"):
        load(tmp_path / "c", other, None)


@formats
def test_a_file_that_is_cut_off_is_refused(tmp_path, save, load):
    path, run = tmp_path / "c.x", new_run(1)
    save(path, *new_run(0, steps=3), 3)
    whole, before = path.read_bytes(), state_of(run)
    chosen = random.Random(0).choices(range(len(whole)), k=30)
    for length in [0, 1, 4, 8, 9, 30, 100, -1, -22, *chosen]:
        path.write_bytes(whole[:length])
        with rejects(None, "c.x") as error:
            load(path, *run)
        assert "\n" not in str(error.value)
    assert_close(state_of(run), before, atol=0, rtol=0)


# States that no optimizer would save


def saved_with(change, kind="AdamW"):
    """Return a changed checkpoint as a file object."""
    model, optimizer = linear_run(kind)
    content = {"model": model.state_dict(), "optimizer": copy.deepcopy(optimizer.state_dict())}
    change(content)
    file = io.BytesIO()
    torch.save({**content, "iteration": 3}, file)
    return file


def group(name, value):
    return lambda content: content["optimizer"]["param_groups"][0].update({name: value})


def value_of(key, value):
    return lambda content: content["optimizer"]["state"][0].update({key: value})


def whole(state):
    return lambda content: content.update({"optimizer": state})


def converted(key, convert):
    """Convert a weight or a value of the state to a tensor without a value for each element."""

    def change(content):
        values = content["model"] if key == "weight" else content["optimizer"]["state"][0]
        values[key] = convert(torch.as_tensor(values[key]))

    return change


def use_other_state(content):
    state = content["optimizer"]["state"]
    moment = state[0]["momentum_buffer"]
    state[0] = {"step": 3, "exp_avg": moment, "exp_avg_sq": moment}


NUMBERS = ("3", -1, float("nan"), torch.ones(2), 2**63)
MOMENTS = (0.5, torch.ones(2), torch.ones(2, 3, dtype=torch.int64))
RATES = ("x", None, -1, float("nan"), 10**400, torch.ones((), device="meta"))
GROUPS = {"param_groups": [{"params": [0]}]}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        *(("AdamW", value_of("step", each)) for each in NUMBERS),
        *(("AdamW", value_of("exp_avg", each)) for each in MOMENTS),
        *(
            ("AdamW", converted(key, convert))
            for key in ("weight", "exp_avg", "step")
            for convert in (torch.Tensor.to_sparse, lambda value: value.to("meta"))
        ),
        *(("AdamW", group("lr", each)) for each in RATES),
        *(("AdamW", group("betas", each)) for each in ((1, 2), None)),
        *(("AdamW", group("params", each)) for each in (7, [0, 1], [1, 0], [[0]])),
        ("Muon", group("muon", False)),
        ("Muon", group("row_beta", 0.9)),
        ("Muon", value_of("row_squares", torch.ones(2, 1))),
        ("Muon", use_other_state),
        ("AdamW", whole({})),
        ("AdamW", whole({"param_groups": 7, "state": {}})),
        ("AdamW", whole({"param_groups": [7], "state": {}})),
        ("AdamW", whole({**GROUPS, "state": 7})),
        ("AdamW", whole({**GROUPS, "state": {0: 7}})),
    ],
)
def test_a_state_that_no_optimizer_saves_is_refused(kind, change):
    run = linear_run(kind, steps=1)
    before = repr(state_of(run))
    with rejects(None):
        load_checkpoint(saved_with(change, kind), *run)
    assert repr(state_of(run)) == before


def test_a_checkpoint_without_the_settings_of_newer_versions_is_restored():
    run = linear_run("Muon", steps=1)
    load_checkpoint(
        saved_with(lambda content: content["optimizer"]["param_groups"][0].pop("row_beta"), "Muon"),
        *run,
    )
    take_step(*run)
    assert torch.equal(run[0].weight, linear_run("Muon", steps=4)[0].weight)
