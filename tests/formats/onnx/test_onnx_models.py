"""Every ONNX export has the model's logits in onnxruntime, for all sequence lengths."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys

import numpy as np
import pytest
import torch

from cs336_basics._support.errors import RunError, UnavailableError
from cs336_basics.formats import ModelCard, check_model, export_model
from cs336_basics.model import ModelConfig
from tests.errors import rejects
from tests.formats.exported import damaged
from tests.formats.models import random_model
from tests.tokenizer.examples import END, byte_tokenizer

onnxruntime = pytest.importorskip("onnxruntime", reason="needs cs336-basics[onnx]")
pytest.importorskip("onnxscript", reason="needs cs336-basics[onnx]")

LENGTH = 80
SMALL = {"vocab_size": 300, "context_length": LENGTH, "d_model": 24, "num_layers": 2,
         "num_heads": 3, "d_ff": 40}  # fmt: skip
EVERY_SWITCH = {"norm": "post", "position": "none", "ffn": "silu", "attention": "blocked",
                "qk_norm": True, "tied_embeddings": True, "logit_soft_cap": 15.0}  # fmt: skip
GROUPED = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 10, "qkv_bias": True, "num_layers": 1,
           "rope_scaling": (8.0, 1.0, 4.0, 16.0)}  # fmt: skip
SPEEDRUN = {"qk_norm": True, "tied_embeddings": True, "logit_soft_cap": 15.0}
BARE = {"norm": "none", "num_heads": 1, "num_layers": 1, "attention": "reference"}
TOKENIZER = byte_tokenizer(END, "<|pad|>", merges=[(b" ", b"t"), (b" t", b"h")])
# Each name is mapped to (switches, without_cache).
MODELS = {
    "cache, default": ({}, False),
    "no cache, every switch": ({**EVERY_SWITCH, "num_layers": 1}, True),
    "cache, every switch": (EVERY_SWITCH, False),
    "cache, grouped queries": (GROUPED, False),
    "cache, speedrun": (SPEEDRUN, False),
    "cache, bare": (BARE, False),
    "no cache, default": ({}, True),
    "no cache, speedrun": ({**SPEEDRUN, "bigram_rows": 41}, True),
}
NORMAL = 2  # the tests of the other exports take seconds each and are marked slow


class Exported:
    """A model, its export, and an onnxruntime session that runs the export as a user would."""

    def __init__(self, directory, switches, without_cache):
        self.model = random_model(**{**SMALL, **switches})
        self.before = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.directory = directory
        self.options = {"without_cache": True} if without_cache else {}
        card = ModelCard({"training: t.txt": "ab12"}, 500, 1_024_000, {"validation loss": 1.53129})
        export_model(self.model, TOKENIZER, "onnx", directory, card=card, **self.options)
        self.session = onnxruntime.InferenceSession(directory / "model.onnx")
        self.past_names = [each.name for each in self.session.get_inputs()[1:]]

    def empty(self, batch):
        config = self.model.config
        shape = (batch, config.kv_heads, 0, config.d_head)
        return {name: np.zeros(shape, np.float32) for name in self.past_names}

    def run(self, ids, past):
        """Return the logits for the ids, and the `past` argument for the next call."""
        logits, *present = self.session.run(None, {"input_ids": ids, **past})
        return logits, dict(zip(self.past_names, present, strict=True))

    def expected(self, ids):
        with torch.inference_mode():
            return self.model(torch.from_numpy(ids)).numpy()


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Return a function that takes a name in MODELS and returns the export, which is cached."""
    made = {}

    def export(name):
        if name not in made:
            made[name] = Exported(tmp_path_factory.mktemp("onnx") / "model", *MODELS[name])
        return made[name]

    return export


@pytest.fixture(
    params=[
        pytest.param(name, marks=[] if index < NORMAL else pytest.mark.slow)
        for index, name in enumerate(MODELS)
    ]
)
def exported(request, make):
    return make(request.param)


@pytest.fixture
def default(make):
    return make("cache, default")


def random_ids(batch, length):
    return torch.randint(SMALL["vocab_size"], (batch, length)).numpy()


@pytest.mark.numerical(seeds=False)
def test_logits_are_within_1e_4_at_every_batch_size_and_length(exported):
    for batch, length in ((1, 1), (1, 2), (3, 1), (2, 17), (1, LENGTH), (5, LENGTH)):
        ids = random_ids(batch, length)
        logits, _ = exported.run(ids, exported.empty(batch))
        assert logits.shape == (batch, length, SMALL["vocab_size"])
        assert np.abs(logits - exported.expected(ids)).max() < 1e-4, (batch, length)


@pytest.mark.numerical(seeds=False)
def test_steps_of_any_length_with_the_cache_have_the_logits_of_the_whole_text(exported):
    if not exported.past_names:
        pytest.skip("this graph has no cache")
    for batch in (1, 3):
        ids = random_ids(batch, LENGTH)
        expected = exported.expected(ids)
        for steps in ([1] * LENGTH, [17, *[1] * (LENGTH - 17)], [40, 2, 1, 37], [1, LENGTH - 1]):
            start, past = 0, exported.empty(batch)
            for length in steps:
                logits, past = exported.run(ids[:, start : start + length], past)
                difference = np.abs(logits - expected[:, start : start + length]).max()
                assert difference < 1e-4, (batch, start, length)
                start += length
            assert {each.shape[2] for each in past.values()} == {LENGTH}


