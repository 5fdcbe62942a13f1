"""A training run that takes a second, for tests of the commands."""

from __future__ import annotations

import functools
import io
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import numpy as np

from cs336_basics.__main__ import main

TINY = """
name: tiny
max_steps: 12
batch_size: 4
device: cpu
num_workers: 1
log_every: 2
eval_every: 6
eval_windows: 8
checkpoint_every: 4
keep_checkpoints: 3
sample_tokens: 10
data: {sample_bytes: 20000, trainer: heap}
model: {vocab_size: 300, context_length: 16, d_model: 16, num_layers: 1, num_heads: 2, d_ff: 32}
"""


def command(name):
    """Return a function that runs a command with the given words and returns its exit status."""
    return lambda words: main([name, *words])


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def start(*words, **settings):
    """Start a command in a new process with the given words."""
    # The test runner may ignore SIGINT, as a shell does for background processes.
    default = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(
        [sys.executable, "-m", "cs336_basics", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=default if os.name == "posix" else None,
        **settings,
    )


def pipe(monkeypatch, data):
    """Let a command read bytes from standard input."""
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(data)))


def error_of(capsys, command):
    """Return the message of a command that printed only a one-line error."""
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    assert printed.err.startswith(f"cs336 {command}: error: ")
    return printed.err.removeprefix(f"cs336 {command}: error: ").rstrip("\n")


def assert_equal_runs(left, right):
    """Assert that all files have the same bytes, except those that contain times."""
    contents = []
    for path in (Path(left), Path(right)):
        files = [file for file in path.rglob("*") if file.is_file()]
        contents.append({str(file.relative_to(path)): file for file in files})
    # stages.json and the metadata of token files contain the path of the run.
    different = {"timings.jsonl", ".lock", "loss.png", "data/stages.json"}
    names = [set(files) - different for files in contents]
    assert names[0] == names[1]
    for name in sorted(names[0]):
        read = np.load if name.endswith(".npy") else Path.read_bytes
        assert np.array_equal(*(read(files[name]) for files in contents)), name


def fill_weights(path, value):
    """Fill the weights in a run's newest checkpoint with one value, and return its path."""
    import torch

    from cs336_basics.checkpoints.checkpoint import write_checkpoint
    from cs336_basics.checkpoints.run_dir import RunDirectory
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.training.config_files import load_config
    from cs336_basics.training.owner_of_run import owner_of_run

    run = RunDirectory(path)
    config = load_config(run.config)
    model = TransformerLM(config.model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(value)
    checkpoint = run.newest_checkpoint()
    owner = owner_of_run(run, config, Tokenizer.from_directory(run.tokenizer))
    optimizer = torch.optim.AdamW(model.parameters())
    write_checkpoint(checkpoint, model, optimizer, run.steps_saved()[-1], owner)
    return checkpoint
