"""The table of vectors of pairs of tokens."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from cs336_basics.model import KVCache, ModelConfig, TransformerLM
from cs336_basics.model.bigrams import NO_TOKEN, bigram_rows, previous_tokens

SMALL = ModelConfig(
    vocab_size=50, context_length=12, d_model=16, num_layers=2, num_heads=2, d_ff=24, bigram_rows=31
)


@pytest.mark.parametrize("num_rows", [1, 7, 4096, 1_000_003])
def test_rows_are_equal_in_numpy_and_torch_and_python(num_rows):
    previous = torch.tensor([NO_TOKEN, 0, 0, 1, 49_999, 2**32 - 1, NO_TOKEN, 2**32 - 1])
    ids = torch.tensor([0, 0, 1, 0, 50_256, 2**32 - 1, 2**32 - 1, 3])
    found = bigram_rows(previous, ids, num_rows)
    assert bigram_rows(previous.numpy(), ids.numpy(), num_rows).tolist() == found.tolist()
    exact = [
        (a * 0x5BD1E995 ^ b * 0x1B873593) % num_rows  # integers of any size
        for a, b in zip(previous.tolist(), ids.tolist(), strict=True)
    ]
    assert found.tolist() == exact
    assert 0 <= min(exact) <= max(exact) < num_rows


@pytest.mark.parametrize("num_rows", [1000, 1024])
def test_pairs_spread_over_the_rows_like_random_numbers(num_rows):
    previous, ids = np.divmod(np.arange(300 * 300), 300)
    counts = np.bincount(bigram_rows(previous, ids, num_rows), minlength=num_rows)
    assert counts.max() < 2 * counts.mean()
    assert counts.min() > counts.mean() / 2


def test_no_token_is_before_the_first_token_of_a_document():
    ids = torch.tensor([[5, 6, 7, 8, 9], [1, 2, 3, 4, 5]])
    documents = torch.tensor([[0, 0, 1, 2, 2], [3, 3, 3, 3, 3]])
    first = torch.tensor([[4], [NO_TOKEN]])
    assert previous_tokens(ids, first, documents).tolist() == [[4, 5, -1, -1, 8], [-1, 1, 2, 3, 4]]
    assert previous_tokens(ids, first).tolist() == [[4, 5, 6, 7, 8], [-1, 1, 2, 3, 4]]
    assert previous_tokens(ids[:, :0], first).shape == (2, 0)


def test_a_model_starts_as_it_would_without_the_table():
    ids = torch.randint(0, 50, (2, 12))
    torch.manual_seed(3)
    model = TransformerLM(SMALL)
    torch.manual_seed(3)
    plain = TransformerLM(dataclasses.replace(SMALL, bigram_rows=0))
    assert torch.equal(model(ids), plain(ids))
    model(ids).square().sum().backward()
    gradient = model.bigram_embeddings.weight.grad
    used = bigram_rows(previous_tokens(ids, torch.full((2, 1), NO_TOKEN)), ids, 31).unique()
    assert torch.equal(gradient.abs().sum(-1).nonzero()[:, 0], used)


@pytest.mark.numerical
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_cache_knows_the_last_token_of_texts_of_different_lengths(dtype):
    model = TransformerLM(SMALL, dtype=torch.float64)
    torch.nn.init.normal_(model.bigram_embeddings.weight)
    a, b, c = torch.randint(0, 50, (3, 5), dtype=dtype)
    cache = KVCache(SMALL, 2, dtype=torch.float64)
    model(torch.stack([a, b]), cache)
    cache.truncate([3, 0])
    d, e = torch.randint(0, 50, (2, 4), dtype=dtype)
    logits = model(torch.stack([d, e]), cache)
    assert_close(logits[0], model(torch.cat([a[:3], d]))[3:])
    assert_close(logits[1], model(e))
    other = KVCache(SMALL, 1, dtype=torch.float64)
    model(c[None], other)
    cache.replace([0], other)
    cache.select([1, 0])
    logits = model(torch.stack([a[:1], b[:1]]), cache)
    assert_close(logits[0, 0], model(torch.cat([e, a[:1]]))[-1])
    assert_close(logits[1, 0], model(torch.cat([c, b[:1]]))[-1])
