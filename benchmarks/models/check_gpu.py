"""Run all checks that need a GPU: `python -m benchmarks.models.check_gpu`.

1. Exact resumption: with `--deterministic`, a run that is stopped, killed and resumed writes the
   same bytes as an uninterrupted run, on both the readable and the compiled path.
2. Memory: the prediction of `estimate` is within 10 % of a run's peak memory.
3. Speed: tokens/s and model FLOP utilization of the readable and the fast path, for the TinyStories
   shape and for a model with 124 M parameters. The batch size is halved until the batch fits.

Without a GPU, the script prints a message and exits. `--device cpu --shapes tiny --batch-size 4`
runs the same steps on a CPU.
"""

import argparse
import dataclasses
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.machine import spawned
from benchmarks.models.llama import SHAPES
from benchmarks.models.lm_training import measure, report
from cs336_basics._support.memory import peak_memory
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.devices import choose_device
from cs336_basics.training.fast_path import choose_fast_path
from cs336_basics.training.measure import measure_steps
from cs336_basics.training.memory import step_memory
from cs336_basics.training.trainer import Trainer

TRAIN = [sys.executable, "-m", "cs336_basics.train"]

SMALL_RUN = """
max_steps: 60
batch_size: 16
deterministic: true
log_every: 1
eval_every: 20
eval_windows: 32
checkpoint_every: 5
keep_checkpoints: 100
sample_tokens: 40
data: {sample_bytes: 300000}
model: {vocab_size: 1000, context_length: 64, d_model: 128, num_layers: 2, num_heads: 4, d_ff: 256}
schedule: {cycle_steps: 60}
"""

PATHS = {
    "readable, float32": [],
    "Muon, accumulated": ["--optimizer.kind", "muon", "--accumulation", "2"],
    "fast": ["--loss-chunks", "4", "--optimizer.fused", "true", "--compile", "true"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["tinystories", "124m"])
    parser.add_argument("--batch-size", type=int, help="default: 512 for tinystories, 64 for 124m")
    parser.add_argument("--rounds", type=int, default=20, help="steps to time per implementation")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("skipped: torch found no GPU on this machine")
        return
    device = choose_device(options.device)
    check_resumption(device)
    for shape in options.shapes:
        batch_size = options.batch_size or {"tinystories": 512, "124m": 64}.get(shape, 16)
        check_memory(shape, min(batch_size, 64), device)
        while True:
            try:
                seconds, fast = measure(
                    shape, batch_size, device, choose_fast_path(TrainConfig(), device)[0].precision,
                    options.rounds, ["readable", "fast"],
                )  # fmt: skip
                break
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                print(f"{shape}: a batch of {batch_size} does not fit; trying half the size")
                batch_size //= 2
        report(shape, batch_size, device, seconds, {}, fast)


def check_resumption(device):
    """Stop, kill and resume a run on each path, and compare it with an uninterrupted run."""
    precision, _ = choose_fast_path(TrainConfig(), device)
    for name, words in PATHS.items():
        words = ["--device", str(device), *words]
        if name == "fast":
            words += ["--precision", precision.precision]
        with tempfile.TemporaryDirectory() as directory:
            config = Path(directory) / "config.yaml"
            config.write_text(SMALL_RUN)
            whole, stopped = (RunDirectory(Path(directory) / run) for run in ("whole", "stopped"))
            start = [*TRAIN, "--config", str(config), *words, "--run-dir"]
            subprocess.run([*start, str(whole.path)], check=True, stdout=subprocess.DEVNULL)
            stop([*start, str(stopped.path)], stopped, 10, signal.SIGTERM)
            again = [*TRAIN, "--resume", str(stopped.path)]
            stop(again, stopped, 30, signal.SIGKILL)
            subprocess.run(again, check=True, stdout=subprocess.DEVNULL)
            for file in ("metrics.jsonl", "samples", f"checkpoints/{whole.checkpoint(60).name}"):
                assert contents(whole.path / file) == contents(stopped.path / file), (name, file)
        print(f"exact resumption, {name}: identical bytes")


def stop(command, run, step, number):
    """Start a command, and send it a signal once a checkpoint at `step` or later exists."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and max(run.steps_saved(), default=0) < step:
            time.sleep(0.01)
        process.send_signal(number)
    assert process.returncode in (-number, 128 + number), "the run ended before the signal"


def contents(path):
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def peak_of_run(config):
    """Train on random tokens in this process, and return its peak memory in bytes."""
    number = 8 * (config.batch_size + 1) * config.model.context_length
    tokens = np.random.default_rng(1).integers(config.model.vocab_size, size=number)
    with tempfile.TemporaryDirectory() as directory:
        trainer = Trainer(config, tokens, tokens, RunDirectory(directory), report=lambda line: None)
        trainer.fit()
    if trainer.device.type == "cuda":
        return torch.cuda.max_memory_allocated(trainer.device)
    return peak_memory()


def check_memory(shape, batch_size, device):
    """Compare the prediction of `estimate` with a run's peak memory."""
    config = TrainConfig(
        model=SHAPES[shape],
        batch_size=batch_size,
        device=str(device),
        max_steps=4,
        eval_every=2,
        eval_windows=2 * batch_size,
        sample_tokens=0,
    )
    fast, _ = choose_fast_path(dataclasses.replace(config, max_steps=10**6), device)
    for name, path in (("readable", config), ("fast", dataclasses.replace(fast, max_steps=4))):
        peak = spawned(peak_of_run, path)
        estimate = measure_steps(path).peak
        tensors = step_memory(path).total
        print(
            f"memory, {shape}, batch {batch_size}, {name}: {peak / 1e6:,.0f} MB; estimate "
            f"{estimate / 1e6:,.0f} MB ({estimate / peak - 1:+.1%}), its tensors "
            f"{tensors / 1e6:,.0f} MB"
        )
        assert abs(estimate / peak - 1) < 0.1


if __name__ == "__main__":
    main()
