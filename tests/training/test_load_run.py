"""Loading a run's model and tokenizer, and generating text with them."""

from __future__ import annotations

import dataclasses
import os
import shutil

import pytest
import torch

from cs336_basics._support.errors import InputTypeError, MissingFileError
from cs336_basics.checkpoints.checkpoint import write_checkpoint
from cs336_basics.commands.generate import Options
from cs336_basics.generation import Sampling, generate_text
from cs336_basics.training.config_files import config_to_yaml
from cs336_basics.training.load_run import DEFAULT_SAMPLING, load_run
from tests.errors import rejects
from tests.tokenizer.examples import byte_tokenizer
from tests.training.tiny_runs import CONFIG, TOKENIZER, changed, make


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    trainer = make(tmp_path_factory.mktemp("run"), changed(max_steps=2))
    trainer.fit()
    TOKENIZER.save(trainer.run.tokenizer)
    return trainer


def with_config(trainer, **values):
    text = config_to_yaml(trainer.config)
    for name, value in values.items():
        old = f"{name}: {getattr(CONFIG.model, name)}\n"
        assert text.count(old) == 1
        text = text.replace(old, f"{name}: {value}\n")
    trainer.run.config.write_text(text, encoding="utf-8")
    return trainer.run.path


def test_a_loaded_run_has_its_model_and_tokenizer(run):
    model, tokenizer = load_run(with_config(run))
    ids = torch.arange(5)
    assert torch.equal(model(ids), run.model(ids))
    assert tokenizer.vocab == TOKENIZER.vocab


def test_a_loaded_run_continues_a_prompt(run):
    loaded = load_run(with_config(run))
    seeds = [torch.Generator().manual_seed(seed) for seed in (3, 3, 3, 2)]
    text = loaded.generate("Ab", 40, generator=seeds[0])
    assert "".join(loaded.stream("Ab", 40, generator=seeds[1])) == text
    expected = generate_text(
        loaded.model, loaded.tokenizer, "Ab", 40, DEFAULT_SAMPLING, generator=seeds[2]
    )
    assert "".join(expected) == text
    assert loaded.generate("Ab", 40, generator=seeds[3]) != text
    greedy = [loaded.generate(sampling=Sampling(temperature=0), use_cache=c) for c in (True, False)]
    assert greedy[0] == greedy[1]  # an empty prompt starts a document
    first = text.strip()[0]
    assert (
        loaded.generate("Ab", 40, stop=[first], generator=seeds[0].manual_seed(3))
        == (text[: text.index(first)])
    )


def test_a_number_is_not_taken_for_a_sampling(run):
    loaded = load_run(with_config(run))
    for temperature in (0, 0.7):
        with rejects("sampling", temperature, kind=InputTypeError):
            loaded.generate("Ab", 5, temperature)


def test_the_command_generate_has_the_same_defaults():
    fields = Options.__dataclass_fields__
    for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty"):
        assert getattr(DEFAULT_SAMPLING, name) == fields[name].default, name


# The weights of these layers would fit into the checkpoint, but not their names.
MANY = {"d_model": 2, "num_heads": 1, "d_ff": 1, "num_layers": 5000}


@pytest.mark.parametrize(
    "values",
    [{"vocab_size": 9 * 10**18}, {"context_length": 30_000_000}, {"num_layers": 10**12},
     {"d_ff": 10**15}, MANY],
)  # fmt: skip
def test_a_model_larger_than_its_checkpoint_is_rejected(run, values):
    with rejects(None, "config.yaml"):
        load_run(with_config(run, **values))


def test_a_tokenizer_with_more_ids_than_the_model_is_rejected(run):
    with rejects(None, 257, "vocab_size", 256):
        load_run(with_config(run, vocab_size=256))


def test_a_checkpoint_of_another_run_is_rejected(run, tmp_path):
    values = {"model": dataclasses.replace(CONFIG.model, rope_theta=500.0), "max_steps": 2}
    other = make(tmp_path / "other", changed(**values))
    other.fit()
    checkpoint = other.run.checkpoint(2)
    with rejects(None, checkpoint, run.run.path, "model.rope_theta", 500.0):
        load_run(with_config(run), checkpoint=checkpoint)


def test_a_run_with_another_tokenizer_of_the_same_size_is_rejected(run, tmp_path):
    shutil.copytree(with_config(run), tmp_path / "copy")
    byte_tokenizer("<|other|>").save(tmp_path / "copy" / "tokenizer")
    with rejects(None, "step_00000002", "tokenizer"):
        load_run(tmp_path / "copy")


def test_a_checkpoint_that_does_not_name_its_run_is_rejected(run, tmp_path):
    write_checkpoint(tmp_path / "c", run.model, run.optimizer, 2)
    with rejects(None, tmp_path / "c", run.run.path):
        load_run(with_config(run), checkpoint=tmp_path / "c")


def test_a_path_may_start_with_the_home_directory(run, monkeypatch):
    path = with_config(run)
    monkeypatch.setenv("HOME" if os.name != "nt" else "USERPROFILE", str(path.parent))
    checkpoint = f"~/{run.run.checkpoint(2).relative_to(path.parent)}"
    model, _ = load_run(f"~/{path.name}", checkpoint=checkpoint)
    assert torch.equal(model(torch.arange(5)), run.model(torch.arange(5)))


def test_a_run_without_its_tokenizer_is_not_told_to_train_another(run, tmp_path):
    shutil.copytree(with_config(run), tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "tokenizer")
    with rejects(None, tmp_path / "copy" / "tokenizer", "restore", kind=MissingFileError):
        load_run(tmp_path / "copy")
