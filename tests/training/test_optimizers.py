"""AdamW against torch's, SGD against its formula, and the manners of an Optimizer."""

from __future__ import annotations

import copy
import io
import math

import pytest
import torch
from torch.testing import assert_close

from cs336_basics.training import SGD, AdamW


def noisy_network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def train(model, optimizer, steps, seed=1, schedule=None):
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        if schedule is not None:
            for group in optimizer.param_groups:
                group["lr"] = schedule(step)
        x = torch.randn(16, 6, generator=generator)
        optimizer.zero_grad()
        (model(x) - x[:, :3].sin()).square().mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1},
        {"lr": 1e-3, "betas": (0.0, 0.0), "eps": 1e-3, "weight_decay": 0.0},
        {"lr": 3e-2, "betas": (0.5, 0.999), "eps": 1e-6, "weight_decay": 0.5},
    ],
)
def test_adamw_equals_torch_after_1000_steps(settings):
    ours, theirs = noisy_network(), noisy_network()
    result = train(ours, AdamW(ours.parameters(), **settings), 1000)
    expected = train(theirs, torch.optim.AdamW(theirs.parameters(), **settings), 1000)
    assert_close(result, expected, atol=1e-4, rtol=0)
    moved = [(a - b).abs().max() for a, b in zip(result, noisy_network().parameters(), strict=True)]
    assert max(moved) > 0.1


def test_adamw_equals_torch_step_by_step_under_a_schedule():
    ours, theirs = noisy_network(), noisy_network()
    schedule = lambda step: 1e-2 * (1 + math.cos(step / 10))  # noqa: E731
    settings = {"betas": (0.9, 0.95), "weight_decay": 0.1}
    ours_adamw = AdamW(ours.parameters(), **settings)
    theirs_adamw = torch.optim.AdamW(theirs.parameters(), **settings)
    for seed in range(30):
        result = train(ours, ours_adamw, 1, seed, schedule)
        expected = train(theirs, theirs_adamw, 1, seed, schedule)
        assert_close(result, expected, atol=1e-6, rtol=1e-5)


def test_adamw_defaults_are_torchs():
    ours = AdamW([torch.zeros(1, requires_grad=True)]).defaults
    theirs = torch.optim.AdamW([torch.zeros(1, requires_grad=True)]).defaults
    assert ours == {name: theirs[name] for name in ours}


def test_first_adamw_step_by_hand():
    parameter = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = AdamW([parameter], lr=0.1, weight_decay=0.5, eps=1e-8)
    parameter.grad = torch.tensor([1e-3, -7.0], dtype=torch.float64)
    optimizer.step()
    # With bias correction the first step is lr * sign(g), whatever the size of g.
    decayed = 1.0 * (1 - 0.1 * 0.5)
    expected = torch.tensor([decayed - 0.1, decayed + 0.1], dtype=torch.float64)
    assert_close(parameter.detach(), expected, atol=2e-6, rtol=0)


def test_decay_is_decoupled_from_the_moments():
    parameter = torch.tensor([2.0], requires_grad=True)
    optimizer = AdamW([parameter], lr=0.1, weight_decay=0.1)
    for step in range(1, 4):
        parameter.grad = torch.zeros(1)
        optimizer.step()
        assert_close(parameter.detach(), torch.tensor([2.0 * 0.99**step]))
    assert torch.equal(optimizer.state[parameter]["exp_avg"], torch.zeros(1))


@pytest.mark.parametrize("steps_before", [0, 5])
def test_adamw_state_dict_round_trip(steps_before):
    model = noisy_network()
    optimizer = AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, steps_before)
    buffer = io.BytesIO()
    torch.save(optimizer.state_dict(), buffer)
    buffer.seek(0)

    twin = copy.deepcopy(model)
    restored = AdamW(twin.parameters(), lr=0.7, betas=(0.1, 0.2), weight_decay=0.3)
    restored.load_state_dict(torch.load(buffer, weights_only=True))
    continued = train(model, optimizer, 5, seed=2)
    assert_close(train(twin, restored, 5, seed=2), continued, atol=0, rtol=0)


def test_adamw_state_is_what_the_docstring_says():
    model = noisy_network().bfloat16()
    optimizer = AdamW(model.parameters())
    model(torch.randn(2, 6).bfloat16()).sum().backward()
    optimizer.step()
    for parameter in model.parameters():
        state = optimizer.state[parameter]
        assert set(state) == {"step", "exp_avg", "exp_avg_sq"}
        assert state["step"] == 1
        for name in ("exp_avg", "exp_avg_sq"):
            assert state[name].dtype == torch.bfloat16
            assert state[name].shape == parameter.shape


