"""The language model: names, causality, and agreement with an independent implementation."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math

import numpy
import pytest
import torch
from torch.testing import assert_close

from cs336_basics._support.errors import InputTypeError
from cs336_basics.model import ModelConfig, RotaryPositionalEmbedding, TransformerLM
from cs336_basics.model.attention import CAUSAL_ATTENTION
from cs336_basics.model.bigrams import bigram_rows
from cs336_basics.model.inspection import attention_weights
from cs336_basics.model.kv_cache import KVCache
from tests.errors import rejects
from tests.numerics import assert_close_rounded, make_tables_exact

SMALL = ModelConfig(
    vocab_size=50,
    context_length=12,
    d_model=16,
    num_layers=2,
    num_heads=2,
    d_ff=24,
    rope_theta=500.0,  # not the defaults, so that ignored values are noticed
    norm_eps=1e-2,
)
VARIANTS = [
    dataclasses.replace(SMALL, norm=norm, position=position, ffn=ffn)
    for norm, position, ffn in itertools.product(
        ("pre", "post", "none"), ("rope", "none"), ("swiglu", "silu")
    )
]
SWITCHES = {
    "qk_norm": True,
    "tied_embeddings": True,
    "zero_init": True,
    "logit_soft_cap": 2.0,
    "num_kv_heads": 1,
    "head_dim": 6,
    "qkv_bias": True,
    "embedding_scale": 0.7,
    "bigram_rows": 37,
}
VARIANTS += [dataclasses.replace(SMALL, **{name: value}) for name, value in SWITCHES.items()]
VARIANTS += [dataclasses.replace(SMALL, **SWITCHES)]
VARIANTS += [dataclasses.replace(SMALL, num_heads=4, num_kv_heads=2)]


def variant_name(config):
    switches = [name for name in SWITCHES if getattr(config, name)]
    return "-".join([config.norm, config.position, config.ffn, *switches])


every_variant = pytest.mark.parametrize("config", VARIANTS, ids=variant_name)
# Variants that cover every value of every option. Longer tests mark all other variants as slow.
QUICK = [
    dataclasses.replace(SMALL, **SWITCHES),
    dataclasses.replace(SMALL, norm="post", position="none", ffn="silu"),
    dataclasses.replace(SMALL, norm="none"),
]


def slow_except(*quick):
    """Parametrize a test with all variants, and mark all but some as slow."""
    return pytest.mark.parametrize(
        "config",
        [
            pytest.param(config, marks=[] if config in quick else pytest.mark.slow)
            for config in VARIANTS
        ],
        ids=variant_name,
    )


every_variant_slowly = slow_except(*QUICK)


# names and structure


def expected_names(config):
    names = ["token_embeddings.weight"]
    if not config.tied_embeddings:
        names.append("lm_head.weight")
    if config.bigram_rows:
        names += ["bigram_embeddings.weight", "bigram_embeddings.scale"]
    if config.norm == "pre":
        names.append("ln_final.weight")
    for i in range(config.num_layers):
        names += [f"layers.{i}.attn.{p}_proj.weight" for p in ("q", "k", "v", "output")]
        if config.qkv_bias:
            names += [f"layers.{i}.attn.{p}_proj.bias" for p in ("q", "k", "v")]
        names += [f"layers.{i}.ffn.{w}.weight" for w in ("w1", "w2")]
        if config.qk_norm:
            names += [f"layers.{i}.attn.{name}_norm.weight" for name in ("q", "k")]
        if config.ffn == "swiglu":
            names.append(f"layers.{i}.ffn.w3.weight")
        if config.norm != "none":
            names += [f"layers.{i}.ln1.weight", f"layers.{i}.ln2.weight"]
    return set(names)


@every_variant
def test_state_dict_has_the_documented_names(config):
    model = TransformerLM(config)
    assert set(model.state_dict()) == expected_names(config)
    assert {name for name, _ in model.named_parameters()} == expected_names(config)


def test_all_layers_share_one_rope():
    model = TransformerLM(dataclasses.replace(SMALL, num_layers=5))
    assert len(list(model.buffers())) == 2  # cos and sin, once
    assert len({id(layer.attn.rope) for layer in model.layers}) == 1
    duplicate = copy.deepcopy(model).double()
    assert len(list(duplicate.buffers())) == 2
    assert not any(isinstance(m, RotaryPositionalEmbedding) for m in no_rope().modules())


def no_rope():
    return TransformerLM(dataclasses.replace(SMALL, position="none"))


# behavior


def independent_forward(config, weights, ids):
    """Compute the logits independently, with torch.nn.functional and complex numbers."""
    F = torch.nn.functional

    def norm(x, name):
        return F.rms_norm(x, x.shape[-1:], weights[name], config.norm_eps)

    def rotate(x):
        position = torch.arange(x.shape[-2], dtype=torch.float64)
        feature = torch.arange(config.d_head // 2, dtype=torch.float64)
        angle = position[:, None] * config.rope_theta ** (-2 * feature / config.d_head)
        pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
        turned = pairs * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(turned).flatten(-2).to(x.dtype)

    def attention(x, prefix):
        def heads(name):
            bias = weights.get(f"{prefix}.attn.{name}_proj.bias")
            y = F.linear(x, weights[f"{prefix}.attn.{name}_proj.weight"], bias)
            return y.unflatten(-1, (-1, config.d_head)).transpose(-2, -3)

        q, k, v = heads("q"), heads("k"), heads("v")
        shared = config.num_heads // (config.num_kv_heads or config.num_heads)
        k, v = (
            torch.stack([y[..., head // shared, :, :] for head in range(config.num_heads)], -3)
            for y in (k, v)
        )
        if config.qk_norm:
            q, k = norm(q, f"{prefix}.attn.q_norm.weight"), norm(k, f"{prefix}.attn.k_norm.weight")
        if config.position == "rope":
            q, k = rotate(q), rotate(k)
        scores = q @ k.mT / math.sqrt(config.d_head)
        scores = scores + torch.full(scores.shape[-2:], -math.inf).triu(1)
        mixed = (torch.softmax(scores, -1) @ v).transpose(-2, -3).flatten(-2)
        return F.linear(mixed, weights[f"{prefix}.attn.output_proj.weight"])

    def feed_forward(x, prefix):
        inner = F.silu(F.linear(x, weights[f"{prefix}.ffn.w1.weight"]))
        if config.ffn == "swiglu":
            inner = inner * F.linear(x, weights[f"{prefix}.ffn.w3.weight"])
        return F.linear(inner, weights[f"{prefix}.ffn.w2.weight"])

    x = F.embedding(ids, weights["token_embeddings.weight"])
    if config.bigram_rows:
        before = F.pad(ids, (1, 0), value=-1)[..., :-1]
        rows = bigram_rows(before, ids, config.bigram_rows)
        scale = torch.diag(weights["bigram_embeddings.scale"])
        x = x + F.embedding(rows, weights["bigram_embeddings.weight"]) @ scale
    if config.embedding_scale is not None:
        x = x * config.embedding_scale
    elif config.tied_embeddings:
        x = x * math.sqrt(config.d_model)
    for i in range(config.num_layers):
        prefix = f"layers.{i}"
        for sublayer, gain in ((attention, "ln1"), (feed_forward, "ln2")):
            if config.norm == "pre":
                x = x + sublayer(norm(x, f"{prefix}.{gain}.weight"), prefix)
            elif config.norm == "post":
                x = norm(x + sublayer(x, prefix), f"{prefix}.{gain}.weight")
            else:
                x = x + sublayer(x, prefix)
    if config.norm == "pre":
        x = norm(x, "ln_final.weight")
    head = "token_embeddings" if config.tied_embeddings else "lm_head"
    logits = F.linear(x, weights[f"{head}.weight"])
    cap = config.logit_soft_cap
    return logits if cap is None else cap * torch.tanh(logits / cap)


def randomize(model):
    """Randomize weights that start at 1 or 0, so that missing or misplaced ones are noticed."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "ln" in name or "norm" in name or "scale" in name:
                parameter.uniform_(0.5, 1.5)
            elif not parameter.any():
                parameter.normal_(std=0.2)
    return model


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
@every_variant
@pytest.mark.parametrize("attention", CAUSAL_ATTENTION)
def test_model_equals_an_independent_implementation(config, attention):
    model = randomize(TransformerLM(dataclasses.replace(config, attention=attention)))
    if config.position == "rope":
        make_tables_exact(model.layers[0].attn.rope, config.rope_theta)  # shared by all layers
    ids = torch.randint(0, 50, (3, 2, 9))
    expected = independent_forward(config, model.state_dict(), ids)
    assert_close(model(ids), expected)


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
@every_variant_slowly
@pytest.mark.parametrize("attention", CAUSAL_ATTENTION)
@pytest.mark.parametrize("recompute", [False, True])
def test_documents_in_a_sequence_have_the_logits_of_each_alone(config, attention, recompute):
    model = TransformerLM(dataclasses.replace(config, attention=attention), recompute=recompute)
    for parameter in model.parameters():  # some weights start at zero
        torch.nn.init.normal_(parameter, std=0.5)
    for module in model.modules():
        if isinstance(module, RotaryPositionalEmbedding):
            make_tables_exact(module, config.rope_theta)
    ids = torch.randint(0, 50, (3, 12))
    documents = (torch.rand(3, 12) < 0.3).cumsum(-1)
    found = model(ids, documents=documents)
    for row, numbers in enumerate(documents):
        _, lengths = numbers.unique_consecutive(return_counts=True)
        alone = [model(part[None])[0] for part in ids[row].split(lengths.tolist())]
        assert_close(found[row], torch.cat(alone))
    gradients = torch.autograd.grad(found.square().sum(), list(model.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_documents_must_fit_the_ids_and_need_no_cache():
    model, ids = TransformerLM(SMALL), torch.zeros(2, 5, dtype=torch.long)
    with rejects("documents", "(2, 5)", "(5,)"):
        model(ids, documents=ids[0])
    with rejects("documents", "cache"):
        model(ids, KVCache(SMALL, 2), documents=ids)


def test_the_reference_does_not_call_the_fused_kernel(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("called")

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", fail)
    ids = torch.zeros(3, dtype=torch.long)
    TransformerLM(dataclasses.replace(SMALL, attention="reference"))(ids)
    with pytest.raises(AssertionError, match="called"):
        TransformerLM(dataclasses.replace(SMALL, attention="sdpa"))(ids)


def test_zero_init_makes_every_block_the_identity():
    model = TransformerLM(dataclasses.replace(SMALL, zero_init=True))
    x = torch.randn(2, 5, 16)
    for layer in model.layers:
        assert torch.equal(layer(x), x)
    # All other weights are the same as without zero_init.
    torch.manual_seed(3)
    plain = TransformerLM(SMALL).state_dict()
    torch.manual_seed(3)
    zeroed = TransformerLM(dataclasses.replace(SMALL, zero_init=True)).state_dict()
    for name, value in zeroed.items():
        is_last = name.endswith(("output_proj.weight", "w2.weight"))
        assert torch.equal(value, torch.zeros_like(value) if is_last else plain[name])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "none"},
        {"tied_embeddings": True},
        {"tied_embeddings": True, "embedding_scale": 1.0},
        {"tied_embeddings": True, "embedding_scale": 2.0, "norm": "none"},
        {"qk_norm": True},
        {"num_kv_heads": 2},
    ],
    ids=str,
)
def test_previous_token_heads_start_by_attending_to_the_tokens_before(options):
    config = dataclasses.replace(SMALL, d_model=128, num_heads=4, norm_eps=1e-6, **options)
    torch.manual_seed(3)
    plain = TransformerLM(config)
    torch.manual_seed(3)
    model = TransformerLM(dataclasses.replace(config, previous_token_heads=2))
    keys = []
    projection = model.layers[0].attn.k_proj
    projection.register_forward_hook(lambda module, inputs, output: keys.append(output))
    weights = attention_weights(model, torch.arange(12), 0)  # (4, 12, 12)
    # The scores have the same scale with and without a norm before the projection.
    assert float(keys[0][..., 0].mean()) == pytest.approx(math.sqrt(4 * math.sqrt(32)), rel=0.05)
    for head, distance in ((0, 1), (1, 2)):
        means = [float(weights[head].diagonal(-other).mean()) for other in range(12)]
        assert max(means) == means[distance] > 0.4
        if config.norm == "none" or config.qk_norm:  # otherwise, the sizes of the keys differ
            nearest = weights[head].argmax(-1)[distance:]
            assert torch.equal(nearest, torch.arange(12 - distance))
        if config.norm == "none":  # every token then has the same key, so the formula is exact
            angles = config.rope_theta ** (-torch.arange(8) / 16)  # the faster half of 16 pairs
            turned = torch.arange(11, -1, -1) - distance  # at the last position
            scores = 4 * torch.cos(turned[:, None] * angles).sum(-1)
            assert_close(weights[head, -1], scores.softmax(-1), atol=1e-5, rtol=1e-4)
    for name, value in model.state_dict().items():
        if name == "token_embeddings.weight":
            kept = value[:, 1:], plain.state_dict()[name][:, 1:]
        elif name in ("layers.0.attn.q_proj.weight", "layers.0.attn.k_proj.weight"):
            rows = 32 if "k_proj" in name and config.num_kv_heads else 64
            kept = value[rows:], plain.state_dict()[name][rows:]
        else:
            kept = value, plain.state_dict()[name]
        assert torch.equal(*kept)


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({}, 0.4),
        ({"norm": "none"}, 0.4),
        ({"norm": "post"}, 0.4),
        ({"embedding_scale": 3.0}, 0.4),
        ({"tied_embeddings": True}, 0.4),
        ({"num_kv_heads": 2}, 0.4),
        ({"head_dim": 64}, 0.4),
        ({"qk_norm": True}, 0.1),  # which bounds the scores
    ],
    ids=str,
)
def test_induction_heads_start_by_copying_what_followed_the_token_before(options, share):
    config = dataclasses.replace(
        SMALL, context_length=48, d_model=128, num_heads=4, zero_init=True,
        previous_token_heads=2, induction_heads=True, **options,
    )  # fmt: skip
    torch.manual_seed(3)
    model = TransformerLM(config)
    ids = torch.randperm(24).repeat(2)
    current, following = torch.arange(24, 47), torch.arange(1, 24)
    weights = attention_weights(model, ids, 1)[:3].detach()  # (3, 48, 48)
    to_following = weights[:, current, following]
    assert float(to_following.mean()) > share
    # All other tokens share the rest.
    others = (1 - to_following) / current
    assert float(to_following.mean()) > 5 * float(others.mean())
    # The outputs of the heads raise the logits of these tokens most.
    with torch.no_grad():
        logits = model(ids)[current]
        model.layers[1].attn.output_proj.weight.zero_()  # which is zero for the fourth head
        raised = logits - model(ids)[current]  # (23, vocab_size)
    copied = raised.gather(-1, ids[following, None])
    assert float(copied.mean()) > float(raised.mean()) + float(raised.std())


