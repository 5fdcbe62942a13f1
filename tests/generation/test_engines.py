"""The engines of generation, compared with each other."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import math
import os
import warnings

import pytest
import torch

from cs336_basics.generation import Sampling, engines, generate, generate_batch
from cs336_basics.generation.engines import Cached, Compiled, Recomputing, choose_engine
from cs336_basics.generation.precision import rounded, with_rounded_matrices
from cs336_basics.model import KVCache, Linear, ModelConfig, TransformerLM
from tests.errors import rejects
from tests.formats.models import random_model
from tests.numerics import rounding_bound

_inference = pytest.importorskip("cs336_basics.generation._inference")
generate_module = importlib.import_module("cs336_basics.generation.generate")

CONFIG = ModelConfig(
    vocab_size=40, context_length=8, d_model=16, num_layers=2, num_heads=2, d_ff=24
)
VARIANTS = [
    {},
    {"norm": "post"},
    {"norm": "none", "position": "none"},
    {"ffn": "silu", "d_ff": 33},
    {"qk_norm": True, "tied_embeddings": True, "logit_soft_cap": 5.0},
    {"qkv_bias": True, "num_kv_heads": 1, "head_dim": 10, "d_model": 18, "num_heads": 3},
    {"context_length": 40, "num_layers": 1, "embedding_scale": 3.0, "norm_eps": 0.1},
    {"rope_scaling": (4.0, 1.0, 4.0, 4.0), "rope_theta": 7.0},
    {"num_heads": 1, "head_dim": 130},
    {"bigram_rows": 23, "tied_embeddings": True},
]
PRECISIONS = ["float32", "bfloat16", "int8"]
LEVELS = _inference.simd_levels()


def num_roundings(config):
    """Return the number of roundings along the longest path through a model."""
    width = config.num_heads * config.d_head
    attention = config.d_model + config.d_head + config.context_length + width
    norms = 4 * config.d_model + 2 * config.d_head
    layer = attention + config.d_model + config.d_ff + norms + 50
    return config.num_layers * layer + 2 * config.d_model + 50


def assert_same_logits(actual, expected, config, precision):
    """Assert that logits in float32 have only rounding errors, in the norm of each row.

    A layer mixes the relative errors of its inputs but does not amplify them; see
    `assert_close_rounded`. With int8, a product also rounds its inputs, to 1 / 65,534 of the
    largest, which is at most their norm. There are four products in a row in each layer.
    """
    limit = rounding_bound(num_roundings(config))
    if precision == "int8":
        widest = max(config.d_model, config.d_ff, config.num_heads * config.d_head)
        limit += (4 * config.num_layers + 1) * math.sqrt(widest) / 65534
    error = (actual.double() - expected.double()).norm(dim=-1)
    assert (error <= limit * expected.double().norm(dim=-1)).all(), error


@pytest.mark.numerical
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("values", VARIANTS, ids=str)
def test_the_compiled_model_computes_what_the_model_computes(values, precision):
    config = dataclasses.replace(CONFIG, **values)
    model = random_model(int(torch.randint(1000, ())), config=config)
    exact = copy.deepcopy(with_rounded_matrices(model, precision)).double()
    length = config.context_length
    ids = torch.randint(config.vocab_size, (2, length)).tolist()
    with torch.no_grad():
        expected = exact(torch.tensor(ids))  # (2, length, vocab_size)
    for simd_level in LEVELS:
        engine = Compiled(model, 2, precision, simd_level)
        for end in (length // 2, *range(length // 2 + 1, length + 1)):
            windows = [ids[0][:end], ids[1][: max(1, end - 2)]]
            logits = engine.next_logits(windows)
            for row, window in enumerate(windows):
                before = expected[row, len(window) - 1]
                assert_same_logits(logits[row], before, config, precision)


@pytest.mark.numerical
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_rounding_the_weights_changes_the_logits_as_little_as_the_weights(precision):
    """To first order, the relative errors of the matrices add up along the longest path."""
    config = dataclasses.replace(CONFIG, d_model=64, d_ff=160, context_length=64, vocab_size=200)
    model = random_model(int(torch.randint(1000, ())), config=config)
    ids = torch.randint(200, (64,)).tolist()
    with torch.no_grad():
        exact = model.double()(torch.tensor([ids]))[0, -1]
    logits = Compiled(model.float(), 1, precision).next_logits([ids])[0]
    errors = {}
    for name, module in model.named_modules():
        if isinstance(module, Linear):
            weight = module.weight.detach()
            errors[name] = float((rounded(weight, precision) - weight).norm() / weight.norm())
    limit = sum(errors.values())  # longer than any path
    error = float((logits.double() - exact).norm() / exact.norm())
    assert max(errors.values()) / 10 < error < limit < 0.2


@pytest.mark.parametrize("bigram_rows", [0, 23])
def test_cut_windows_and_texts_that_end(bigram_rows, monkeypatch):
    """The engines keep the right rows and start again after a window is cut."""
    model = random_model(3, config=dataclasses.replace(CONFIG, bigram_rows=bigram_rows))
    prompts = [[1, 2, 3], [4], [5] * 8, [6, 7], [8] * 11]
    texts = {}
    for name in ("Recomputing", "Cached", "Compiled"):
        engine_type = getattr(engines, name)

        def engine(model, num_texts, use_cache, precision, engine_type=engine_type):
            return engine_type(model) if engine_type is Recomputing else engine_type(
                model, num_texts, *([precision] if engine_type is Compiled else [])
            )  # fmt: skip

        monkeypatch.setattr(generate_module, "choose_engine", engine)
        seeds = [torch.Generator().manual_seed(seed) for seed in range(5)]
        texts[name] = generate_batch(model, prompts, 20, eos_id=1, generators=seeds)
        alone = [
            [*generate(model, prompt, 20, eos_id=1, generator=torch.Generator().manual_seed(seed))]
            for seed, prompt in enumerate(prompts)
        ]
        assert texts[name] == alone
    assert texts["Recomputing"] == texts["Cached"] == texts["Compiled"]
    lengths = {len(text) for text in texts["Cached"]}
    assert 20 in lengths  # one was cut several times
    assert min(lengths) < 20  # and another ended before


def test_any_number_of_threads_gives_the_same_logits():
    config = dataclasses.replace(CONFIG, context_length=300, d_model=48, d_ff=130, vocab_size=700)
    model = random_model(config=config)
    ids = torch.randint(700, (280,)).tolist()
    before = torch.get_num_threads()
    results = []
    try:
        for num_threads in (1, 2, 5):
            torch.set_num_threads(num_threads)
            engine = Compiled(model, 1, "int8")
            lengths = (270, *range(271, 281))  # more than are computed at a time
            results.append([engine.next_logits([ids[:n]]).clone() for n in lengths])
    finally:
        torch.set_num_threads(before)
    for others in results[1:]:
        assert all(map(torch.equal, results[0], others))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_copy_of_the_process_has_no_threads_but_continues():
    model = random_model(config=CONFIG)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        engine = Compiled(model, 1, "int8")
        engine.next_logits([[1] * 8])  # starts the threads
        expected = Compiled(model, 1, "int8").next_logits([[1, 2, 3]])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of fork in a process with threads
            process = os.fork()
        if process == 0:
            equal = False
            try:
                equal = torch.equal(engine.next_logits([[1, 2, 3]]), expected)
                del engine
            finally:
                os._exit(0 if equal else 1)
    finally:
        torch.set_num_threads(before)
    assert os.waitpid(process, 0)[1] == 0


def test_the_fastest_engine_that_computes_the_same_is_chosen(monkeypatch):
    monkeypatch.setattr(engines, "is_fast", lambda: True)

    def chosen(model, use_cache=True, precision="float32"):
        return type(choose_engine(model, 1, use_cache, precision))

    model = random_model(config=CONFIG)
    assert chosen(model) is Compiled
    assert chosen(model, use_cache=False) is Recomputing
    assert chosen(TransformerLM(CONFIG, dropout=0.5).eval()) is Compiled
    assert chosen(TransformerLM(CONFIG, dropout=0.5)) is Cached  # drops features
    assert chosen(TransformerLM(CONFIG).double()) is Cached
    assert chosen(TransformerLM(CONFIG).bfloat16()) is Cached
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert chosen(model) is Cached

    class Own(TransformerLM):
        pass

    assert chosen(Own(CONFIG)) is Cached
    replaced = TransformerLM(CONFIG)
    replaced.layers[1].ffn = torch.nn.Identity()
    assert chosen(replaced) is Cached
    hooked = TransformerLM(CONFIG)
    handle = hooked.layers[0].register_forward_hook(lambda *_: None)
    assert chosen(hooked) is Cached
    handle.remove()
    assert chosen(hooked) is Compiled
    extended = TransformerLM(CONFIG)
    extended.layers[1].attn.gate = torch.nn.Parameter(torch.ones(2))
    assert chosen(extended) is Cached
    monkeypatch.setattr(engines, "is_fast", lambda: False)
    assert chosen(model, precision="int8") is Cached


def test_the_compiled_model_has_every_option_of_the_model():
    """If this fails, add the option to native/inference/ and to VARIANTS, or to engines.py."""
    # on a trained model
    without_effect = {"attention", "zero_init", "previous_token_heads", "induction_heads"}
    known = {"vocab_size", "num_layers", "d_ff", "tied_embeddings", "embedding_scale", "position"}
    known |= {name for values in VARIANTS for name in values}
    assert {field.name for field in dataclasses.fields(ModelConfig)} == known | without_effect


@pytest.mark.parametrize(
    ("fast", "least", "use_cache", "expected"),
    [
        (True, 1000, True, "int8"),
        (True, 1000, False, "int8"),
        (True, 10**6, True, "float32"),
        (False, 1000, True, "float32"),
    ],
)
def test_auto_rounds_only_if_this_is_faster(fast, least, use_cache, expected, monkeypatch):
    monkeypatch.setattr(engines, "is_fast", lambda: fast)
    monkeypatch.setattr(engines, "_INT8_PAYS", least)
    model = random_model(config=CONFIG)
    logits = [
        choose_engine(model, 1, use_cache, precision).next_logits([[1, 2, 3]]).detach()
        for precision in ("auto", expected)
    ]
    assert torch.equal(*logits)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("use_cache", [True, False])
def test_weights_that_are_not_finite_are_reported(precision, use_cache):
    for value in (torch.nan, torch.inf):
        model = random_model(config=CONFIG)
        with torch.no_grad():
            model.layers[1].ffn.w1.weight[3, 5] = value
        new_ids = generate(model, [1, 2], 3, use_cache=use_cache, precision=precision)
        with rejects("logits"):
            next(new_ids)


def test_the_weights_of_the_call_are_used():
    model = random_model(config=CONFIG)
    for precision in PRECISIONS:
        before = Compiled(model, 1, precision).next_logits([[1, 2]]).clone()
        with torch.no_grad():
            model.layers[0].ffn.w1.weight.mul_(2)
        assert not torch.equal(Compiled(model, 1, precision).next_logits([[1, 2]]), before)


def test_unknown_precisions_are_rejected_at_the_call():
    with rejects("precision", "int4"):
        generate(random_model(config=CONFIG), [1], 3, Sampling(0), precision="int4")


def test_a_model_that_is_not_contiguous_is_read_correctly():
    model = random_model(config=CONFIG)
    expected = Compiled(model, 1, "float32").next_logits([[1, 2]]).clone()
    layer = model.layers[0].ffn.w1
    layer.weight = torch.nn.Parameter(layer.weight.detach().T.contiguous().T)
    assert not layer.weight.is_contiguous()
    assert torch.equal(Compiled(model, 1, "float32").next_logits([[1, 2]]), expected)
    cache = KVCache(CONFIG)
    torch.testing.assert_close(model(torch.tensor([[1, 2]]), cache)[:, -1].detach(), expected)
