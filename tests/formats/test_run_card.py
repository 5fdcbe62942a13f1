"""A run's model card, for each source of training text."""

from __future__ import annotations

import json

import pytest

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.data_config import DataConfig
from cs336_basics.formats.run_card import card_of_run
from tests.errors import rejects


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.data.mkdir(parents=True)
    run.checkpoints.mkdir()
    return run


def record(run, **inputs):
    """Write the data record, which lists the inputs of each split."""
    stages = {f"{split} tokens": {"inputs": value} for split, value in inputs.items()}
    (run.data / "stages.json").write_text(json.dumps(stages))


@pytest.mark.parametrize("key", ["source", "file", "sources", "files"])
def test_the_card_has_the_hash_of_one_or_several_files(run, key):
    data = DataConfig(train_path="/secret/a.txt", valid_path="/secret/b.txt")
    record(run, train={key: "1" * 64, "tokenizer": "3" * 64}, valid={key: "2" * 64})
    assert card_of_run(run.path, data).data == {
        "training: a.txt": "1" * 64,
        "validation: b.txt": "2" * 64,
    }


def test_the_card_names_a_dataset_or_a_held_out_share(run):
    record(run, train={"source": "1" * 64}, valid={"source": "2" * 64})
    data = DataConfig(dataset="tinystories")
    assert list(card_of_run(run.path, data).data) == [
        "training: tinystories, train",
        "validation: tinystories, valid",
    ]
    data = DataConfig(train_path=["/secret/a.txt", "b.txt"])
    names = ["training: a.txt, b.txt", "validation: valid, held out"]
    assert list(card_of_run(run.path, data).data) == names


def test_a_text_without_a_hash_or_record_is_omitted(run):
    for _ in range(2):
        card = card_of_run(run.path, DataConfig())
        assert (card.data, card.steps, card.tokens, card.losses) == ({}, None, None, {})
        record(run, train={"source": None})


def test_the_losses_are_the_last_ones_up_to_the_checkpoint(run):
    record(run)
    for step in (10, 20, 30):
        run.append_metrics({"step": step, "tokens": 100 * step, "train_loss": 5.0 - step / 10}, {})
    run.append_metrics({"step": 10, "tokens": 1000, "val_loss": 4.5, "val_bits_per_byte": 1.5}, {})
    for step in (20, 30):
        run.checkpoint(step).touch()
    card = card_of_run(run.path, DataConfig(), run.checkpoint(20))
    assert (card.steps, card.tokens) == (20, 2000)
    assert card.losses == {
        "training loss": 3.0,
        "validation loss": 4.5,
        "validation, bits per byte (without special tokens)": 1.5,
    }
    assert card_of_run(run.path, DataConfig()).steps == 30
    without_step = run.path / "weights.pt"
    without_step.touch()
    assert card_of_run(run.path, DataConfig(), without_step).steps is None


def test_the_card_of_instruction_data_says_that_the_model_chats(run):
    turns = DataConfig(train_path="t.jsonl", prompt_field="ask", answer_field="say")
    assert [card_of_run(run.path, data).chats for data in (DataConfig(), turns)] == [False, True]


def test_a_damaged_record_is_refused(run):
    (run.data / "stages.json").write_text("[]")
    with rejects(None, "stages.json"):
        card_of_run(run.path, DataConfig())