@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2}], ids=str)
def test_only_the_weights_of_induction_heads_start_differently(options):
    config = dataclasses.replace(SMALL, d_model=128, num_heads=4, previous_token_heads=2, **options)
    torch.manual_seed(3)
    plain = TransformerLM(config).state_dict()
    torch.manual_seed(3)
    started = TransformerLM(dataclasses.replace(config, induction_heads=True)).state_dict()
    head = started["lm_head.weight"]
    table = started["token_embeddings.weight"]
    assert_close(head[:, 1:], table[:, 1:] * plain["lm_head.weight"].std())
    keys = 64 if config.num_kv_heads else 96
    changed = {
        "lm_head.weight": head,
        "layers.0.attn.v_proj.weight": started["layers.0.attn.v_proj.weight"][:32],
        "layers.0.attn.output_proj.weight": started["layers.0.attn.output_proj.weight"][:, :32],
        "layers.1.attn.q_proj.weight": started["layers.1.attn.q_proj.weight"][:96],
        "layers.1.attn.k_proj.weight": started["layers.1.attn.k_proj.weight"][:keys],
        "layers.1.attn.v_proj.weight": started["layers.1.attn.v_proj.weight"][:keys],
        "layers.1.attn.output_proj.weight": started["layers.1.attn.output_proj.weight"][:, :96],
    }
    for name, part in changed.items():
        before = plain[name][: part.shape[0], : part.shape[1]]
        assert not torch.equal(part, before)
        part.copy_(before)
    for name, value in started.items():
        assert torch.equal(value, plain[name]), name


