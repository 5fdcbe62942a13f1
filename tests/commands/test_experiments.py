"""The options of `python -m cs336_basics experiments`. tests/experiments tests the runs."""

from __future__ import annotations

from tests.commands.small_run import command

main = command("experiments")


def test_the_options_reach_the_runs(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(
        "cs336_basics.experiments.runner.run_experiments",
        lambda scale, out, values, report: found.append((scale.config, out, values)),
    )
    words = ["--train-path", "a.jsonl", "--field", "body", "--num-workers", "1"]
    assert main(["--scale", "test", "--out", str(tmp_path), *words]) == 0
    values = {"data.train_path": "a.jsonl", "data.field": "body", "device": "auto"}
    assert found == [("sample", tmp_path, {**values, "num_workers": 1})]


def test_dataset_and_train_path_conflict(tmp_path, capsys):
    words = f"--scale test --out {tmp_path / 'out'} --train-path a.txt --dataset owt"
    assert main(words.split()) == 2
    assert "either --dataset or --train-path" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
