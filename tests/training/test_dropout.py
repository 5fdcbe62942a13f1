"""Dropout: what it removes, when, and that a run with it can be repeated."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.training.data import step_seed
from cs336_basics.training.dropout import add_dropout
from cs336_basics.training.evaluation import sample_text
from cs336_basics.training.loss import LanguageModelLoss, checkpoint_activations
from tests.training.tiny_runs import (
    TOKENIZER,
    changed,
    losses_of,
    make,
)

SHAPE = ModelConfig(
    vocab_size=50, context_length=32, d_model=64, num_layers=2, num_heads=2, d_ff=96
)


def dropout_outputs(model, ids):
    """Return the outputs to which dropout is applied, in the order of the model."""
    outputs = []
    modules = [model.token_embeddings]
    modules += [module for layer in model.layers for module in (layer.attn, layer.ffn)]
    hooks = [
        module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
        for module in modules
    ]
    model(ids)
    for hook in hooks:
        hook.remove()
    return outputs


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_embeddings_and_sublayers_lose_a_fraction_of_their_features(fraction):
    model = TransformerLM(SHAPE)
    weights = list(model.state_dict())
    ids = torch.randint(0, 50, (16, 32))
    whole = dropout_outputs(model, ids)
    add_dropout(model, fraction)
    assert list(model.state_dict()) == weights
    outputs = dropout_outputs(model, ids)
    assert len(outputs) == len(whole) == 1 + 2 * SHAPE.num_layers
    for output in outputs:
        zeros = (output == 0).double().mean().item()
        # Six standard deviations of the mean of independent features.
        assert zeros == pytest.approx(fraction, abs=6 * (0.25 / output.numel()) ** 0.5)
    kept = outputs[0] != 0
    torch.testing.assert_close(outputs[0][kept], whole[0][kept] / (1 - fraction))


def test_nothing_is_dropped_in_evaluation_mode():
    model = TransformerLM(SHAPE).eval()
    ids = torch.randint(0, 50, (2, 32))
    expected = model(ids)
    add_dropout(model, 0.5)
    assert torch.equal(model(ids), expected)
    assert not torch.equal(model.train()(ids), expected)


def test_each_step_and_process_has_its_own_seed():
    def numbers(*key):
        torch.manual_seed(step_seed(*key))
        return tuple(torch.rand(4).tolist())

    keys = [(0, 1, 0), (1, 1, 0), (0, 2, 0), (0, 1, 1)]
    assert len({numbers(*key) for key in keys}) == len(keys)
    assert numbers(0, 1, 0) == numbers(0, 1, 0)


def test_checkpointed_activations_drop_the_same_features_again():
    ids = torch.randint(0, 50, (2, 33))
    gradients = []
    for checkpointed in (False, True):
        torch.manual_seed(1)
        model = TransformerLM(SHAPE)
        add_dropout(model, 0.3)
        if checkpointed:
            checkpoint_activations(model)
        torch.manual_seed(step_seed(0, 1))
        LanguageModelLoss(model)(ids[:, :-1], ids[:, 1:]).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(map(torch.equal, *gradients))


def test_evaluations_and_samples_of_a_run_use_the_whole_model(tmp_path):
    config = changed(dropout=0.5)
    trainer = make(tmp_path, config)
    trainer.fit()
    plain = make(tmp_path / "plain", dataclasses.replace(config, dropout=0.0))
    plain.model.load_state_dict(trainer.model.state_dict())
    assert plain.evaluate()[0] == losses_of(tmp_path, "val_loss")[-1]
    sample = RunDirectory(tmp_path).sample(20).read_text(encoding="utf-8")
    assert sample == sample_text(plain.model, TOKENIZER, config, 20) + "\n"
