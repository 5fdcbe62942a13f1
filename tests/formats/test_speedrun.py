"""`speedrun-exportable` is trained for some steps and exported; `speedrun` is refused."""

from __future__ import annotations

import json

import pytest

from cs336_basics.__main__ import main
from cs336_basics.training.load_run import load_run

SMALL = [
    "--device", "cpu", "--num-workers", "1", "--max-steps", "12", "--batch-size", "4",
    "--eval-every", "6", "--eval-batches", "2", "--sample-tokens", "0", "--data.dataset", "sample",
    "--data.sample-bytes", "60000", "--model.vocab-size", "300", "--model.d-model", "24",
    "--model.num-layers", "2", "--model.num-heads", "2", "--model.d-ff", "40",
    "--model.context-length", "80",
]  # fmt: skip


def test_speedrun_exportable_learns_and_is_exported_with_equal_logits(tmp_path, capsys):
    transformers = pytest.importorskip("transformers")
    run, out = tmp_path / "run", tmp_path / "out"
    assert main(["train", "--config", "speedrun-exportable", "--run-dir", str(run), *SMALL]) == 0
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [row["val_loss"] for row in rows if "val_loss" in row]
    assert losses[-1] < losses[0]
    config = load_run(run).model.config
    assert (config.qk_norm, config.tied_embeddings, config.zero_init) == (True, True, True)
    capsys.readouterr()
    assert main(["export", "--run", str(run), "--to", "huggingface", "--output", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "Qwen3ForCausalLM: logits within " in printed
    assert "64 greedy tokens equal" in printed
    card = (out / "README.md").read_text("utf-8")
    assert f"| validation loss | {losses[-1]:.4f} |" in card
    assert "| training: sample, train | `" in card
    theirs = transformers.AutoModelForCausalLM.from_pretrained(out, local_files_only=True)
    assert type(theirs).__name__ == "Qwen3ForCausalLM"


def test_speedrun_is_refused_by_the_name_of_its_switch(tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "out"
    words = ["--config", "speedrun", "--run-dir", str(run), *SMALL, "--max-steps", "1"]
    assert main(["train", *words]) == 0
    capsys.readouterr()
    assert main(["export", "--run", str(run), "--to", "huggingface", "--output", str(out)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("cs336 export: error: the model has logit_soft_cap 30.0, which neith")
    assert not out.exists()
