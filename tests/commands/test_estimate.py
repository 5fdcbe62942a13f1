"""`python -m cs336_basics estimate`: the computed and measured memory and time of a run."""

from __future__ import annotations

import dataclasses

import cs336_basics.training.fast_path as fast_path
from cs336_basics.training.config_files import find_config, load_config
from tests.commands.small_run import command
from tests.processes import measure_in_this_process
from tests.tokenizer.examples import byte_tokenizer

estimate = command("estimate")


def test_estimate_prints_the_memory_and_time_of_a_run(capsys, monkeypatch):
    measure_in_this_process(monkeypatch)
    words = "--device cpu --batch-size 2 --model.num-layers 1 --model.context-length 32"
    assert estimate(words.split()) == 0
    out = capsys.readouterr().out
    rows = dict(line.split(None, 1) for line in out.splitlines() if line.split(None, 1)[1:])
    config = {"vocab": 2000, "d": 128, "ff": 384}
    matrices = 4 * config["d"] ** 2 + 3 * config["d"] * config["ff"]
    parameters = 2 * config["vocab"] * config["d"] + matrices + 3 * config["d"]
    assert rows["parameters"] == f"{parameters:,}"
    flops = 6 * (matrices + config["vocab"] * config["d"]) + 12 * config["d"] * 32
    assert f"FLOPs per token         {flops:,}" in out
    assert f"gradients               {4 * parameters / 1e6:.2f} MB" in out
    assert "tensors at the peak" in out
    assert "(measured)" in rows["peak"]
    assert "about" in rows["time"]


def test_estimate_prints_the_choices_of_the_fast_path(capsys, monkeypatch):
    monkeypatch.setattr(fast_path, "can_compile", lambda device: True)
    words = "--config tinystories --model.num-layers 1 --device cpu --fast auto --no-measure"
    assert estimate(words.split()) == 0
    out = capsys.readouterr().out
    assert "fast: precision" in out
    assert "fast: model.attention " in out
    assert "13,354,496" in out


def test_estimate_uses_the_vocabulary_size_of_the_tokenizer(capsys, tmp_path):
    byte_tokenizer("<|endoftext|>", merges=[(b"t", b"h")]).save(tmp_path / "tok")
    words = ["--device", "cpu", "--no-measure", "--data.tokenizer", str(tmp_path / "tok")]
    assert estimate(words) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "parameters " in line)
    model = dataclasses.replace(load_config(find_config("sample")).model, vocab_size=258)
    assert row.split() == ["parameters", f"{model.num_parameters():,}"]


def test_estimate_prints_the_number_of_tokens(capsys):
    words = "--device cpu --no-measure --max-steps 30 --batch-size 7 --model.context-length 32"
    assert estimate(words.split()) == 0
    assert f"tokens                  {30 * 7 * 32:,}\n" in capsys.readouterr().out


def test_estimate_of_a_corpus_prints_what_limits_it(capsys, tmp_path):
    text = tmp_path / "web.txt"
    text.write_text("Once upon a time there was a small cat. " * 2000)
    words = ["--corpus-bytes", "10e12", "--nodes", "20", "--cores", "64", "--network", "0.001"]
    assert estimate([*words, "--corpus-sample", str(text), "--model.vocab-size", "270"]) == 0
    out = capsys.readouterr().out
    assert f"of {text}" in out
    assert "10.0 TB on 20 x 64 cores, 270 tokens" in out
    assert "days; limit: network" in out
    assert "token files" in out
    words = ["--corpus-bytes", "1", "--corpus-sample", str(text), "--model.vocab-size", "270"]
    assert estimate(words) == 0
    assert "about 0.0 seconds; limit: " in capsys.readouterr().out


def test_options_of_a_corpus_need_its_size(capsys):
    for words in (["--nodes", "3"], ["--network", "10"], ["--corpus-sample", "web.txt"]):
        assert estimate(words) == 2
        assert f"{words[0]} requires --corpus-bytes" in capsys.readouterr().err
