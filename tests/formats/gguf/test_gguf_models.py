"""GGUF files contain every weight and field. Models that llama.cpp cannot run are rejected."""

from __future__ import annotations

import dataclasses
import math
import sys

import numpy as np
import pytest
import torch

from cs336_basics._support.errors import OutputExistsError, RunError, UnavailableError
from cs336_basics.formats import ModelCard, check_model, export_model
from cs336_basics.formats.chat_template import CHAT_TEMPLATE
from cs336_basics.formats.gguf.export import WEIGHT_TYPES
from cs336_basics.formats.gguf.gguf_models import _tokenizer_fields
from cs336_basics.formats.model_families import family_of
from cs336_basics.model import ModelConfig
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.post_processor import PostProcessor
from tests.errors import rejects
from tests.formats.exported import trained
from tests.formats.models import random_model
from tests.tokenizer.examples import END, byte_tokenizer

gguf = pytest.importorskip("gguf", reason="needs gguf: pip install 'cs336-basics[gguf]'")

SMALL = ModelConfig(
    vocab_size=264,
    context_length=24,
    d_model=64,
    num_layers=2,
    num_heads=4,
    d_ff=96,
    rope_theta=5000.0,
    norm_eps=1e-6,
)
CONFIGS = {
    "default": SMALL,
    "qk_norm": dataclasses.replace(SMALL, qk_norm=True),
    "tied": dataclasses.replace(SMALL, tied_embeddings=True),
    "biases": dataclasses.replace(SMALL, qkv_bias=True, num_kv_heads=2),
    "llama 3": dataclasses.replace(
        SMALL,
        num_kv_heads=1,
        head_dim=32,
        rope_scaling=(8.0, 1.0, 4.0, 64.0),
        tied_embeddings=True,
        embedding_scale=1.0,
    ),
    "odd": dataclasses.replace(SMALL, d_model=42, num_heads=3, d_ff=37, num_layers=1),
}
TOKENIZER = byte_tokenizer(END, "<|pad|>", merges=[(b" ", b"t"), (b" t", b"h")])


def exported(tmp_path, config=SMALL, tokenizer=TOKENIZER, model=None, name="small.gguf", **options):
    """Export a model. Return the model, the path to the file, and the gguf package's reader."""
    model = model or random_model(config=config)
    path = tmp_path / name
    export_model(model, tokenizer, "gguf", path, **options)
    return model, path, gguf.GGUFReader(path)


def tensors(reader):
    return {tensor.name: tensor for tensor in reader.tensors}


def value(tensor):
    return gguf.dequantize(tensor.data, tensor.tensor_type)


