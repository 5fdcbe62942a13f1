"""`python -m cs336_basics datasets list`: its table and JSON output."""

import json

from cs336_basics.data.datasets import DATASETS
from tests.commands.small_run import command

datasets = command("datasets")


def test_the_list_shows_licenses_sizes_and_local_files(tmp_path, capsys):
    (tmp_path / "sample_train.txt").write_bytes(b"text")
    assert datasets(["list", "--data-dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for dataset in DATASETS.values():
        assert f"{dataset.name}: {dataset.description}\n  license: {dataset.license}\n" in printed
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "train TinyStoriesV2-GPT4-train.txt 2,227,753,162 bytes missing" in lines
    assert (
        "train sample_train.txt 10,000,881 bytes present, but with the wrong size: 4 bytes" in lines
    )
    assert lines[-1] == f"data directory: {tmp_path}"
    assert datasets(["--data-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == printed


def test_the_list_as_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CS336_DATA", str(tmp_path))
    assert datasets(["list", "--format", "json", "--verify"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 6
    assert rows[-1]["sha256"] == DATASETS["owt"].files["valid"].sha256
    assert {row["note"] for row in rows} == {"missing"}
