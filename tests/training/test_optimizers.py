"""Optimizers: comparisons with torch and with their formulas, and their interface."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch.testing import assert_close

from cs336_basics.model import TransformerLM
from cs336_basics.training import SGD, AdamW, MomentumSGD, Muon
from cs336_basics.training.optimizers import AdamWSettings, MuonSettings, SGDSettings
from cs336_basics.training.optimizers.muon import orthogonalize
from tests.errors import rejects
from tests.training.small_runs import SMALL

ALL = [AdamW, SGD, MomentumSGD, Muon]


def noisy_network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def train(model, optimizer, steps):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(16, 6, generator=generator)
        optimizer.zero_grad()
        (model(x) - x[:, :3].sin()).square().mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


# Comparisons with torch


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("ours", "theirs", "settings"),
    [
        (AdamW, torch.optim.AdamW, {}),
        (AdamW, torch.optim.AdamW, {"lr": 1e-2, "betas": (0.9, 0.95), "weight_decay": 0.1}),
        (AdamW, torch.optim.AdamW, {"betas": (0.0, 0.0), "eps": 1e-3, "weight_decay": 0.0}),
        (AdamW, torch.optim.AdamW, {"lr": 3e-2, "betas": (0.5, 0.999), "weight_decay": 0.5}),
        (Muon, torch.optim.AdamW, {"lr": 1e-2, "betas": (0.8, 0.9), "weight_decay": 0.2}),
        (MomentumSGD, torch.optim.SGD, {"lr": 0.05}),
        (MomentumSGD, torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.3}),
        (MomentumSGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
        (MomentumSGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
        (
            MomentumSGD,
            torch.optim.SGD,
            {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.1, "nesterov": True},
        ),
        (
            AdamW,
            torch.optim.AdamW,
            {
                "lr": 1e-2,
                "matrices": {"weight_decay": 0.5, "betas": (0.8, 0.9)},
                "biases": {"weight_decay": 0.0, "eps": 1e-4},
            },
        ),
    ],
)
@pytest.mark.parametrize("num_steps", [60, pytest.param(250, marks=pytest.mark.slow)])
def test_many_steps_equal_torch(ours, theirs, settings, num_steps):
    shared = {name: value for name, value in settings.items() if name not in ("matrices", "biases")}
    results = []
    for optimizer_class in (ours, theirs):
        model = noisy_network()
        groups = [
            {"params": [p for p in model.parameters() if p.ndim == ndim], **settings.get(name, {})}
            for name, ndim in (("matrices", 2), ("biases", 1))
        ]
        results.append(train(model, optimizer_class(groups, **shared), num_steps))
    assert_close(results[0], results[1])
    assert not torch.equal(results[0][0], next(noisy_network().parameters()))


# Formulas


def test_sgd_follows_its_formula():
    parameter = torch.tensor([10.0], dtype=torch.float64, requires_grad=True)
    optimizer = SGD([parameter], lr=0.5)
    expected = 10.0
    for t in range(20):
        optimizer.zero_grad()
        parameter.square().sum().backward()
        optimizer.step()
        expected -= 0.5 / math.sqrt(t + 1) * 2 * expected
        assert_close(parameter.item(), expected)


# Every optimizer


@pytest.mark.parametrize(
    ("optimizer_class", "settings", "tensors", "numbers"),
    [
        (AdamW, {}, {"exp_avg", "exp_avg_sq"}, {"step": 1}),
        (SGD, {}, set(), {"step": 1}),
        (MomentumSGD, {"momentum": 0.9}, {"momentum_buffer"}, {}),
        (MomentumSGD, {}, set(), {}),
    ],
)
def test_the_state_has_the_documented_entries(optimizer_class, settings, tensors, numbers):
    model = noisy_network().bfloat16()
    optimizer = optimizer_class(model.parameters(), **settings)
    model(torch.randn(2, 6).bfloat16()).sum().backward()
    optimizer.step()
    for parameter in model.parameters():
        state = optimizer.state[parameter]
        assert set(state) == tensors | set(numbers)
        assert {name: state[name] for name in numbers} == numbers
        for name in tensors:
            assert (state[name].dtype, state[name].shape) == (torch.bfloat16, parameter.shape)


@pytest.mark.parametrize("optimizer_class", ALL)
def test_the_interface_of_an_optimizer(optimizer_class):
    fast, slow, frozen, unused = (torch.ones(3, requires_grad=True) for _ in range(4))
    optimizer = optimizer_class(
        [{"params": [fast, unused], "lr": 0.1}, {"params": [slow]}], lr=0.01
    )
    optimizer.add_param_group({"params": [frozen], "lr": 0.0})
    for parameter in (fast, slow, frozen):
        parameter.grad = torch.ones(3)
    assert optimizer.step() is None
    # Each group uses its own settings, parameters without a gradient are skipped, and gradients
    # are not modified.
    assert torch.equal(frozen, torch.ones(3))
    assert 0.98 < slow[0] < 1
    assert 0.89 < fast[0] < 0.91
    assert torch.equal(unused, torch.ones(3))
    assert unused not in optimizer.state
    assert torch.equal(fast.grad, torch.ones(3))
    # Named parameters are accepted, and the closure's loss is returned.
    parameter = torch.tensor([3.0], requires_grad=True)
    optimizer = optimizer_class([("weight", parameter)], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()  # fails unless gradients are on
        return loss.item()

    assert optimizer.step(closure) == 9.0
    assert optimizer.step(closure) < 9.0
    with pytest.raises(ValueError, match="empty"):
        optimizer_class([])


@pytest.mark.parametrize(
    ("optimizer_class", "name", "value"),
    [
        *((each, "lr", value) for each in ALL for value in (-1e-3, math.nan)),
        (AdamW, "lr", math.inf),
        (AdamW, "eps", -1e-8),
        (AdamW, "weight_decay", -0.1),
        (AdamW, "betas", (1.0, 0.9)),
        (AdamW, "betas", (0.9, -0.1)),
        (AdamW, "betas", (0.9, math.nan)),
        (AdamW, "betas", (0.9,)),
        (MomentumSGD, "weight_decay", math.nan),
        (MomentumSGD, "momentum", 1.0),
        (MomentumSGD, "nesterov", True),
        (Muon, "momentum", math.nan),
        (Muon, "lr_scale", -1.0),
        (Muon, "row_beta", 1.0),
        (Muon, "precision", "float64"),
    ],
)
def test_bad_settings_are_rejected(optimizer_class, name, value):
    settings = {name: value}
    parameter = torch.zeros(2, 2, requires_grad=True)
    with rejects(name):
        optimizer_class([parameter], **settings)
    with rejects(name):
        optimizer_class([{"params": [parameter], **settings}])
    optimizer = optimizer_class([parameter])
    with rejects(name):
        optimizer.add_param_group({"params": [torch.zeros(2, 2, requires_grad=True)], **settings})
    assert len(optimizer.param_groups) == 1


# Muon


def with_singular_values(rows, columns, values, seed=0):
    """Return a float64 matrix U S V^T, and its factors U and V^T."""
    generator = torch.Generator().manual_seed(seed)
    rank = len(values)
    left = torch.linalg.qr(torch.randn(rows, rank, generator=generator, dtype=torch.float64)).Q
    right = torch.linalg.qr(torch.randn(columns, rank, generator=generator, dtype=torch.float64)).Q
    values = torch.tensor(values, dtype=torch.float64)
    return left * values @ right.T, left, right.T


def polynomial(s, steps=5):
    """Return the singular value `s` after `steps` steps of `orthogonalize`."""
    for _ in range(steps):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return s


@pytest.mark.numerical(seeds=False)
@pytest.mark.parametrize(("rows", "columns"), [(6, 6), (4, 9), (9, 4), (1, 5), (5, 1)])
def test_orthogonalize_changes_only_singular_values(rows, columns):
    rank = min(rows, columns)
    values = [0.7**i for i in range(rank)]
    matrix, left, right = with_singular_values(rows, columns, values)
    norm = math.sqrt(sum(value**2 for value in values))
    scaled = torch.tensor([polynomial(value / norm) for value in values], dtype=torch.float64)
    assert_close(orthogonalize(matrix), left * scaled @ right, atol=1e-5, rtol=1e-5)


def test_five_steps_move_all_but_tiny_singular_values_close_to_one():
    assert all(0.68 < polynomial(thousandths / 1000) < 1.21 for thousandths in range(2, 1001))


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
def test_orthogonalize_accepts_stacks_zeros_and_bfloat16():
    stack = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0))
    together = orthogonalize(stack)
    for matrix, result in zip(stack, together, strict=True):
        assert_close(orthogonalize(matrix), result)
    assert torch.equal(orthogonalize(torch.zeros(3, 2)), torch.zeros(3, 2))
    low = orthogonalize(stack.bfloat16())
    assert low.dtype == torch.bfloat16
    assert_close(low.double(), together, atol=0.1, rtol=0.1)


@pytest.mark.numerical(seeds=False)
def test_muon_follows_its_formula():
    start, _, _ = with_singular_values(3, 5, [2.0, 1.0, 0.5])
    weight = start.clone().requires_grad_()
    optimizer = Muon(
        [{"params": [weight], "muon": True, "lr_scale": 0.5}],
        lr=0.2,
        weight_decay=0.1,
        momentum=0.9,
    )
    expected, average = start.clone(), torch.zeros(3, 5, dtype=torch.float64)
    for step in range(4):
        gradient, _, _ = with_singular_values(3, 5, [1.0, 0.3, 0.2], seed=step + 1)
        weight.grad = gradient.clone()
        optimizer.step()
        average = 0.9 * average + 0.1 * gradient
        ahead = 0.9 * average + 0.1 * gradient
        expected = expected * (1 - 0.1 * 0.1)  # the learning rate is 0.2 * 0.5
        expected = expected - 0.1 * 0.2 * math.sqrt(5) * orthogonalize(ahead)
        assert torch.equal(weight.grad, gradient)  # the gradient is unchanged
        assert_close(weight.detach(), expected)
    assert set(optimizer.state[weight]) == {"momentum_buffer"}


@pytest.mark.numerical(seeds=False)
def test_normuon_follows_its_formula():
    start, _, _ = with_singular_values(3, 5, [2.0, 1.0, 0.5])
    weight = start.clone().requires_grad_()
    optimizer = Muon(
        [{"params": [weight], "muon": True}],
        lr=0.1, weight_decay=0.0, momentum=0.0, row_beta=0.6, eps=1e-3,
    )  # fmt: skip
    expected, squares = start.clone(), [0.0, 0.0, 0.0]
    for step in range(4):
        gradient, _, _ = with_singular_values(3, 5, [1.0, 0.3, 0.2], seed=step + 1)
        weight.grad = gradient.clone()
        optimizer.step()
        update = orthogonalize(gradient)
        rows = []
        for i, row in enumerate(update):
            squares[i] = 0.6 * squares[i] + 0.4 * float(row @ row) / 5
            rows.append(row / (math.sqrt(squares[i]) + 1e-3))
        equal = torch.stack(rows)
        equal *= math.sqrt(float(update.square().sum() / equal.square().sum()))
        expected = expected - 0.1 * 0.2 * math.sqrt(5) * equal
        assert_close(weight.detach(), expected)
    assert optimizer.state[weight]["row_squares"].shape == (3, 1)


def test_normuon_leaves_weights_without_gradients_as_they_are():
    weight = torch.ones(3, 5, requires_grad=True)
    weight.grad = torch.zeros(3, 5)
    Muon([{"params": [weight], "muon": True}], weight_decay=0.0, row_beta=0.9).step()
    assert torch.equal(weight, torch.ones(3, 5))


def tiny_model(**options):
    torch.manual_seed(0)
    return TransformerLM(dataclasses.replace(SMALL, d_ff=16, **options))


def train_model(model, optimizer, steps):
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(steps):
        ids = torch.randint(0, 20, (4, 1), generator=generator) + torch.arange(7)
        optimizer.zero_grad()
        logits = model(ids[:, :-1] % 20)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten() % 20)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("settings", [AdamWSettings, SGDSettings, MuonSettings])
@pytest.mark.parametrize("options", [{}, {"tied_embeddings": True, "qk_norm": True}], ids=str)
def test_a_step_without_gradients_shrinks_only_the_matrices_unless_all_decay(options, settings):
    model = tiny_model(**options)
    for decay in ("matrices", "all"):
        optimizer = settings(decay=decay, weight_decay=0.5).build(model, lr=0.1)
        before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        for weight in model.parameters():
            weight.grad = torch.zeros_like(weight)
        optimizer.step()
        roles = model.parameter_roles()
        for name, weight in model.named_parameters():
            if decay == "all" or roles[name] in ("matrix", "head"):
                assert_close(weight.detach(), before[name] * (1 - 0.1 * 0.5))
            else:
                assert torch.equal(weight, before[name]), name


@pytest.mark.parametrize("options", [{}, {"tied_embeddings": True, "qk_norm": True}], ids=str)
def test_muon_groups_the_parameters_of_a_model(options):
    model = tiny_model(**options)
    config = MuonSettings(embedding_lr_scale=3.0, head_lr_scale=0.5)
    optimizer = config.build(model, lr=0.02)
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = {
        names[parameter]: group for group in optimizer.param_groups for parameter in group["params"]
    }
    assert set(groups) == set(names.values())
    for name, group in groups.items():
        assert group["lr"] == 0.02
        is_matrix = name.startswith("layers") and "ln" not in name and "norm" not in name
        assert group["muon"] == is_matrix
        if name.startswith("token_embeddings"):
            assert (group["lr_scale"], group["weight_decay"]) == (3.0, 0.0)
        elif name.startswith("lm_head"):
            assert (group["lr_scale"], group["weight_decay"]) == (0.5, config.weight_decay)
        elif is_matrix:
            assert (group["lr_scale"], group["weight_decay"]) == (1.0, config.weight_decay)
        else:
            assert (group["lr_scale"], group["weight_decay"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("config", "kind", "expected"),
    [
        (
            AdamWSettings(betas=(0.8, 0.9), eps=1e-6, weight_decay=0.3, decay="all"),
            AdamW,
            {"betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.3},
        ),
        (
            SGDSettings(momentum=0.8, weight_decay=0.2, nesterov=True, decay="all"),
            MomentumSGD,
            {"momentum": 0.8, "weight_decay": 0.2, "nesterov": True},
        ),
    ],
)
def test_settings_set_every_option_of_one_group(config, kind, expected):
    model = tiny_model()
    optimizer = config.build(model, lr=0.02)
    (group,) = optimizer.param_groups
    assert type(optimizer) is kind
    assert len(group["params"]) == len(list(model.parameters()))
    assert expected | {"lr": 0.02} == {name: group[name] for name in ("lr", *expected)}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_muon_learns(precision):
    model = tiny_model()
    optimizer = MuonSettings().build(model, lr=0.02, precision=precision)
    losses = train_model(model, optimizer, 60)
    assert losses[-1] < 0.5 * losses[0]


def test_muon_rejects_parameters_that_are_not_matrices():
    matrix, vector = torch.zeros(2, 2, requires_grad=True), torch.zeros(3, requires_grad=True)
    with rejects(None, "(3,)"):
        Muon([{"params": [matrix, vector], "muon": True}])
    optimizer = Muon([matrix], muon=True)
    with rejects(None, "(3,)"):
        optimizer.add_param_group({"params": [vector]})
    assert len(optimizer.param_groups) == 1
