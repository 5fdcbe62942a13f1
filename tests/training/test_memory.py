"""The estimate of a step's memory, compared with a real step."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import config_to_yaml
from cs336_basics.training.measure import measure_steps
from cs336_basics.training.memory import LiveBytes, step_memory

SMALL = TrainConfig(
    batch_size=4,
    model=ModelConfig(
        vocab_size=100, context_length=16, d_model=32, num_layers=2, num_heads=2, d_ff=64
    ),
)


def test_live_tensors_are_counted():
    with LiveBytes() as live:
        a = torch.zeros(1000)
        b = a + 1
        c = a.view(10, 100)  # shares the memory of a
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


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"accumulation": 2},
        {"loss_chunks": 4, "fused_optimizer": True},
        {"checkpoint_activations": True},
        {"model": dataclasses.replace(SMALL.model, attention="reference")},
    ],
)
def test_fake_tensors_have_the_size_of_real_ones(values):
    """The same step on real tensors, counted in the same way."""
    from cs336_basics.training.loss import LanguageModelLoss, checkpoint_activations
    from cs336_basics.training.optimizers import AdamW

    config = dataclasses.replace(SMALL, **values)
    with LiveBytes() as live:
        model = TransformerLM(config.model)
        if config.checkpoint_activations:
            checkpoint_activations(model)
        kind = torch.optim.AdamW if config.fused_optimizer else AdamW
        options = {"fused": True} if config.fused_optimizer else {}
        optimizer = kind(model.parameters(), **options)
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


def test_options_that_save_memory_lower_the_estimate():
    big = dataclasses.replace(
        SMALL, batch_size=16, model=dataclasses.replace(SMALL.model, vocab_size=5000)
    )
    plain = step_memory(big).activations
    assert step_memory(dataclasses.replace(big, loss_chunks=8)).activations < plain / 2
    assert step_memory(dataclasses.replace(big, accumulation=4)).activations < plain / 2
    deep = dataclasses.replace(SMALL, model=dataclasses.replace(SMALL.model, num_layers=4))
    saved = dataclasses.replace(deep, checkpoint_activations=True)
    assert step_memory(saved).activations < step_memory(deep).activations / 2


def test_a_model_larger_than_memory_can_be_estimated():
    huge = ModelConfig(d_model=16384, num_heads=128, d_ff=53248, num_layers=4, vocab_size=128_000)
    memory = step_memory(dataclasses.replace(SMALL, model=huge))
    assert memory.gradients == 4 * huge.num_parameters()


RUN = """
import sys
import numpy as np
from cs336_basics.training.config_files import load_config
from cs336_basics.training.memory import peak_memory_of_process
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.trainer import Trainer
from pathlib import Path

config = load_config(Path(sys.argv[1]) / "config.yaml")
tokens = np.random.default_rng(1).integers(10_000, size=50_000, dtype=np.uint16)
Trainer(config, tokens, tokens, RunDirectory(sys.argv[1]), report=lambda line: None).fit()
print(peak_memory_of_process())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    "values",
    [
        pytest.param(
            {
                "loss_chunks": 4,
                "fused_optimizer": True,
                "batch_size": 1,
                "model": ModelConfig(context_length=64),
            },
            id="short",
        ),
        pytest.param(
            {"loss_chunks": 4, "fused_optimizer": True}, id="chunked", marks=pytest.mark.slow
        ),
        pytest.param({}, id="readable", marks=pytest.mark.slow),
        pytest.param({"compile": True, "loss_chunks": 4}, id="compiled", marks=pytest.mark.slow),
        pytest.param({"checkpoint_activations": True}, id="recompute", marks=pytest.mark.slow),
    ],
)
def test_the_estimate_is_within_a_tenth_of_the_measured_peak(tmp_path, values):
    """Of a whole run, with evaluations and checkpoints."""
    config = TrainConfig(
        device="cpu",
        max_steps=4,
        eval_every=2,
        eval_batches=2,
        sample_tokens=0,
        **{"batch_size": 2, **values},
    )
    (tmp_path / "config.yaml").write_text(config_to_yaml(config))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    peak = int(done.stdout.splitlines()[-1])
    assert measure_steps(config).peak == pytest.approx(peak, rel=0.1)
    # The tensors alone are less, but not by much.
    assert 0.4 * peak < step_memory(config).total < peak
