"""The estimate of a step's memory, compared with a real step."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.loss import LanguageModelLoss
from cs336_basics.training.memory import LiveBytes, step_memory
from cs336_basics.training.optimizers import AdamWSettings, SGDSettings

SMALL = TrainConfig(
    batch_size=4,
    model=ModelConfig(
        vocab_size=100, context_length=16, d_model=32, num_layers=1, num_heads=2, d_ff=64
    ),
)


def test_live_tensors_are_counted():
    with LiveBytes() as live:
        a = torch.zeros(1000)
        b = a + 1
        c = a.view(10, 100)  # shares the memory of `a`
        assert live.alive == 8000
        del b
        assert live.alive == 4000
        del a, c
        assert live.alive == 0
        assert live.peak == 8000


def test_weights_gradients_and_moments_are_known_exactly():
    memory = step_memory(SMALL)
    parameters = 4 * sum(p.numel() for p in TransformerLM(SMALL.model).parameters())
    tables = 2 * 16 * 8 * 4  # cos and sin of RoPE
    assert memory.gradients == parameters
    assert memory.weights == parameters + tables
    assert memory.optimizer == 2 * parameters
    assert memory.total > 4 * parameters
    for momentum in (0.0, 0.9):
        sgd = SGDSettings(momentum=momentum)
        of_sgd = step_memory(dataclasses.replace(SMALL, optimizer=sgd)).optimizer
        assert of_sgd == (parameters if momentum else 0)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"accumulation": 2},
        {"loss_chunks": 4, "optimizer": AdamWSettings(fused=True)},
        {"checkpoint_activations": True, "model": dataclasses.replace(SMALL.model, num_layers=2)},
        {"dropout": 0.1},
        {"model": dataclasses.replace(SMALL.model, attention="reference")},
        {"model": dataclasses.replace(SMALL.model, bigram_rows=9)},
    ],
)
def test_fake_tensors_need_as_much_memory_as_real_ones(values):
    """Take the same step with real tensors and count their bytes in the same way."""
    config = dataclasses.replace(SMALL, **values)
    with LiveBytes() as live:
        model = TransformerLM(
            config.model, dropout=config.dropout, recompute=config.checkpoint_activations
        )
        optimizer = config.optimizer.build(model)
        loss_of = LanguageModelLoss(model, config.loss_chunks)
        for step in range(2):
            optimizer.zero_grad()
            if step == 1:
                live.peak = live.alive
            for _ in range(config.accumulation):
                ids = torch.zeros(4 // config.accumulation, 16, dtype=torch.int64)
                loss_of(ids, ids).backward()
            optimizer.step()
    assert step_memory(config).total == pytest.approx(live.peak, rel=0.02)


def test_a_model_larger_than_memory_can_be_estimated():
    huge = ModelConfig(d_model=16384, num_heads=128, d_ff=53248, num_layers=1, vocab_size=128_000)
    memory = step_memory(dataclasses.replace(SMALL, model=huge))
    assert memory.gradients == 4 * huge.num_parameters()
