"""Resizing a model's vocabulary."""

import numpy as np
import pytest
import torch

from cs336_basics import ModelConfig, TransformerLM
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.model import resize_embeddings, select_embeddings, transfer_embeddings
from tests.errors import rejects

IDS = torch.tensor([[1, 5, 7, 2]])

both = pytest.mark.parametrize("tied", [False, True])


def small_model(tied=False, bigram_rows=0, **options):
    torch.manual_seed(0)
    config = ModelConfig(
        vocab_size=10, context_length=8, d_model=8, num_layers=1, num_heads=2, d_ff=16,
        tied_embeddings=tied, bigram_rows=bigram_rows,
    )  # fmt: skip
    model = TransformerLM(config, **options)
    if model.bigram_embeddings is not None:
        torch.nn.init.normal_(model.bigram_embeddings.weight)
    return model


@both
def test_old_logits_stay_and_new_rows_are_means(tied):
    model = small_model(tied)
    before, table = model(IDS).detach(), model.token_embeddings.weight.detach().clone()
    head = model.head_weight.detach().clone()
    resize_embeddings(model, 13, {10: [1, 2], 12: [5]})
    assert model.config.vocab_size == 13
    assert model.token_embeddings.weight.shape == model.head_weight.shape == (13, 8)
    torch.testing.assert_close(model(IDS)[..., :10], before)
    for old, new in ((table, model.token_embeddings.weight), (head, model.head_weight)):
        assert torch.equal(new[:10], old)
        torch.testing.assert_close(new[10], (old[1] + old[2]) / 2)
        torch.testing.assert_close(new[11], old.mean(dim=0))
        assert torch.equal(new[12], old[5])
    assert (model.lm_head is None) == tied
    model(torch.tensor([[12]])).sum().backward()
    assert model.token_embeddings.weight.grad is not None


@both
def test_selected_rows_keep_their_logits(tied):
    model = small_model(tied)
    before = model(IDS).detach()
    id_map = np.array([-1, 0, 1, -1, -1, 3, 2, 4, -1, -1])
    select_embeddings(model, id_map)
    assert model.config.vocab_size == 5
    logits = model(torch.from_numpy(id_map)[IDS])
    torch.testing.assert_close(logits, before[..., [1, 2, 6, 5, 7]])


@both
def test_transferred_rows_are_means_of_old_rows_in_any_order(tied):
    model = small_model(tied)
    tables = [model.token_embeddings.weight.detach(), model.head_weight.detach()]
    transfer_embeddings(model, [[7], [], [1, 2, 2], [0], [7]])
    assert model.config.vocab_size == 5
    for old, new in zip(tables, (model.token_embeddings.weight, model.head_weight), strict=True):
        mean = (old[1] + 2 * old[2]) / 3
        torch.testing.assert_close(new, torch.stack([old[7], old.mean(0), mean, old[0], old[7]]))
    model(torch.tensor([[4]])).sum().backward()
    for rows, named in (([], "rows"), ([[10]], "rows"), ([[-1]], "rows")):
        with rejects(named):
            transfer_embeddings(model, rows)


def test_a_table_of_bigrams_stays_only_if_the_ids_stay():
    model = small_model(bigram_rows=5)
    before = model(IDS).detach()
    resize_embeddings(model, 13)
    torch.testing.assert_close(model(IDS)[..., :10], before)
    select_embeddings(model, np.array([*range(8), *[-1] * 5]))
    torch.testing.assert_close(model(IDS), before[..., :8])
    with rejects("id_map", "bigram_rows"):
        select_embeddings(model, np.arange(8)[::-1])
    assert model.config.vocab_size == 8
    transfer_embeddings(model, [[7], [1, 2]])
    assert not model.bigram_embeddings.weight.any()


def test_dtype_and_frozen_parameters_are_kept():
    model = small_model(dtype=torch.bfloat16)
    model.token_embeddings.weight.requires_grad_(False)
    resize_embeddings(model, 11)
    assert model.token_embeddings.weight.dtype == torch.bfloat16
    assert not model.token_embeddings.weight.requires_grad
    assert model.head_weight.requires_grad


def test_a_model_resized_in_inference_mode_can_be_trained():
    model = small_model()
    with torch.inference_mode():
        resize_embeddings(model, 11)
        select_embeddings(model, np.arange(11)[::-1])
    model(torch.arange(4)[None]).sum().backward()
    assert model.token_embeddings.weight.grad is not None


def test_the_same_size_changes_nothing():
    model = small_model()
    table = model.token_embeddings.weight
    resize_embeddings(model, 10)
    assert model.token_embeddings.weight is table


@pytest.mark.parametrize(
    ("size", "parts", "error", "fields"),
    [
        (9, {}, InputError, ("vocab_size", 9)),
        (12, {9: [1]}, InputError, ("parts", 9)),
        (12, {12: [1]}, InputError, ("parts", 12)),
        (12, {11: [10]}, InputError, ("parts", "id 11", 10)),
        (12, {11: [-1]}, InputError, ("parts", "id 11", "-1")),
        (12.5, {}, InputTypeError, ("vocab_size", "12.5")),
        (12, {11: [1.9]}, InputTypeError, ("parts", "id 11", "1.9")),
        (12, {"11": [1]}, InputTypeError, ("parts", "'11'")),
        (10**18, {}, InputError, ("vocab_size", 1000000000000000000)),
    ],
)
def test_bad_sizes_are_rejected(size, parts, error, fields):
    with rejects(*fields, kind=error):
        resize_embeddings(small_model(), size, parts)


@pytest.mark.parametrize(
    ("id_map", "error", "fields"),
    [
        ([0, 1], InputError, ("id_map", "(2,)")),
        ([0.0] * 10, InputTypeError, ("id_map", "float64")),
        ([0, 2] + [-1] * 8, InputError, ("id_map",)),
        ([0, 0] + [-1] * 8, InputError, ("id_map",)),
        ([-1] * 10, InputError, ("id_map",)),
        ([0, 1] + [-2] * 8, InputError, ("id_map",)),
    ],
)
def test_bad_maps_are_rejected(id_map, error, fields):
    model = small_model()
    with rejects(*fields, kind=error):
        select_embeddings(model, np.array(id_map))
    assert model.config.vocab_size == 10


def test_wrapped_models_are_rejected():
    with rejects("model", "DataParallel", kind=InputTypeError):
        resize_embeddings(torch.nn.DataParallel(small_model()), 12)
