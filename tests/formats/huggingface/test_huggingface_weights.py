"""Model directories of transformers, read: whole ones give the model, others a ValueError."""

from __future__ import annotations

import dataclasses
import json
import pickle

import pytest
import torch
from safetensors.torch import save_file

from cs336_basics.formats.huggingface.llama import llama_config, llama_state
from cs336_basics.model import TransformerLM
from tests.formats.huggingface.test_llama import SMALL, random_model


def write_model(directory, model, **changes):
    directory.mkdir(exist_ok=True)
    config = {**llama_config(model.config), **changes}
    (directory / "config.json").write_text(json.dumps(config))
    save_file(llama_state(model.config, model.state_dict()), directory / "model.safetensors")


def test_a_directory_gives_the_model(tmp_path):
    model = random_model(SMALL)
    write_model(tmp_path, model)
    found = TransformerLM.from_huggingface(tmp_path)
    assert found.config == SMALL
    for name, value in model.state_dict().items():
        assert torch.equal(found.state_dict()[name], value)


def test_device_dtype_and_context_length_can_be_chosen(tmp_path):
    write_model(tmp_path, random_model(SMALL))
    found = TransformerLM.from_huggingface(tmp_path, context_length=5, dtype=torch.float64)
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


def test_weights_in_several_files_are_read(tmp_path):
    model = random_model(SMALL)
    write_shards(tmp_path, model)
    found = TransformerLM.from_huggingface(tmp_path)
    ids = torch.arange(10)[None]
    torch.testing.assert_close(found(ids), model(ids))


@pytest.mark.parametrize(
    "weight_map",
    [{"a": "../a.safetensors"}, {"a": "/etc/passwd"}, {"a": "a.bin"}, {"a": 5}, {"a": [1]}, 7, []],
)
def test_an_index_may_only_name_safetensors_beside_it(tmp_path, weight_map):
    write_shards(tmp_path, random_model(SMALL), weight_map)
    with pytest.raises(ValueError, match=r"index\.json: its weight_map is .*: it must map tensors"):
        TransformerLM.from_huggingface(tmp_path)


def test_a_missing_shard_is_named(tmp_path):
    write_shards(tmp_path, random_model(SMALL))
    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.safetensors does not exist"):
        TransformerLM.from_huggingface(tmp_path)


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit",)


def test_a_pickle_is_refused_and_not_opened(tmp_path):
    write_model(tmp_path, random_model(SMALL))
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    message = r"pytorch_model\.bin is a pickle, which may run code; convert it"
    with pytest.raises(FileNotFoundError, match=message):
        TransformerLM.from_huggingface(tmp_path)


def test_gpt2_is_refused_with_the_reason(tmp_path):
    config = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "vocab_size": 50257}
    (tmp_path / "config.json").write_text(json.dumps(config))
    message = r"config\.json: its model_type is 'gpt2' \(GPT-2 has learned positions, LayerNorm"
    with pytest.raises(ValueError, match=message):
        TransformerLM.from_huggingface(tmp_path)


def test_a_huge_configuration_is_refused_before_anything_is_allocated(tmp_path):
    model = random_model(SMALL)
    for changes, message in (
        ({"max_position_embeddings": 10**12}, "is 1,000,000,000,000, too long for a table of angl"),
        ({"num_hidden_layers": 10**12}, "it has 1,000,000,000,000 layers, but only"),
        ({"vocab_size": 10**12}, r"has the shape \(31, 24\), not \(1000000000000, 24\)"),
        ({"intermediate_size": 10**12}, "has the shape"),
    ):
        write_model(tmp_path, model, **changes)
        with pytest.raises(ValueError, match=message):
            TransformerLM.from_huggingface(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"model_type": "llama"}', "7" * 3_000_000])
def test_another_config_is_refused_with_its_name(tmp_path, content):
    write_model(tmp_path, random_model(SMALL))
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json"):
        TransformerLM.from_huggingface(tmp_path)


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
def test_damaged_weights_are_a_value_error(tmp_path, content):
    write_model(tmp_path, random_model(SMALL))
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=str(tmp_path)) as raised:
        TransformerLM.from_huggingface(tmp_path)
    assert len(str(raised.value)) < 600


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        TransformerLM.from_huggingface(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        TransformerLM.from_huggingface(tmp_path / "absent")


@pytest.mark.parametrize("value", ["false", 0, None])
def test_embeddings_that_are_neither_tied_nor_not_are_refused(tmp_path, value):
    write_model(tmp_path, random_model(SMALL), tie_word_embeddings=value)
    with pytest.raises(ValueError, match=r"its tie_word_embeddings is .*: not true or false"):
        TransformerLM.from_huggingface(tmp_path)