@pytest.mark.numerical(seeds=False)
def test_check_accepts_the_export(exported):
    agreement = check_model(
        exported.model, TOKENIZER, "onnx", exported.directory, **exported.options
    )
    assert agreement.runtime.startswith(f"onnxruntime {onnxruntime.__version__}")
    kind = "without" if exported.options else "with"
    assert agreement.lines[-1].startswith(f"{kind} the cache: logits within ")
    assert agreement.lines[-1].endswith(", 64 greedy tokens equal")
    after = exported.model.state_dict()
    assert after.keys() == exported.before.keys()
    assert all(torch.equal(after[name], value) for name, value in exported.before.items())
    assert exported.model.training
    names = {file.name for file in exported.directory.iterdir()}
    assert names == {"model.onnx", "tokenizer.json", "tokenizer_config.json"}


def test_inputs_and_outputs_have_their_names_and_dynamic_dimensions(exported):
    inputs = {each.name: each.shape for each in exported.session.get_inputs()}
    outputs = {each.name: each.shape for each in exported.session.get_outputs()}
    config = exported.model.config
    parts = [(layer, part) for layer in range(config.num_layers) for part in ("key", "value")]
    if exported.options:
        parts = []
    assert inputs == {"input_ids": ["batch", "sequence"]} | {
        f"past_key_values.{layer}.{part}": ["batch", config.kv_heads, "past", config.d_head]
        for layer, part in parts
    }
    assert outputs == {"logits": ["batch", "sequence", 300]} | {
        f"present.{layer}.{part}": ["batch", config.kv_heads, "past + sequence", config.d_head]
        for layer, part in parts
    }


def test_the_metadata_describes_the_model_and_its_training(default):
    meta = default.session.get_modelmeta()
    assert meta.producer_name == "cs336-basics"
    found = meta.custom_metadata_map
    assert found["context_length"] == str(LENGTH)
    assert found["qk_norm"] == "False"
    assert {field.name for field in dataclasses.fields(default.model.config)} <= found.keys()
    assert found["end_of_text_id"] == str(TOKENIZER.special_token_id(END))
    assert found["steps"] == "500"
    assert found["tokens"] == "1024000"
    assert found["validation loss"] == "1.53129"
    assert found["trained_on: training: t.txt"] == "ab12"


def test_the_file_does_not_contain_paths_of_this_machine(exported):
    content = (exported.directory / "model.onnx").read_bytes()
    assert b"site-packages" not in content
    assert b"transformer.py" not in content
    weights = 4 * exported.model.config.num_parameters()
    assert len(content) < weights + 100_000  # each weight is stored once


def test_positions_beyond_the_context_are_an_error(default):
    with pytest.raises(Exception, match=r"(?i)invalid index|out of.*bounds"):
        default.run(random_ids(1, LENGTH + 1), default.empty(1))
    _, past = default.run(random_ids(1, LENGTH), default.empty(1))
    with pytest.raises(Exception, match=r"(?i)invalid index|out of.*bounds"):
        default.run(random_ids(1, 1), past)


def test_check_finds_a_different_model(default):
    other = random_model(1, **SMALL)
    with rejects(None, "logits", kind=RunError):
        check_model(other, TOKENIZER, "onnx", default.directory)


def test_a_damaged_export_raises_expected_errors_only(default, tmp_path):
    directory = shutil.copytree(default.directory, tmp_path / "copy")
    for _ in damaged(directory / "model.onnx", 12):
        with contextlib.suppress(RuntimeError, OSError):
            check_model(default.model, TOKENIZER, "onnx", directory)


def test_a_model_that_onnx_cannot_represent_is_refused_before_writing(tmp_path, monkeypatch):
    model = random_model(**SMALL)
    lookbehind = byte_tokenizer(END, pattern=r"(?<=a)b|(?s:.)")
    with rejects("pattern", r"'(?<=a)b|(?s:.)'"):
        export_model(model, lookbehind, "onnx", tmp_path / "a")
    bigrams = random_model(**SMALL, bigram_rows=9)
    with rejects("bigram_rows", 9, "without_cache"):
        export_model(bigrams, TOKENIZER, "onnx", tmp_path / "a")
    monkeypatch.setattr(ModelConfig, "num_parameters", lambda self: 700_000_000)
    with rejects(None, "2.6 GiB"):
        export_model(model, TOKENIZER, "onnx", tmp_path / "a")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with rejects(None, "'cs336-basics[onnx]'", kind=UnavailableError):
        export_model(model, TOKENIZER, "onnx", tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_context_of_one_token_can_be_exported(tmp_path):
    config = {**SMALL, "context_length": 1, "num_layers": 1}
    model = random_model(**config)
    export_model(model, TOKENIZER, "onnx", tmp_path, without_cache=True)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    ids = random_ids(4, 1)
    (logits,) = session.run(None, {"input_ids": ids})
    with torch.inference_mode():
        expected = model(torch.from_numpy(ids)).numpy()
    assert np.abs(logits - expected).max() < 1e-4
