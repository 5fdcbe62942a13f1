"""Exported models have the same logits and greedy text in transformers, and can be imported."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re

import pytest
import safetensors.torch
import torch
from safetensors.torch import save_file

from cs336_basics._support.errors import InputTypeError, MissingFileError, RunError
from cs336_basics.formats import check_model, export_model, export_tokenizer
from cs336_basics.formats.agreement import greedy
from cs336_basics.formats.huggingface import load_model
from cs336_basics.formats.huggingface.huggingface_models import find_model
from cs336_basics.formats.huggingface.llama import llama_config, llama_state
from cs336_basics.formats.model_families import FAMILY_NAMES, family_of
from tests.errors import rejects
from tests.formats.exported import trained
from tests.formats.huggingface.test_llama import SMALL
from tests.formats.models import CONFIGURATIONS, random_model
from tests.tokenizer.examples import END, byte_tokenizer

TINY = {"context_length": 32, "d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 24}


@pytest.mark.numerical(seeds=False)  # the bound of 1e-4 is far above the rounding errors
@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=pytest.mark.slow if n % 3 else ()) for n in range(20)]
)
def test_logits_are_within_1e_4_and_64_greedy_tokens_equal(tmp_path, number):
    transformers = pytest.importorskip("transformers")
    values, pattern = CONFIGURATIONS[number]
    tokenizer = trained(pattern)
    model = random_model(number, vocab_size=tokenizer.vocab_size, **values)
    export_model(model, tokenizer, "huggingface", tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, local_files_only=True)
    kind = f"{FAMILY_NAMES[family_of(model.config)]}ForCausalLM"
    assert type(theirs).__name__ == kind
    assert theirs.dtype == torch.float32
    ids = torch.randint(tokenizer.vocab_size, (3, values["context_length"]))
    with torch.inference_mode():
        expected = model(ids)
        difference = (theirs(ids).logits - expected).abs().max()
    assert difference < 1e-4
    imported = load_model(tmp_path)
    torch.testing.assert_close(imported(ids), expected)
    if not values["tied_embeddings"]:
        assert imported.config == model.config
    prompt = tokenizer.encode("Once upon")[:8]
    assert len(prompt) + 64 <= values["context_length"]
    ours = greedy(model, prompt, 64)
    generated = theirs.generate(  # with transformers' cache
        torch.tensor([prompt]), max_new_tokens=64, min_new_tokens=64, do_sample=False,
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long), eos_token_id=None,
    )  # fmt: skip
    assert generated[0, len(prompt) :].tolist() == ours
    assert model.config.vocab_size == theirs.config.vocab_size


# The shapes of published models, made small.
LLAMA_3_SCALING = {
    "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
FOREIGN = {
    "SmolLM-135M": ("Llama", {"num_attention_heads": 9, "num_key_value_heads": 3,
                              "hidden_size": 36, "tie_word_embeddings": True,
                              "rms_norm_eps": 1e-5}),
    "Llama-3.2-1B": ("Llama", {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 8,
                               "tie_word_embeddings": True, "rope_scaling": LLAMA_3_SCALING,
                               "rope_theta": 5e5}),
    "Llama-2": ("Llama", {"num_attention_heads": 4}),
    "Qwen2.5-0.5B": ("Qwen2", {"num_attention_heads": 6, "num_key_value_heads": 2,
                               "hidden_size": 36, "tie_word_embeddings": True,
                               "use_sliding_window": False, "sliding_window": 20,
                               "max_window_layers": 1, "rope_theta": 1e6}),
    "Qwen3-0.6B": ("Qwen3", {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
                             "tie_word_embeddings": True, "rope_theta": 1e6}),
    "Qwen3-8B": ("Qwen3", {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
                           "tie_word_embeddings": False}),
}  # fmt: skip


def foreign_model(name, directory, vocab_size=99, **settings):
    """Save a small random model of the shape of a published one, and return it."""
    transformers = pytest.importorskip("transformers")
    family, values = FOREIGN[name]
    config = getattr(transformers, f"{family}Config")(
        **{"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
           "max_position_embeddings": 50, "vocab_size": vocab_size,
           "initializer_range": 0.2, **values},
    )  # fmt: skip
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    for key, parameter in model.named_parameters():
        if "norm" in key or "bias" in key:  # not their first values, 1 and 0
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    model.save_pretrained(directory, **settings)
    return model


def losses_of(ours, theirs, ids):
    """Return the mean losses of our model and of transformers' model."""
    with torch.inference_mode():
        logits = ours(ids[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        return loss.item(), theirs(ids, labels=ids).loss.item()


@pytest.mark.numerical(seeds=False)
@pytest.mark.parametrize("name", FOREIGN)
def test_weights_of_transformers_are_loaded_and_return_exactly(tmp_path, name):
    theirs = foreign_model(name, tmp_path / "given", max_shard_size="20KB")
    assert (tmp_path / "given" / "model.safetensors.index.json").exists()
    ours = load_model(tmp_path / "given")
    tied = FOREIGN[name][1].get("tie_word_embeddings", False)
    assert (ours.lm_head is None) == tied
    assert sum(p.numel() for p in ours.parameters()) == theirs.num_parameters()
    ids = torch.randint(99, (3, 50), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert (theirs(ids).logits - ours(ids)).abs().max() < 1e-4
    ours_loss, their_loss = losses_of(ours, theirs, ids)
    assert ours_loss == pytest.approx(their_loss, abs=1e-5)
    config = llama_config(ours.config)
    for key in ("model_type", "num_key_value_heads", "rms_norm_eps", "tie_word_embeddings"):
        assert config[key] == getattr(theirs.config, key)
    state = llama_state(ours.config, ours.state_dict())
    for key, value in state.items():
        assert torch.equal(value, theirs.state_dict()[key]), key
    assert {*theirs.state_dict()} - {*state} <= {"lm_head.weight"}


def test_the_configuration_of_transformers_4_is_read(tmp_path):
    foreign_model("Llama-3.2-1B", tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_text())
    expected = load_model(tmp_path).config
    rope = content.pop("rope_parameters")
    assert expected.rope_scaling == (32.0, 1.0, 4.0, 16.0)
    content["rope_theta"] = rope.pop("rope_theta")
    path.write_text(json.dumps({**content, "rope_scaling": rope}))
    assert load_model(tmp_path).config == expected


def test_weights_of_another_dtype_are_written_in_float32(tmp_path):
    tokenizer = byte_tokenizer(END)
    model = random_model(vocab_size=257, **TINY).to(torch.bfloat16)
    export_model(model, tokenizer, "huggingface", tmp_path)
    found = load_model(tmp_path)
    for name, value in model.state_dict().items():
        assert torch.equal(found.state_dict()[name], value.to(torch.float32))


def test_the_check_finds_different_weights(tmp_path):
    pytest.importorskip("transformers")
    tokenizer = trained("gpt2")
    export_model(random_model(0, vocab_size=1500, **TINY), tokenizer, "huggingface", tmp_path)
    with rejects(None, "logits", kind=RunError):
        check_model(random_model(1, vocab_size=1500, **TINY), tokenizer, "huggingface", tmp_path)


@pytest.mark.parametrize("to", ["huggingface", "gguf"])
@pytest.mark.parametrize(
    ("switch", "value"),
    [("norm", "post"), ("norm", "none"), ("position", "none"), ("ffn", "silu"),
     ("logit_soft_cap", 30.0), ("bigram_rows", 7)],
)  # fmt: skip
def test_a_switch_that_cannot_be_represented_is_refused(tmp_path, switch, value, to):
    if to == "gguf":
        pytest.importorskip("gguf")
    model = random_model(vocab_size=258, **TINY, **{switch: value})
    with rejects(switch, repr(value)):
        export_model(model, byte_tokenizer(END, merges=[(b"a", b"b")]), to, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_with_more_ids_than_the_model_is_refused(tmp_path):
    model = random_model(vocab_size=256, **TINY)
    with rejects(None, 257, "vocab_size", 256):
        export_model(model, byte_tokenizer(END), "huggingface", tmp_path / "out")


def test_an_unknown_option_is_refused(tmp_path):
    model = random_model(vocab_size=257, **TINY)
    with rejects("weights", "weights", kind=InputTypeError):
        export_model(model, byte_tokenizer(END), "huggingface", tmp_path / "out", weights="f16")


def test_the_end_of_text_token_ends_generation(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = byte_tokenizer(END)
    export_model(random_model(vocab_size=257, **TINY), tokenizer, "huggingface", tmp_path)
    config = transformers.GenerationConfig.from_pretrained(tmp_path, local_files_only=True)
    assert (config.eos_token_id, config.pad_token_id) == (256, 256)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert theirs.model_max_length == 32


def test_texts_in_a_batch_continue_as_they_do_alone(tmp_path):
    transformers = pytest.importorskip("transformers")
    model = random_model(vocab_size=257, **TINY)
    export_model(model, byte_tokenizer(END), "huggingface", tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, local_files_only=True)

    def continued(*texts):
        inputs = tokenizer(list(texts), padding=True, return_tensors="pt")
        return tokenizer.batch_decode(
            theirs.generate(**inputs, max_new_tokens=4, do_sample=False), skip_special_tokens=True
        )

    assert continued("a", "abcdef") == [*continued("a"), *continued("abcdef")]


def test_special_tokens_have_the_requested_roles(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = byte_tokenizer(END, "<s>", "</s>", "<pad>", "<unk>")
    roles = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    model = random_model(vocab_size=tokenizer.vocab_size, **TINY)
    export_model(model, tokenizer, "huggingface", tmp_path, **roles)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert theirs.special_tokens_map == roles
    generation = transformers.GenerationConfig.from_pretrained(tmp_path, local_files_only=True)
    config = transformers.AutoConfig.from_pretrained(tmp_path, local_files_only=True)
    for role in ("bos_token", "eos_token", "pad_token"):
        expected = tokenizer.special_token_id(roles[role])
        for found in (theirs, generation, config):
            assert getattr(found, f"{role}_id") == expected, (found, role)
    padded = theirs(["a", "abc"], padding=True)
    pad = theirs.pad_token_id
    assert padded["input_ids"] == [[pad, pad, 97], [97, 98, 99]]  # no special token is added
    assert "tokenizer('<s>', return_tensors" in (tmp_path / "README.md").read_text("utf-8")


def test_the_default_pad_token_is_the_eos_token(tmp_path):
    export_tokenizer(byte_tokenizer("</s>"), "huggingface", tmp_path / "a", eos_token="</s>")
    export_tokenizer(byte_tokenizer(END, "<p>"), "huggingface", tmp_path / "b", pad_token="<p>")
    found = [json.loads((tmp_path / n / "tokenizer_config.json").read_text()) for n in "ab"]
    assert [(c["eos_token"], c["pad_token"]) for c in found] == [("</s>", "</s>"), (END, "<p>")]


def test_a_role_for_a_token_that_is_not_special_is_refused(tmp_path):
    model = random_model(vocab_size=257, **TINY)
    for role in ("bos_token", "eos_token", "pad_token", "unk_token"):
        for text in ("<pad>", "a"):
            with rejects(role, f"'{text}'"):
                export_model(model, byte_tokenizer(END), "huggingface", tmp_path, **{role: text})
    with rejects("pad_token", "pad_token", kind=InputTypeError):
        export_tokenizer(byte_tokenizer(END), "tiktoken", tmp_path, pad_token=END)
    assert not list(tmp_path.iterdir())


# loading


def write_model(directory, model, **changes):
    directory.mkdir(exist_ok=True)
    config = {**llama_config(model.config), **changes}
    (directory / "config.json").write_text(json.dumps(config))
    save_file(llama_state(model.config, model.state_dict()), directory / "model.safetensors")


def test_device_dtype_and_context_length_can_be_chosen(tmp_path):
    write_model(tmp_path, random_model(config=SMALL))
    found = load_model(tmp_path, context_length=5, dtype=torch.float64)
    assert found.config == dataclasses.replace(SMALL, context_length=5)
    assert {p.dtype for p in found.parameters()} == {torch.float64}
    assert found(torch.tensor([[1, 2, 3, 4, 5]])).shape == (1, 5, 31)


def write_shards(directory, model, weight_map=None):
    write_model(directory, model)
    (directory / "model.safetensors").unlink()
    state = llama_state(model.config, model.state_dict())
    names = sorted(state)
    shards = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, keys in shards.items():
        save_file({key: state[key] for key in keys}, directory / file)
    found = {key: file for file, keys in shards.items() for key in keys}
    index = {"metadata": {}, "weight_map": found if weight_map is None else weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    "weight_map",
    [
        {"a": "../a.safetensors"}, {"a": "/etc/passwd"}, {"a": "\n.safetensors"}, {"a": "a.bin"},
        {"a": 5}, {"a": [1]}, 7, [],
    ],
)  # fmt: skip
def test_an_index_may_contain_only_safetensors_in_its_directory(tmp_path, weight_map):
    write_shards(tmp_path, random_model(config=SMALL), weight_map)
    with rejects(None, "weight_map", place="index.json"):
        load_model(tmp_path)


def test_a_missing_shard_is_named(tmp_path):
    write_shards(tmp_path, random_model(config=SMALL))
    (tmp_path / "b.safetensors").unlink()
    with rejects(None, tmp_path / "b.safetensors", kind=MissingFileError):
        load_model(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs")
def test_a_shard_must_be_a_regular_file_before_anything_reads_it(tmp_path):
    write_shards(tmp_path, random_model(config=SMALL))
    shard = tmp_path / "b.safetensors"
    shard.unlink()
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        make(shard)
        with rejects(None, shard, kind=MissingFileError):
            find_model(tmp_path)
        shard.unlink()


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit",)


def test_a_pickle_is_refused_and_not_opened(tmp_path):
    write_model(tmp_path, random_model(config=SMALL))
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    with rejects(None, "pytorch_model.bin", "pickle", kind=MissingFileError):
        load_model(tmp_path)


def test_a_huge_configuration_is_refused_before_anything_is_allocated(tmp_path):
    model = random_model(config=SMALL)
    for changes, shown in (
        ({"max_position_embeddings": 10**12}, "1,000,000,000,000"),
        ({"max_position_embeddings": 2**23}, "8,388,608"),
        ({"num_hidden_layers": 10**12}, "'model.layers."),
        ({"vocab_size": 10**12}, "(1000000000000, 24)"),
        ({"vocab_size": 2**62}, f"{2**62}"),  # more bytes than fit int64
        ({"intermediate_size": 10**12}, "1000000000000"),
    ):
        write_model(tmp_path, model, **changes)
        with rejects(None, shown):
            load_model(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"model_type": "llama"}', "7" * 3_000_000])
def test_an_invalid_config_is_refused(tmp_path, content):
    write_model(tmp_path, random_model(config=SMALL))
    (tmp_path / "config.json").write_text(content)
    with rejects(None, place="config.json"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04K\x01.",
        b"\xff" * 100,
        (200).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}",
        (57).to_bytes(8, "little")
        + b'{"a":{"dtype":"F999","shape":[1],"data_offsets":[0,4]}}  abcd',
    ],
)
def test_damaged_weights_are_refused(tmp_path, content):
    write_model(tmp_path, random_model(config=SMALL))
    (tmp_path / "model.safetensors").write_bytes(content)
    with rejects(None, place=tmp_path) as raised:
        load_model(tmp_path)
    assert len(str(raised.value)) < 600


def test_a_tensor_that_occurs_twice_in_a_header_is_refused(tmp_path):
    write_model(tmp_path, random_model(config=SMALL))
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + size].decode().rstrip()
    pattern = r'("[^"]*norm[^"]*"):({"dtype":"F32","shape":\[24\][^}]*})'
    name, place = re.search(pattern, header).groups()
    again = header[:-1] + f",{name}:" + place.replace("[24]", "[4,6]") + "}"
    path.write_bytes(len(again).to_bytes(8, "little") + again.encode() + content[8 + size :])
    safetensors.torch.load_file(path)  # it keeps the second one
    with rejects(None, name.strip('"'), "occurs twice", place="model.safetensors"):
        load_model(tmp_path)


def test_a_missing_config_is_named(tmp_path):
    with rejects(None, tmp_path / "absent" / "config.json", kind=MissingFileError):
        load_model(tmp_path / "absent")
