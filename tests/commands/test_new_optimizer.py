"""A new optimizer needs a settings class with its update rule, and an entry in OPTIMIZERS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
import torch

from cs336_basics._support.validation import option
from cs336_basics.checkpoints.checkpoint import read_checkpoint
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.model.shapes import ROLES
from cs336_basics.training.config_files import load_config
from cs336_basics.training.optimizers import OPTIMIZERS, AdamWSettings, OptimizerSettings
from tests.commands.small_run import command
from tests.errors import rejects
from tests.training.tiny_runs import losses_of, make

# What the new file would contain.


@dataclass(frozen=True)
class LionSettings(OptimizerSettings):
    """Settings of Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms")."""

    decayed = ("matrix", "embedding", "head")

    kind: Literal["lion"] = option("Lion for all weights", "lion")
    momentum: float = option("decay rate of the average of past gradients", 0.99, ge=0, lt=1)
    weight_decay: float = option("decoupled weight decay", 0.1, ge=0)

    def build(self, model, *, lr=1e-3, precision="float32"):
        from cs336_basics.training.optimizers import GroupOptimizer

        settings = {"lr": lr, "momentum": self.momentum, "weight_decay": self.weight_decay}
        return GroupOptimizer(self.groups(model, {ROLES: {}}), update_lion, settings)


def update_lion(parameters, states, group):
    for parameter in parameters:
        average = states[parameter].setdefault("average", torch.zeros_like(parameter))
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.sub_(group["lr"] * torch.lerp(average, parameter.grad, 0.1).sign())
        average.lerp_(parameter.grad, 1 - group["momentum"])


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(OPTIMIZERS, "lion", LionSettings)  # the new line


@pytest.mark.usefixtures("registered")
def test_a_run_trains_with_a_new_optimizer_and_resumes(tiny, capsys):
    with open(tiny, "a", encoding="utf-8") as file:
        file.write("optimizer: {kind: lion, momentum: 0.98, max_grad_norm: 0.5}\n")
    words = ["--config", tiny, "--schedule.max-learning-rate", "3e-3"]
    assert command("train")([*words, "--run-dir", "whole"]) == 0
    config = load_config(RunDirectory("whole").config)
    assert config.optimizer == LionSettings(momentum=0.98, max_grad_norm=0.5)
    losses = losses_of("whole", "train_loss")
    assert losses[-1] < losses[0]
    first = RunDirectory("whole").checkpoint(6)
    again = ["--resume", "whole", "--resume-from", str(first)]
    assert command("train")(again) == 0
    assert losses_of("whole", "train_loss") == losses
    # The checkpoint knows the optimizer that saved it.
    other = make("other", config).model
    optimizer = AdamWSettings().build(other)
    with rejects(None, "AdamW", "update_lion"):
        read_checkpoint(first, other, optimizer)
    capsys.readouterr()
    assert command("train")(["--help-all"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "lion: Lion for all weights" in page
    assert "with lion, decay rate of the average of past gradients" in page


def test_only_the_declared_roles_decay():
    model = make("run").model
    decayed, plain = LionSettings(weight_decay=0.3).build(model).param_groups
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.3, 0.0)
    assert {parameter.ndim for parameter in decayed["params"]} == {2}
    assert {parameter.ndim for parameter in plain["params"]} == {1}
    assert len(decayed["params"]) + len(plain["params"]) == len(list(model.parameters()))
