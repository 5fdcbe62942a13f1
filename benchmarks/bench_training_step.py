"""One optimizer step of a small Transformer, with the readable and with the fused attention."""

import pytest
import torch

from cs336_basics import ModelConfig, TransformerLM
from cs336_basics.training.clipping import clip_gradients
from cs336_basics.training.loss import cross_entropy
from cs336_basics.training.optimizers import AdamW

SHAPE = {
    "vocab_size": 2_000,
    "context_length": 256,
    "d_model": 128,
    "num_layers": 4,
    "num_heads": 4,
    "d_ff": 384,
}
BATCH_SIZE = 8


def new_model(attention):
    torch.manual_seed(0)
    return TransformerLM(ModelConfig(**SHAPE, attention=attention))


def step(model, optimizer, batch):
    inputs, targets = batch
    optimizer.zero_grad(set_to_none=True)
    loss = cross_entropy(model(inputs), targets)
    loss.backward()
    clip_gradients(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def batch():
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(
        SHAPE["vocab_size"], (BATCH_SIZE, SHAPE["context_length"] + 1), generator=generator
    )
    return tokens[:, :-1], tokens[:, 1:]


@pytest.mark.parametrize("attention", ["reference", "sdpa"])
def test_training_step(benchmark, attention):
    data = batch()
    losses = {}
    for kind in ("reference", "sdpa"):
        model = new_model(kind).double()  # so that the order of a sum does not matter
        optimizer = AdamW(model.parameters(), lr=1e-3)
        losses[kind] = [step(model, optimizer, data).item() for _ in range(3)]
    assert losses["reference"] == pytest.approx(losses["sdpa"], rel=1e-9)

    model = new_model(attention)
    optimizer = AdamW(model.parameters(), lr=1e-3)
    benchmark.group = "training step"
    benchmark.pedantic(step, args=(model, optimizer, data), rounds=7, warmup_rounds=2)
    benchmark.extra_info.update(
        parameters=sum(p.numel() for p in model.parameters()),
        tokens_per_second=data[0].numel() / benchmark.stats.stats.median,
        threads=torch.get_num_threads(),
    )
