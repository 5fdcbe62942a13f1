"""MomentumSGD, `--optimizer.kind sgd`: torch's results, its state, its memory, and resumption."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.testing import assert_close

from cs336_basics.model import TransformerLM
from cs336_basics.training import MomentumSGD, build_optimizer
from cs336_basics.training.config import OptimizerConfig
from cs336_basics.training.fast_path import choose_fast_path
from cs336_basics.training.memory import step_memory
from tests.training.test_memory import SMALL
from tests.training.test_optimizers import noisy_network, train
from tests.training.tiny_runs import assert_a_crashed_run_resumes_exactly, changed


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("settings", [
    {"lr": 0.05},
    {"lr": 0.1, "weight_decay": 0.3},
    {"lr": 0.05, "momentum": 0.9},
    {"lr": 0.05, "momentum": 0.9, "nesterov": True},
    {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.1},
    {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.1, "nesterov": True},
])  # fmt: skip
def test_it_computes_what_torch_computes(settings):
    ours, theirs = noisy_network(), noisy_network()
    result = train(ours, MomentumSGD(ours.parameters(), **settings), 300)
    expected = train(theirs, torch.optim.SGD(theirs.parameters(), **settings), 300)
    assert_close(result, expected)
    assert not torch.equal(result[0], next(noisy_network().parameters()))


def test_the_gradient_is_not_changed():
    parameter = torch.ones(3, requires_grad=True)
    optimizer = MomentumSGD([parameter], lr=0.1, momentum=0.9, weight_decay=0.5, nesterov=True)
    parameter.grad = torch.full((3,), 2.0)
    optimizer.step()
    assert torch.equal(parameter.grad, torch.full((3,), 2.0))


def test_without_momentum_there_is_no_state():
    model = noisy_network()
    optimizer = MomentumSGD(model.parameters(), lr=0.1)
    train(model, optimizer, 2)
    assert not optimizer.state


@pytest.mark.parametrize(("settings", "message"), [
    ({"lr": -1.0}, "lr must be finite and at least 0, not -1.0"),
    ({"weight_decay": float("nan")}, "weight_decay must be finite and at least 0, not nan"),
    ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), not 1.0"),
    ({"nesterov": True}, "nesterov needs a momentum above 0"),
])  # fmt: skip
def test_bad_settings_are_refused(settings, message):
    parameter = torch.zeros(1, requires_grad=True)
    with pytest.raises(ValueError, match=message):
        MomentumSGD([parameter], **settings)
    with pytest.raises(ValueError, match=message):
        MomentumSGD([{"params": [parameter], **settings}])


def test_the_configuration_sets_every_option():
    config = OptimizerConfig(kind="sgd", momentum=0.8, weight_decay=0.2, nesterov=True)
    optimizer = build_optimizer(TransformerLM(SMALL.model), config, lr=0.3)
    (group,) = optimizer.param_groups
    assert type(optimizer) is MomentumSGD
    found = {name: group[name] for name in ("lr", "momentum", "weight_decay", "nesterov")}
    assert found == {"lr": 0.3, "momentum": 0.8, "weight_decay": 0.2, "nesterov": True}


@pytest.mark.parametrize(("momentum", "buffers"), [(0.9, 1), (0.0, 0)])
def test_the_estimate_counts_its_state(momentum, buffers):
    config = dataclasses.replace(SMALL, optimizer=OptimizerConfig(kind="sgd", momentum=momentum))
    weights = 4 * sum(p.numel() for p in TransformerLM(config.model).parameters())
    assert step_memory(config).optimizer == buffers * weights


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_a_crashed_run_resumes_exactly(tmp_path, momentum):
    optimizer = OptimizerConfig(kind="sgd", momentum=momentum, nesterov=momentum > 0)
    assert_a_crashed_run_resumes_exactly(tmp_path, changed(optimizer=optimizer))


def test_the_fast_path_says_that_it_is_not_fused():
    config = changed(optimizer=OptimizerConfig(kind="sgd"))
    chosen, lines = choose_fast_path(config, torch.device("cpu"))
    assert not chosen.fused_optimizer
    assert "fused_optimizer false: sgd has no fused implementation" in lines
