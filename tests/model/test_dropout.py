"""Dropout: what a model drops, and when."""

from __future__ import annotations

import pytest
import torch

from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training.loss import LanguageModelLoss

SHAPE = ModelConfig(
    vocab_size=50, context_length=32, d_model=64, num_layers=2, num_heads=2, d_ff=96
)


def model_with(fraction, **options):
    torch.manual_seed(1)
    return TransformerLM(SHAPE, dropout=fraction, **options)


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_embeddings_and_sublayers_lose_a_fraction_of_their_features(fraction):
    model, whole = model_with(fraction), model_with(0.0)
    assert list(model.state_dict()) == list(whole.state_dict())
    ids = torch.randint(0, 50, (16, 32))
    block, x = model.layers[0], whole.embed(ids)
    # Without one sublayer, a block adds only the features that the other one has kept.
    added = []
    for silent in (block.attn.output_proj, block.ffn.w2):
        kept = silent.weight.detach().clone()
        with torch.no_grad():
            silent.weight.zero_()
            added.append(block(x) - x)
            silent.weight.copy_(kept)
    for output in (model.embed(ids), *added):
        zeros = (output == 0).double().mean().item()
        # Six standard deviations of the mean of independent features.
        assert zeros == pytest.approx(fraction, abs=6 * (0.25 / output.numel()) ** 0.5)
    embedded = model.embed(ids)
    kept = embedded != 0
    torch.testing.assert_close(embedded[kept], x[kept] / (1 - fraction))


def test_nothing_is_dropped_in_evaluation_mode():
    ids = torch.randint(0, 50, (2, 32))
    expected, model = model_with(0.0)(ids), model_with(0.5)
    assert torch.equal(model.eval()(ids), expected)
    assert not torch.equal(model.train()(ids), expected)


def test_recomputed_activations_drop_the_same_features_again():
    ids = torch.randint(0, 50, (2, 33))
    gradients = []
    for recompute in (False, True):
        model = model_with(0.3, recompute=recompute)
        torch.manual_seed(2)
        LanguageModelLoss(model)(ids[:, :-1], ids[:, 1:]).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(map(torch.equal, *gradients))
