"""A checkpoint of another optimizer is refused by both formats, before anything is changed."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch.nn.functional import linear

from cs336_basics.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from cs336_basics.checkpoints.checkpoint_dir import (
    load_checkpoint_directory,
    save_checkpoint_directory,
)
from cs336_basics.training.optimizers import SGD, AdamW, MomentumSGD, Muon

OPTIMIZERS = {
    "SGD": lambda p: SGD(p),
    "MomentumSGD": lambda p: MomentumSGD(p, momentum=0.9),
    "AdamW": lambda p: AdamW(p),
    "Muon": lambda p: Muon([{"params": list(p), "muon": True}]),
    "torch AdamW": lambda p: torch.optim.AdamW(p),
    "torch Adam": lambda p: torch.optim.Adam(p, weight_decay=0.1),
    "torch SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}
SAME = [{"AdamW", "torch AdamW"}, {"MomentumSGD", "torch SGD"}]


def trained(kind, steps=3):
    torch.manual_seed(5)
    model = torch.nn.Linear(3, 2, bias=False).double()
    optimizer = OPTIMIZERS[kind](model.parameters())
    for _ in range(steps):
        step(model, optimizer)
    return model, optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    x = torch.arange(12, dtype=torch.float64).reshape(4, 3) / 7
    torch.autograd.backward(linear(x, model.weight).square().mean())
    optimizer.step()


def saved_and_loader(format_, path, model, optimizer):
    if format_ == "file":
        file = io.BytesIO()
        save_checkpoint(model, optimizer, 3, file)
        return lambda *into: load_checkpoint(file, *into)
    save_checkpoint_directory(path / "step", model, optimizer, 3)
    return lambda *into: load_checkpoint_directory(path / "step", *into)


@pytest.mark.parametrize("format_", ["file", "directory"])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_state_is_restored_by_the_same_algorithm_only(kind, format_, tmp_path):
    load = saved_and_loader(format_, tmp_path, *trained(kind))
    for other in OPTIMIZERS:
        model, optimizer = trained(other, steps=0)
        before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        if other == kind or {other, kind} in SAME:
            assert load(model, optimizer) == 3
            step(model, optimizer)
            continue
        with pytest.raises(ValueError, match="is of another optimizer than"):
            load(model, optimizer)
        after = model.state_dict(), optimizer.state_dict()
        assert repr(after) == repr(before)


@pytest.mark.parametrize("format_", ["file", "directory"])
@pytest.mark.parametrize("pair", SAME + [{x} for x in OPTIMIZERS])
def test_the_next_steps_are_those_of_a_run_that_was_not_stopped(pair, format_, tmp_path):
    kinds = sorted(pair)
    for number, (saved, restored) in enumerate({(kinds[0], kinds[-1]), (kinds[-1], kinds[0])}):
        (path := tmp_path / str(number)).mkdir()
        model, optimizer = trained(saved)
        other_model, other = trained(restored, steps=0)
        saved_and_loader(format_, path, model, optimizer)(other_model, other)
        for _ in range(50):
            step(model, optimizer)
            step(other_model, other)
        # In float64: a count of steps in float32 would show after seven digits.
        torch.testing.assert_close(other_model.weight, model.weight, rtol=1e-12, atol=1e-14)


def test_an_optimizer_that_was_never_used_is_restored():
    for kind in OPTIMIZERS:
        file = io.BytesIO()
        save_checkpoint(*trained(kind, steps=0), 0, file)
        model, optimizer = trained(kind, steps=0)
        assert load_checkpoint(file, model, optimizer) == 0
        step(model, optimizer)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lr", "x"), ("lr", float("nan")), ("lr", True), ("betas", 5), ("betas", (0.9,)),
        ("betas", (0.9, "x")), ("betas", (5.0, 0.9)), ("eps", -1.0),
        ("eps", [1]), ("params", 7), ("params", [0, 1]),
    ],
)  # fmt: skip
def test_a_setting_of_the_wrong_type_is_refused(key, value):
    model, optimizer = trained("AdamW")
    state = optimizer.state_dict()
    state["param_groups"][0][key] = value
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": state, "iteration": 3}, file)
    with pytest.raises(ValueError, match=rf"{key}|groups have|no state"):
        load_checkpoint(file, *trained("AdamW"))


@pytest.mark.parametrize(
    ("key", "value"),
    [("step", "3"), ("step", -1), ("step", True), ("exp_avg", 0.5), ("exp_avg", torch.ones(2))],
)
def test_a_kept_value_that_does_not_fit_is_refused(key, value):
    model, optimizer = trained("AdamW")
    state = copy.deepcopy(optimizer.state_dict())
    state["state"][0][key] = value
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": state, "iteration": 3}, file)
    with pytest.raises(ValueError, match=f"the optimizer's {key} is"):
        load_checkpoint(file, *trained("AdamW"))


@pytest.mark.parametrize("iteration", [True, -1, 2**63, 1.0])
def test_an_iteration_that_is_no_number_of_steps_is_refused(iteration):
    model, optimizer = trained("AdamW")
    file = io.BytesIO()
    content = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**content, "iteration": iteration}, file)
    with pytest.raises(ValueError, match="not a checkpoint"):
        load_checkpoint(file, model, optimizer)


def test_a_small_file_cannot_hold_a_huge_tensor():
    model, optimizer = trained("AdamW")
    file = io.BytesIO()
    huge = torch.zeros(1).expand(1 << 50)  # one element, of which the others are copies
    content = {"optimizer": optimizer.state_dict(), "iteration": 3, "sha256": "x"}
    torch.save({"model": {"weight": huge}, **content}, file)
    assert file.tell() < 10_000
    with pytest.raises(ValueError, match="takes 4,503,599,627,370,496 bytes, and 4 are stored"):
        load_checkpoint(file, model, optimizer)
