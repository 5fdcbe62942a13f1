"""Softmax, attention and RoPE, compared with torch and with independent formulas."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cs336_basics._support.errors import InputTypeError
from cs336_basics.model import (
    MultiHeadSelfAttention,
    RotaryPositionalEmbedding,
    scaled_dot_product_attention,
    softmax,
)
from cs336_basics.model.attention import (
    CAUSAL_ATTENTION,
    added_mask,
    blocked_causal_attention,
    causal_attention,
    document_mask,
    scaled_frequencies,
)
from tests.errors import rejects
from tests.numerics import assert_close_sums, make_tables_exact, rounding_bound

pytestmark = pytest.mark.numerical

torch_attention = torch.nn.functional.scaled_dot_product_attention


# softmax


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.usefixtures("float64")
def test_softmax_equals_torch(dim):
    x = torch.randn(3, 4, 5, requires_grad=True)
    ours, theirs = softmax(x, dim), torch.softmax(x, dim)
    assert_close(ours, theirs)
    upstream = torch.randn(3, 4, 5)
    assert_close(torch.autograd.grad(ours, x, upstream), torch.autograd.grad(theirs, x, upstream))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=8),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_softmax_of_values_of_any_size_is_a_distribution(values, dtype):
    x = torch.tensor(values, dtype=dtype)
    out = softmax(x, 0)
    assert out.dtype == torch.promote_types(dtype, torch.float32)
    assert (out >= 0).all()
    # The difference, the sum and the quotient are rounded once each. The exponential is within two
    # units in the last place, which counts as four roundings.
    tolerance = rounding_bound(len(values) + 6, out.dtype)
    assert abs(out.double().sum() - 1) <= tolerance
    expected = torch.softmax(x.to(out.dtype), 0)
    assert_close(out, expected, rtol=2 * tolerance, atol=torch.finfo(out.dtype).tiny)


def test_softmax_of_minus_infinity_is_zero():
    x = torch.tensor([[0.0, -math.inf, 0.0], [-math.inf, -math.inf, 5.0]])
    assert_close(softmax(x, -1), torch.tensor([[0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]))
    # No distribution exists if all values are minus infinity.
    assert softmax(torch.full((3,), -math.inf), 0).isnan().all()


# scaled dot-product attention


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.usefixtures("float64")
def test_attention_equals_torch(batch, masked):
    Q = torch.randn(*batch, 5, 8, requires_grad=True)
    K = torch.randn(*batch, 7, 8, requires_grad=True)
    V = torch.randn(*batch, 7, 6, requires_grad=True)
    mask = torch.rand(*batch, 5, 7) < 0.6 if masked else None
    if mask is not None:
        mask[..., 0] = True
    ours = scaled_dot_product_attention(Q, K, V, mask)
    theirs = torch_attention(Q, K, V, attn_mask=mask)
    assert_close(ours, theirs)
    upstream = torch.randn_like(ours)
    assert_close(
        torch.autograd.grad(ours, (Q, K, V), upstream),
        torch.autograd.grad(theirs, (Q, K, V), upstream),
    )


# RoPE


def complex_rope(x, positions, theta):
    """Compute RoPE as in the paper: multiply each pair, a complex number, by e^(i m theta_k)."""
    d_k = x.shape[-1]
    frequencies = theta ** (-2 * torch.arange(d_k // 2, dtype=torch.float64) / d_k)
    turns = torch.exp(1j * positions[..., None].double() * frequencies)
    pairs = torch.complex(x[..., 0::2].double(), x[..., 1::2].double()) * turns
    return torch.view_as_real(pairs).flatten(-2)


def assert_rotated(actual, x, positions, theta):
    """Compare a rotation that uses float32 tables with complex multiplication.

    The angles in the tables are position * frequency, and the frequency is a float32 power. The
    exponent, at most ln(theta) < 10, and the power itself cause about 12 roundings in the angle,
    which become an absolute error of the cosine. The rotation adds three roundings.
    """
    d_k = x.shape[-1]
    frequencies = theta ** (-2 * torch.arange(d_k // 2, dtype=torch.float64) / d_k)
    angles = positions[..., None].double() * frequencies
    sizes = x.double().abs().unflatten(-1, (-1, 2)).sum(-1)  # |even| + |odd|
    scale = (sizes * (1 + angles)).repeat_interleave(2, dim=-1)
    assert_close_sums(actual, complex_rope(x, positions, theta), terms=16, scale=scale)


@pytest.mark.parametrize("shape", [(7, 8), (3, 7, 8), (3, 2, 7, 8), (1, 3, 2, 7, 8)])
@pytest.mark.parametrize("theta", [10_000.0, 500.0])
def test_rope_equals_complex_multiplication(shape, theta):
    x = torch.randn(shape)
    rope = RotaryPositionalEmbedding(theta, 8, 7)
    assert_rotated(rope(x), x, torch.arange(7), theta)
    assert torch.equal(rope(x, torch.arange(7)), rope(x))
    assert torch.equal(rope(x, torch.arange(7, dtype=torch.int32)), rope(x))


def test_rope_broadcasts_positions_with_batch_dimensions():
    x = torch.randn(3, 2, 5, 8)  # (batch, heads, sequence, d_k)
    rope = RotaryPositionalEmbedding(10_000.0, 8, 100)
    positions = torch.randint(0, 100, (3, 5))  # (batch, sequence)
    assert_rotated(rope(x, positions[:, None]), x, positions[:, None, :], 10_000.0)
    assert_rotated(rope(x, positions[:1]), x, positions[0], 10_000.0)
    assert_rotated(rope(x[:, 0], positions), x[:, 0], positions, 10_000.0)


def test_rope_has_float32_tables_that_are_not_saved():
    torch.set_default_dtype(torch.bfloat16)
    try:
        rope = RotaryPositionalEmbedding(10_000.0, 8, 16)
    finally:
        torch.set_default_dtype(torch.float32)
    assert rope.state_dict() == {}
    assert list(rope.parameters()) == []
    assert rope.cos.dtype == rope.sin.dtype == torch.float32
    x = torch.randn(2, 16, 8).bfloat16()
    assert rope(x).dtype == torch.bfloat16
    assert_close(rope(x), rope(x.float()).bfloat16(), atol=0, rtol=0)


def test_llama_scales_slow_frequencies_keeps_fast_ones_and_interpolates_between():
    factor, low, high, context = 8.0, 1.0, 4.0, 64
    turns = torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0, 5.0])  # in the original context
    frequency = turns * 2 * math.pi / context
    found = scaled_frequencies(frequency, factor, low, high, context) / frequency
    smooth = [0, 0, 1 / 3, 2 / 3, 1, 1]
    assert_close(found, torch.tensor([(1 - part) / factor + part for part in smooth]))
    rope = RotaryPositionalEmbedding(500.0, 8, 5, scaling=(factor, low, high, 6.0))
    plain = 500.0 ** (-torch.arange(0, 8, 2) / 8)
    assert_close(rope.cos[1], scaled_frequencies(plain, factor, low, high, 6.0).cos())


@pytest.mark.parametrize(
    ("theta", "d_k", "fields"),
    [(1e4, 7, ("d_k", 7)), *((bad, 8, ("theta", bad)) for bad in (0, -1, math.nan, math.inf))],
)
def test_an_odd_number_of_features_and_a_bad_theta_are_rejected(theta, d_k, fields):
    with rejects(*fields):
        RotaryPositionalEmbedding(theta, d_k, 16)


# the multi-head layer


def torch_multihead(layer, x):
    """Return the result of torch.nn.MultiheadAttention with our weights and a causal mask."""
    theirs = torch.nn.MultiheadAttention(x.shape[-1], layer.num_heads, bias=False, batch_first=True)
    projections = [layer.q_proj.weight, layer.k_proj.weight, layer.v_proj.weight]
    theirs.load_state_dict(
        {"in_proj_weight": torch.cat(projections), "out_proj.weight": layer.output_proj.weight}
    )
    forbidden = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1)
    return theirs(x, x, x, attn_mask=forbidden, need_weights=False)[0]


@pytest.mark.parametrize("attention", CAUSAL_ATTENTION)
@pytest.mark.parametrize("num_heads", [1, 2, 4])
@pytest.mark.usefixtures("float64")
def test_multihead_equals_torch(attention, num_heads):
    layer = MultiHeadSelfAttention(8, num_heads, attention=attention)
    x = torch.randn(3, 5, 8)
    assert_close(layer(x), torch_multihead(layer, x))


@pytest.mark.parametrize("num_blocks", [1, 2, 3, 4, 5, 20])
@pytest.mark.parametrize("sequence", [1, 2, 7, 13])
@pytest.mark.usefixtures("float64")
def test_any_number_of_blocks_equals_the_reference(num_blocks, sequence):
    inputs = [torch.randn(2, 3, sequence, 4, requires_grad=True) for _ in "QKV"]
    expected = causal_attention(*inputs)
    found = blocked_causal_attention(*inputs, num_blocks=num_blocks)
    assert_close(found, expected)
    assert_close(
        torch.autograd.grad(found.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
    )


@pytest.mark.parametrize("implementation", CAUSAL_ATTENTION)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.usefixtures("float64")
def test_attention_within_documents_equals_attention_for_each_alone(implementation, share):
    attend = CAUSAL_ATTENTION[implementation]
    documents = (torch.rand(2, 13) < share).cumsum(-1)
    inputs = [torch.randn(2, 3, 13, 4, requires_grad=True) for _ in "QKV"]
    mask = document_mask(documents)
    found = attend(
        *inputs, mask if implementation == "reference" else added_mask(mask, torch.float64)
    )
    expected = torch.empty_like(found)
    for row, numbers in enumerate(documents):
        for number in numbers.unique():
            place = numbers == number
            alone = (tensor[row, :, place] for tensor in inputs)
            expected[row, :, place] = causal_attention(*alone)
    assert_close(found, expected)
    assert_close(
        torch.autograd.grad(found.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
    )


@pytest.mark.usefixtures("float64")
def test_multihead_passes_positions_to_rope():
    rope = make_tables_exact(RotaryPositionalEmbedding(10_000.0, 8, 50), 10_000.0)
    layer = MultiHeadSelfAttention(16, 2, rope)
    x = torch.randn(3, 6, 16)
    default = layer(x)
    assert_close(layer(x, torch.arange(6)), default)
    assert_close(layer(x, torch.arange(6)[None]), default)
    # Shifting all positions keeps their distances. Scaling the positions changes the distances.
    assert_close(layer(x, torch.arange(6) + 40), default)
    stretched = torch.stack([torch.arange(6), torch.arange(6) * 2, torch.arange(6) * 3])
    out = layer(x, stretched)
    assert_close(out[0], default[0])
    assert not torch.allclose(out[1], default[1], atol=1e-3)
    assert_close(out[2], layer(x[2], torch.arange(6) * 3))


@pytest.mark.parametrize("position", range(3))
def test_numbers_of_other_types_are_rejected(position):
    rope, multihead = (1e4, 8, 16), (16, 2)
    with rejects(("theta", "d_k", "max_seq_len")[position], "None", kind=InputTypeError):
        RotaryPositionalEmbedding(*rope[:position], None, *rope[position + 1 :])
    if position < 2:
        with rejects(("d_model", "num_heads")[position], "'x'", kind=InputTypeError):
            MultiHeadSelfAttention(*multihead[:position], "x", *multihead[position + 1 :])


def test_multihead_rejects_bad_arguments():
    for num_heads in (3, 0, -2):
        with rejects("num_heads", num_heads):
            MultiHeadSelfAttention(16, num_heads)
    with rejects("attention", "'flash'"):
        MultiHeadSelfAttention(16, 2, attention="flash")
    for num_kv_heads in (3, 0, 4):
        with rejects("num_kv_heads", num_kv_heads):
            MultiHeadSelfAttention(16, 2, num_kv_heads=num_kv_heads)
    with rejects("rope", "d_k", 4):
        MultiHeadSelfAttention(16, 2, RotaryPositionalEmbedding(10_000.0, 4, 16))


@pytest.mark.parametrize("implementation", CAUSAL_ATTENTION)
def test_products_beyond_float16_do_not_overflow(implementation):
    # 60 * 60 * 64 exceeds 65,504, the float16 maximum, unless it is divided by sqrt(64).
    Q, V = torch.full((1, 3, 64), 60.0, dtype=torch.float16), torch.ones(1, 3, 64).half()
    out = CAUSAL_ATTENTION[implementation](Q, Q, V)
    assert torch.equal(out, V)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_mask_that_is_not_boolean_is_rejected(dtype):
    q = torch.zeros(2, 4)
    with rejects("mask", dtype, kind=InputTypeError):
        scaled_dot_product_attention(q, q, q, torch.ones(2, 2, dtype=dtype))


@pytest.mark.parametrize("bad", [-1, 8])
def test_positions_beyond_the_table_are_rejected(bad):
    rope = RotaryPositionalEmbedding(10_000.0, 4, 8)
    with pytest.raises(IndexError, match=f" 7, .* {bad}$"):
        rope(torch.zeros(2, 4), torch.tensor([0, bad]))
    with rejects("token_positions", "bool", kind=InputTypeError):  # torch would read a mask
        rope(torch.zeros(2, 4), torch.ones(2, dtype=torch.bool))
    with rejects("x", 8, 9):
        rope(torch.zeros(9, 4))