def test_a_model_of_one_block_has_no_induction_heads():
    config = dataclasses.replace(SMALL, num_layers=1, d_model=128, previous_token_heads=1)
    torch.manual_seed(3)
    plain = TransformerLM(config).state_dict()
    torch.manual_seed(3)
    model = TransformerLM(dataclasses.replace(config, induction_heads=True))
    assert all(torch.equal(value, plain[name]) for name, value in model.state_dict().items())


def test_tied_embeddings_start_with_the_scale_of_separate_tables():
    config = dataclasses.replace(SMALL, vocab_size=2000, d_model=64, tied_embeddings=True)
    model = TransformerLM(config)
    ids = torch.arange(12)
    embedded = model.token_embeddings(ids) * model.embedding_scale
    assert 0.9 < float(embedded.detach().std()) < 1.1
    assert 0.5 < float(model(ids).detach().std()) < 2


@pytest.mark.parametrize("values", [{"num_kv_heads": 3}, {"num_heads": 3, "head_dim": 5}])
def test_head_counts_and_sizes_that_cannot_be_built_are_rejected(values):
    with rejects(next(reversed(values)), list(values.values())[-1]):
        dataclasses.replace(SMALL, **values)


@pytest.mark.parametrize("attention", CAUSAL_ATTENTION)
def test_gradients_equal_finite_differences(attention):
    config = ModelConfig(
        vocab_size=3,
        context_length=3,
        d_model=4,
        num_layers=1,
        num_heads=2,
        d_ff=3,
        attention=attention,
    )
    model = TransformerLM(config).double()
    names = [name for name, _ in model.named_parameters()]
    ids = torch.tensor([[0, 2, 1]])

    def logits(*weights):
        named = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(model, named, (ids,))

    weights = tuple(p.detach().clone().requires_grad_() for p in model.parameters())
    assert torch.autograd.gradcheck(logits, weights)


