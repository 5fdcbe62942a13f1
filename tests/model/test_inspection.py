"""Attention weights, compared with the output of the attention layer."""

import pytest
import torch

from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.model.inspection import attention_weights, check_has_ids
from tests.errors import rejects

SIZES = {"vocab_size": 30, "context_length": 8, "d_model": 16, "num_layers": 2, "num_heads": 4}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "post"},
        {"norm": "none", "position": "none"},
        {"qk_norm": True, "tied_embeddings": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("layer", [0, 1])
def test_the_weights_give_the_output_of_the_layer(options, layer):
    torch.manual_seed(0)
    model = TransformerLM(ModelConfig(**SIZES, d_ff=32, **options))
    ids = torch.arange(7)
    weights = attention_weights(model, ids, layer)
    assert weights.shape == (4, 7, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 7))
    assert torch.equal(weights, weights.tril())
    attention, seen = model.layers[layer].attn, []
    hook = attention.register_forward_hook(lambda _, inputs, output: seen.append((inputs, output)))
    with torch.no_grad():
        model(ids)
        hook.remove()
        inputs, output = seen[0]
        values = attention.v_proj(inputs[0]).reshape(7, 4, -1).transpose(0, 1)
        heads = (weights @ values).transpose(0, 1).reshape(7, -1)
        torch.testing.assert_close(attention.output_proj(heads), output, rtol=1e-4, atol=1e-5)


def test_an_unknown_layer_is_an_error():
    model = TransformerLM(ModelConfig(**SIZES, d_ff=32))
    for layer in (-1, 2):
        with rejects("layer", 0, 2):
            attention_weights(model, torch.arange(3), layer)


def test_a_model_has_a_row_for_each_id_of_its_tokenizer():
    config = ModelConfig(**SIZES | {"vocab_size": 3_000}, d_ff=32)
    for num_ids in (2_999, 3_000):
        check_has_ids(config, num_ids, "")
    with rejects(None, "3,001", "3,000", "use another", place="a.json"):
        check_has_ids(config, 3_001, "use another", "a.json")