@pytest.mark.parametrize("optimizer_class", [AdamW, SGD])
def test_parameter_groups_have_settings_of_their_own(optimizer_class):
    fast, slow, frozen = (torch.ones(3, requires_grad=True) for _ in range(3))
    optimizer = optimizer_class([{"params": [fast], "lr": 0.1}, {"params": [slow]}], lr=0.01)
    optimizer.add_param_group({"params": [frozen], "lr": 0.0})
    for parameter in (fast, slow, frozen):
        parameter.grad = torch.ones(3)
    optimizer.step()
    assert torch.equal(frozen, torch.ones(3))
    assert 0.98 < slow[0] < 1
    assert 0.89 < fast[0] < 0.91


def test_adamw_decay_by_group_equals_torch():
    results = []
    for optimizer_class in (AdamW, torch.optim.AdamW):
        model = noisy_network()
        matrices = [p for p in model.parameters() if p.ndim > 1]
        vectors = [p for p in model.parameters() if p.ndim == 1]
        groups = [
            {"params": matrices, "weight_decay": 0.5, "betas": (0.8, 0.9)},
            {"params": vectors, "weight_decay": 0.0, "eps": 1e-4},
        ]
        results.append(train(model, optimizer_class(groups, lr=1e-2), 20))
    assert_close(results[0], results[1])


@pytest.mark.parametrize("optimizer_class", [AdamW, SGD])
def test_named_parameters_are_accepted(optimizer_class):
    model = noisy_network()
    before = copy.deepcopy(model.state_dict())
    train(model, optimizer_class(model.named_parameters(), lr=0.1), 1)
    assert all(not torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("optimizer_class", [AdamW, SGD])
def test_parameters_without_a_gradient_are_skipped(optimizer_class):
    used, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = optimizer_class([used, unused], lr=0.1)
    used.grad = torch.ones(2)
    optimizer.step()
    assert not torch.equal(used, torch.ones(2))
    assert torch.equal(unused, torch.ones(2))
    assert unused not in optimizer.state


@pytest.mark.parametrize("optimizer_class", [AdamW, SGD])
def test_closure(optimizer_class):
    parameter = torch.tensor([3.0], requires_grad=True)
    optimizer = optimizer_class([parameter], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()  # fails unless gradients are on
        return loss.item()

    assert optimizer.step(closure) == 9.0
    assert optimizer.step(closure) < 9.0
    assert optimizer.step() is None


def test_sparse_gradient_is_refused():
    embedding = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = AdamW(embedding.parameters())
    embedding(torch.tensor([1, 3])).sum().backward()
    with pytest.raises(RuntimeError, match=r"shape \(5, 2\) is sparse"):
        optimizer.step()


BAD_SETTINGS = [
    ({"lr": -1e-3}, "lr must be finite and at least 0, not -0.001"),
    ({"lr": math.nan}, "lr must be finite and at least 0, not nan"),
    ({"lr": math.inf}, "lr must be finite and at least 0, not inf"),
    ({"eps": -1e-8}, "eps must be finite and at least 0, not -1e-08"),
    ({"weight_decay": -0.1}, "weight_decay must be finite and at least 0, not -0.1"),
    ({"betas": (1.0, 0.9)}, r"betas must be two numbers in \[0, 1\), not \(1.0, 0.9\)"),
    ({"betas": (0.9, -0.1)}, r"betas must be .*-0.1"),
    ({"betas": (0.9, math.nan)}, r"betas must be .*nan"),
    ({"betas": (0.9,)}, r"betas must be two numbers"),
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS)
def test_adamw_refuses_bad_settings(settings, message):
    parameter = torch.zeros(1, requires_grad=True)
    with pytest.raises(ValueError, match=message):
        AdamW([parameter], **settings)
    with pytest.raises(ValueError, match=message):
        AdamW([{"params": [parameter], **settings}])
    optimizer = AdamW([parameter])
    with pytest.raises(ValueError, match=message):
        optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)], **settings})
    assert len(optimizer.param_groups) == 1


def test_sgd_refuses_a_bad_learning_rate():
    with pytest.raises(ValueError, match="lr must be finite and at least 0, not -1"):
        SGD([torch.zeros(1, requires_grad=True)], lr=-1)


def test_no_parameters():
    with pytest.raises(ValueError, match="empty parameter list"):
        AdamW([])


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
    assert optimizer.state[parameter] == {"step": 20}


def test_sgd_state_dict_round_trip():
    model = noisy_network()
    optimizer = SGD(model.parameters(), lr=0.1)
    train(model, optimizer, 7)
    twin = copy.deepcopy(model)
    restored = SGD(twin.parameters())
    restored.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert_close(train(twin, restored, 3), train(model, optimizer, 3), atol=0, rtol=0)