@pytest.mark.parametrize("name", CONFIGS)
def test_float32_weights_are_exact_and_have_the_names_of_llama_cpp(tmp_path, name):
    config = CONFIGS[name]
    model, _, reader = exported(tmp_path, config)
    own, found = model.state_dict(), tensors(reader)
    head = own["token_embeddings.weight" if config.tied_embeddings else "lm_head.weight"]
    expected = {
        "token_embd": own["token_embeddings.weight"] * config.embedding_factor,
        "output": head,
        "output_norm": own["ln_final.weight"],
    }
    if config.tied_embeddings and config.embedding_scale == 1:
        del expected["output"]
    if config.rope_scaling is not None:  # llama.cpp divides the frequencies by these numbers
        turns = 64 * 5000.0 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32) / (2 * math.pi)
        kept = ((turns - 1) / 3).clamp(0, 1)
        divisors = 1 / ((1 - kept) / 8 + kept)
        assert set(divisors.tolist()) >= {1.0, 8.0}
        expected["rope_freqs"] = divisors.float()
    pairs = {"attn_norm": "ln1", "ffn_norm": "ln2", "ffn_gate": "ffn.w1", "ffn_up": "ffn.w3",
             "ffn_down": "ffn.w2", "attn_v": "attn.v_proj",
             "attn_output": "attn.output_proj"}  # fmt: skip
    rotated = {"attn_q": "attn.q_proj", "attn_k": "attn.k_proj"}
    if config.qk_norm:
        rotated |= {"attn_q_norm": "attn.q_norm", "attn_k_norm": "attn.k_norm"}
    architecture = family_of(config)
    for layer in range(config.num_layers):
        names = [(theirs, ours, "weight") for theirs, ours in (pairs | rotated).items()]
        if config.qkv_bias:
            names += [(f"attn_{part}", f"attn.{part}_proj", "bias") for part in "qkv"]
        for theirs, ours, kind in names:
            weight = own[f"layers.{layer}.{ours}.{kind}"]
            if architecture != "llama" and theirs in rotated:  # Llama rotates pairs, Qwen halves
                heads = weight.view(-1, config.d_head // 2, 2, *weight.shape[1:])
                weight = torch.cat((heads[:, :, 0], heads[:, :, 1]), dim=1).view(weight.shape)
            expected[f"blk.{layer}.{theirs}" + ".bias" * (kind == "bias")] = weight
    expected = {
        key if key.endswith(".bias") else f"{key}.weight": weight
        for key, weight in expected.items()
    }
    assert found.keys() == expected.keys()
    for key, weight in expected.items():
        tensor = found[key]
        assert tensor.tensor_type == gguf.GGMLQuantizationType.F32
        assert np.array_equal(value(tensor), weight.numpy()), key
    assert contents(reader)["general.architecture"] == architecture
    assert contents(reader)[f"{architecture}.attention.head_count_kv"] == config.kv_heads
    assert contents(reader)[f"{architecture}.rope.dimension_count"] == config.d_head


@pytest.mark.parametrize("type", ["f16", "q8_0"])
@pytest.mark.parametrize("name", CONFIGS)
def test_smaller_types_are_rounded_and_gains_are_exact(tmp_path, name, type):
    model = random_model(config=CONFIGS[name])
    _, _, single = exported(tmp_path, model=model, name="single.gguf")
    _, path, coarse = exported(tmp_path, model=model, name="coarse.gguf", type=type)
    for key, tensor in tensors(coarse).items():
        exact, found = value(tensors(single)[key]), value(tensor)
        if exact.ndim == 1:
            assert tensor.tensor_type.name == "F32"
            assert np.array_equal(found, exact)
        elif type == "f16" or exact.shape[1] % 32:
            assert tensor.tensor_type.name == "F16"
            assert np.array_equal(found, exact.astype(np.float16).astype(np.float32)), key
        else:
            assert tensor.tensor_type.name == "Q8_0"
            blocks = np.abs(exact).reshape(-1, 32)
            step = blocks.max(axis=1, keepdims=True) / 127
            assert (np.abs(found - exact).reshape(-1, 32) <= 0.57 * step).all(), key
    line = check_model(model, TOKENIZER, "gguf", path, type=type).lines[0]
    assert f" and {len(coarse.tensors)} weights (" in line


def contents(reader):
    return {
        key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")
    }


def test_a_model_trained_on_prompts_and_answers_contains_the_chat_template(tmp_path):
    for chats in (False, True):
        card = ModelCard(chats=chats)
        config = dataclasses.replace(SMALL, vocab_size=262)
        _, _, reader = exported(tmp_path, config, card=card, name=f"{chats}.gguf")
        template = contents(reader).get("tokenizer.chat_template")
        assert template == (CHAT_TEMPLATE if chats else None)


def test_the_metadata_describes_the_model(tmp_path):
    losses = {"validation loss": 1.53129}
    card = ModelCard({"training: t.txt": "ab12"}, 500, 1_024_000, losses, {"started from": "base"})
    config = dataclasses.replace(SMALL, vocab_size=262)
    _, _, reader = exported(tmp_path, config, card=card, type="q8_0", name="A Storyteller.v2.gguf")
    found = contents(reader)
    vocab = {key: found.pop(f"tokenizer.ggml.{key}") for key in ("tokens", "token_type", "merges")}
    description = found.pop("general.description")
    assert description.endswith(
        "; 500 steps; 1,024,000 tokens; validation loss 1.5313; training: t.txt (SHA-256 ab12); "
        "started from base"
    )
    assert found == {
        "general.architecture": "llama",
        "general.type": "model",
        "general.name": "A Storyteller.v2",
        "general.license": "unknown",
        "general.file_type": gguf.LlamaFileType.MOSTLY_Q8_0,
        "general.quantization_version": gguf.GGML_QUANT_VERSION,
        "llama.vocab_size": 262,
        "llama.context_length": 24,
        "llama.embedding_length": 64,
        "llama.block_count": 2,
        "llama.feed_forward_length": 96,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 4,
        "llama.attention.key_length": 16,
        "llama.attention.value_length": 16,
        "llama.attention.layer_norm_rms_epsilon": float(np.float32(1e-6)),
        "llama.rope.dimension_count": 16,
        "llama.rope.freq_base": 5000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.bos_token_id": 258,
        "tokenizer.ggml.eos_token_id": 258,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
    }
    assert vocab["tokens"][256:] == ["Ġt", "Ġth", END, "<|pad|>", "[PAD260]", "[PAD261]"]
    assert vocab["token_type"] == [1] * 258 + [3] * 2 + [5] * 2
    assert vocab["merges"] == ["Ġ t", "Ġt h"]


def test_a_file_name_that_is_not_utf8_is_escaped_in_the_name_of_the_model(tmp_path):
    try:
        _, _, reader = exported(tmp_path, name="caf\udce9.gguf")
    except OSError:
        pytest.skip("this file system has only Unicode names")
    assert reader.fields["general.name"].contents() == r"caf\xe9"


@pytest.mark.parametrize("type", WEIGHT_TYPES)
def test_check_finds_a_changed_weight(tmp_path, type):
    model, path, reader = exported(tmp_path, type=type)
    offset = int(tensors(reader)["blk.1.ffn_up.weight"].data_offset)
    del reader
    data = bytearray(path.read_bytes())
    data[offset + 3] ^= 0x41
    path.write_bytes(data)
    with rejects(None, "blk.1.ffn_up.weight", kind=RunError):
        check_model(model, TOKENIZER, "gguf", path, type=type)


def test_check_finds_a_different_model_type_and_vocabulary(tmp_path):
    model, path, _ = exported(tmp_path)
    other = byte_tokenizer(END, "<|pad|>", merges=[(b" ", b"t"), (b"t", b"h")])
    with rejects(None, "tokenizer.ggml.", kind=RunError):
        check_model(model, other, "gguf", path)
    with rejects(None, "general.file_type", 0, kind=RunError, place="small.gguf"):
        check_model(model, TOKENIZER, "gguf", path, type="f16")
    tied = random_model(config=dataclasses.replace(SMALL, d_ff=100))
    with rejects(None, "llama.feed_forward_length", 96, kind=RunError):
        check_model(tied, TOKENIZER, "gguf", path)


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"tokenizer": byte_tokenizer(merges=[(b"a", b"b")])}, (None, END)),
        ({"tokenizer": byte_tokenizer(END)}, (None, "merges")),
        ({"name": "tiny-Phi3.gguf"}, (None, "'tiny-Phi3'")),
        ({"type": "q4_0"}, ("type", "'q4_0'")),
        ({"config": dataclasses.replace(SMALL, num_layers=513, d_model=2, num_heads=1, d_ff=1)},
         (None, 513)),
        ({"config": dataclasses.replace(SMALL, qkv_bias=True, head_dim=8)}, ("head_dim", 8)),
    ],
)  # fmt: skip
def test_an_export_that_llama_cpp_cannot_run_is_refused_before_writing(tmp_path, options, fields):
    with rejects(*fields):
        exported(tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_weight_that_is_not_finite_is_refused(tmp_path, bad):
    model = random_model(config=SMALL)
    with torch.no_grad():
        model.layers[0].ffn.w3.weight[3, 5] = bad
    with rejects(None, "layers.0.ffn.w3.weight"):
        exported(tmp_path, model=model)


@pytest.mark.parametrize(("type", "large"), [("f16", 7e4), ("q8_0", 1e7)])
def test_a_weight_that_is_too_large_for_the_type_is_refused(tmp_path, type, large):
    model = random_model(config=SMALL)
    with torch.no_grad():
        model.lm_head.weight[3, 5] = -large
    with rejects(None, "output.weight", type):
        exported(tmp_path, model=model, type=type)
    exported(tmp_path, model=model)


def test_an_existing_file_is_replaced_only_if_asked(tmp_path):
    model, path, _ = exported(tmp_path)
    with rejects(None, path, kind=OutputExistsError):
        exported(tmp_path)
    exported(tmp_path, model=model, type="f16", overwrite=True)
    check_model(model, TOKENIZER, "gguf", path, type="f16")


def test_a_repeated_export_has_the_same_bytes(tmp_path):
    model, path, _ = exported(tmp_path, type="q8_0")
    (tmp_path / "again").mkdir()
    _, again, _ = exported(tmp_path / "again", model=model, type="q8_0")
    assert again.read_bytes() == path.read_bytes()


def test_a_missing_gguf_is_named_with_the_command_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with rejects(None, "'cs336-basics[gguf]'", kind=UnavailableError):
        export_model(random_model(config=SMALL), TOKENIZER, "gguf", tmp_path / "a.gguf")
    assert list(tmp_path.iterdir()) == []


def test_ids_that_the_post_processor_adds_become_bos_and_eos():
    plain = trained("gpt2")
    end, start, stop = map(plain.special_token_id, (END, "<|im_start|>", "<|im_end|>"))

    def fields(*single):
        post_processor = PostProcessor(single, (*single, "B")) if single else None
        definition = plain.definition.replaced(post_processor=post_processor)
        found = _tokenizer_fields(Tokenizer.of(definition), len(plain))
        names = ("bos_token_id", "eos_token_id", "add_bos_token", "add_eos_token")
        return tuple(found[f"tokenizer.ggml.{name}"] for name in names)

    assert fields() == (end, end, False, False)
    assert fields(start, "A") == (start, end, True, False)
    assert fields(start, "A", stop) == (start, stop, True, True)
    assert fields("A", stop) == (end, stop, False, True)
    for single in ((start, start, "A"), ("A", "A")):
        with rejects(None, "one id before"):
            fields(*single)
