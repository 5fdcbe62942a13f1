"""Generating 256 tokens, TinyStories shape: with the cache, without it, and a batch of texts.

Without the cache, the whole window is computed for every token. Before anything is timed, all
implementations must generate the same texts.
"""

from functools import cache

import pytest
import torch

from cs336_basics import ModelConfig, TransformerLM
from cs336_basics.generation import Sampling, generate, generate_batch

NEW_TOKENS = 256
BATCH_SIZE = 8
GREEDY = Sampling(temperature=0)
PROMPTS = [[token + 1 for token in range(length)] for length in range(1, BATCH_SIZE + 1)]


@cache
def model():
    torch.manual_seed(0)
    return TransformerLM(ModelConfig())


def one_text(use_cache):
    return [list(generate(model(), PROMPTS[0], NEW_TOKENS, GREEDY, use_cache=use_cache))]


def batch_of_texts():
    return generate_batch(model(), PROMPTS, NEW_TOKENS, GREEDY)


WAYS = {
    "without cache": lambda: one_text(use_cache=False),
    "with cache": lambda: one_text(use_cache=True),
    f"with cache, {BATCH_SIZE} texts": batch_of_texts,
}


@cache
def plain_text():
    return one_text(use_cache=False)[0]


@pytest.mark.parametrize("way", WAYS)
def test_generation(benchmark, way):
    texts = WAYS[way]()
    assert texts[0] == plain_text()
    assert all(len(text) == NEW_TOKENS for text in texts)
    benchmark.group = f"{NEW_TOKENS} tokens, {model().config.num_parameters():,} parameters"
    benchmark.pedantic(WAYS[way], rounds=3)
    benchmark.extra_info.update(
        tokens_per_second=len(texts) * NEW_TOKENS / benchmark.stats.stats.median,
        threads=torch.get_num_threads(),
    )
