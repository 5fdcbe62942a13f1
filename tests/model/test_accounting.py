"""Counts of weights, FLOPs and activations, compared with real models."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.model.accounting import accounting, forward_flops, kept_activations
from tests.reports.test_page import Page

SMALL = ModelConfig(
    vocab_size=50,
    context_length=7,
    d_model=12,
    num_layers=3,
    num_heads=2,
    d_ff=20,
    attention="reference",
)
VARIANTS = {
    "default": {},
    "two matrices": {"ffn": "silu"},
    "tied": {"tied_embeddings": True},
    "post-norm": {"norm": "post"},
    "no norm": {"norm": "none"},
    "QK-norm": {"qk_norm": True},
    "grouped queries": {"num_heads": 4, "num_kv_heads": 2, "head_dim": 5, "position": "none"},
    "bigrams": {"bigram_rows": 30},
    "biases": {"qkv_bias": True, "num_kv_heads": 1, "qk_norm": True},
}


@pytest.fixture(params=VARIANTS)
def config(request):
    return dataclasses.replace(SMALL, **VARIANTS[request.param])


PARTS = {
    "embedding": ("token_embeddings", "bigram_embeddings"),
    "attention": "_proj.",
    "feed-forward": ".ffn.",
    "norms": ("ln", "_norm."),
    "head": "lm_head",
}


def test_parameters_by_part_equal_the_weights_of_the_model(config):
    found = dict.fromkeys(PARTS, 0)
    for name, weight in TransformerLM(config).named_parameters():
        (part,) = (
            part
            for part, marks in PARTS.items()
            if any(mark in name for mark in ([marks] if isinstance(marks, str) else marks))
        )
        found[part] += weight.numel()
    assert config.parameters_by_part() == found
    assert config.num_parameters() == sum(found.values())


def test_flops_equal_the_count_of_torch(config):
    model = TransformerLM(config)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, config.context_length, dtype=torch.int64))
    assert sum(forward_flops(config).values()) == counter.get_total_flops()


def test_flops_by_part():
    # 7 tokens with 2 FLOPs per weight. Each of the 3 blocks has two products with 7 x 7 scores.
    assert forward_flops(SMALL) == {
        "attention projections": 7 * 2 * (3 * 4 * 12 * 12),
        "attention scores": 3 * 2 * (2 * 7 * 7 * 12),
        "feed-forward": 7 * 2 * (3 * 3 * 12 * 20),
        "head": 7 * 2 * (50 * 12),
    }


def test_activations_by_part():
    assert kept_activations(SMALL) == {
        "norms": 7 * 7 * 12,
        "attention projections": 3 * 7 * (3 * 12 + 12 + 12),
        "attention scores": 3 * 2 * (2 * 7 * 7),
        "feed-forward": 3 * 7 * (4 * 20 + 12),
        "head": 2 * 7 * 50,
    }
    assert kept_activations(dataclasses.replace(SMALL, ffn="silu"))["feed-forward"] == (
        3 * 7 * (2 * 20 + 12)
    )
    assert [
        kept_activations(dataclasses.replace(SMALL, norm=norm))["norms"]
        for norm in ("pre", "post", "none")
    ] == [7 * 7 * 12, 6 * 7 * 12, 0]


def test_a_notebook_shows_all_parts_and_their_sums(config):
    cost = accounting(config)
    assert cost == (config.parameters_by_part(), forward_flops(config), kept_activations(config))
    header, *rows, total = Page(cost._repr_html_()).table
    assert header == ["part", "weights", "FLOPs", "activations"]
    columns = dict.fromkeys(header)
    for index, name in enumerate(header):
        columns[name] = [row[index].replace(",", "") for row in [*rows, total]]
    names = columns.pop("part")
    assert set(names) == {*forward_flops(config), *kept_activations(config), "embedding", "total"}
    assert len(names) == len(set(names))
    for numbers, parts in zip(columns.values(), cost, strict=True):
        shown = dict(zip(names, map(int, numbers), strict=True))
        assert shown.pop("total") == sum(shown.values()) == sum(parts.values())
        known = {part if part in shown else "attention projections": n for part, n in parts.items()}
        assert {part: n for part, n in shown.items() if n} == {p: n for p, n in known.items() if n}