def test_model_rejects_long_sequences_and_unknown_ids():
    model = TransformerLM(SMALL)
    for each in (model, no_rope()):
        with rejects("token_ids", 12, 13):
            each(torch.zeros(2, 13, dtype=torch.long))
    for bad in (50, -1):
        with pytest.raises(IndexError, match=f" {bad}$"):
            model(torch.tensor([3, bad]))
    with rejects("token_ids", "uint8", kind=InputTypeError):
        model(torch.zeros(3, dtype=torch.uint8))


# dtypes, devices, compilation


@pytest.mark.numerical
def test_bfloat16_autocast_stays_close_to_float32():
    weights = TransformerLM(SMALL).state_dict()
    ids = torch.randint(0, 50, (2, 12))
    for attention in CAUSAL_ATTENTION:
        model = TransformerLM(dataclasses.replace(SMALL, attention=attention))
        model.load_state_dict(weights)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = model(ids)
        assert low.dtype == torch.bfloat16
        assert_close_rounded(low, model(ids), roundings=20)  # 8 per layer and 4 more
        low.float().square().mean().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters())
        assert model.layers[0].attn.rope.cos.dtype == torch.float32


@pytest.mark.numerical
def test_bfloat16_weights_give_bfloat16_logits():
    model = TransformerLM(SMALL, dtype=torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert {b.dtype for b in model.buffers()} == {torch.float32}
    ids = torch.randint(0, 50, (2, 12))
    low = model(ids)
    assert low.dtype == torch.bfloat16
    assert_close_rounded(low, model.float()(ids), roundings=20)  # 8 per layer and 4 more


def test_device_argument_reaches_parameters_and_tables():
    model = TransformerLM(SMALL, device="meta")
    tensors = [*model.parameters(), *model.buffers()]
    assert {t.device.type for t in tensors} == {"meta"}
    assert model(torch.zeros(2, 5, dtype=torch.long, device="meta")).shape == (2, 5, 50)


@pytest.mark.usefixtures("float64")
@slow_except(QUICK[0])
def test_compiles_into_one_graph(config):
    # "aot_eager" traces both passes like the real compiler but generates no code.
    torch.compiler.reset()  # otherwise the variants reach the recompile limit
    model = TransformerLM(dataclasses.replace(config, num_layers=1))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    ids = torch.randint(0, 50, (2, 12))
    assert_close(compiled(ids), model(ids))
    compiled(ids).square().mean().backward()
    assert all(p.grad is not None for p in model.parameters())
    with rejects("token_ids", 13):
        torch.compile(model, backend="eager")(torch.zeros(13, dtype=torch.long))


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("attention", ["sdpa", "reference"])
def test_compiled_code_equals_uncompiled_code(attention):
    model = TransformerLM(dataclasses.replace(SMALL, attention=attention))
    compiled = torch.compile(model, fullgraph=True)
    ids = torch.randint(0, 50, (2, 12))
    assert_close(compiled(ids), model(ids))
    gradients = []
    for version in (compiled, model):
        model.zero_grad()
        version(ids).square().mean().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize("ids", [[[1, 2]], numpy.array([[1, 2]])])
def test_ids_that_are_no_tensor_are_rejected(ids):
    model = TransformerLM(ModelConfig(vocab_size=8, context_length=4, d_model=8, num_heads=2))
    with rejects("token_ids", "a tensor", "1", kind=InputTypeError):
        model(ids)
