"""Training in two CPU processes (gloo) compared with one, and resuming with a different number."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from safetensors import safe_open

from cs336_basics.checkpoints.checkpoint import verify_checkpoint
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.distributed import World, check_batch_size
from tests.numerics import default_dtype
from tests.training.distributed_scenarios import (
    HALF,
    HALF_MUON,
    LAYOUTS,
    MUON,
    QUICK,
    SCENARIOS,
    STEPS,
    VARIANTS,
    WHOLE,
    train,
)

ROOT = Path(__file__).parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="torch was built without gloo"
)


def environment():
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def scenarios(*names):
    """Parametrize a test with scenarios. Scenarios that are not in QUICK become slow tests."""
    return pytest.mark.parametrize(
        "name",
        [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in names],
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory, request):
    """A directory with the runs of all scenarios, and the same runs in one process."""
    tests = [item for item in request.session.items if item.module is request.module]
    names = SCENARIOS if any(map(is_slow, tests)) else QUICK
    directory = tmp_path_factory.mktemp("runs")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for ending, whole, half in (("", WHOLE, HALF), ("-muon", MUON, HALF_MUON)):
        resumed = {f"single-to-{layout}{ending}" for layout in LAYOUTS} & set(names)
        with default_dtype("float64"):
            train(directory / f"single{ending}", whole)
            if resumed:
                train(directory / f"half{ending}", half)
        for name in resumed:
            shutil.copytree(directory / f"half{ending}", directory / name)
    command = [*TORCHRUN, "-m", "tests.training.distributed_scenarios", str(directory), *names]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-5000:]
    yield directory
    torch.set_num_threads(threads)


def is_slow(item):
    return item.get_closest_marker("slow") is not None


def losses(run, key="train_loss"):
    return [row[key] for row in RunDirectory(run).read_metrics() if key in row]


def assert_like_single(runs, name, single="single"):
    keys = {"train_loss": STEPS, "grad_norm": STEPS, "val_loss": 2, "val_bits_per_byte": 2}
    for key, count in keys.items():
        expected = losses(runs / single, key)
        assert len(expected) == count
        assert losses(runs / name, key) == pytest.approx(expected), key


@scenarios(*(f"{layout}-{variant}" for variant in VARIANTS for layout in LAYOUTS))
def test_two_processes_have_the_losses_of_one(runs, name):
    assert_like_single(runs, name)
    run = RunDirectory(runs / name)
    assert run.steps_saved() == [6, 12]
    assert run.best()[1] == RunDirectory(runs / "single").best()[1]
    assert len(list(run.samples.iterdir())) == 2
    assert not list(run.path.rglob(".*.tmp"))


@scenarios(*(f"{layout}-muon" for layout in LAYOUTS))
def test_muon_and_the_switches_of_speedrun_give_the_losses_of_one_process(runs, name):
    assert_like_single(runs, name, "single-muon")


@scenarios(*(name for name in SCENARIOS if name.startswith("single-to-")))
def test_a_checkpoint_of_one_process_resumes_in_two(runs, name):
    assert_like_single(runs, name, "single-muon" if name.endswith("-muon") else "single")


@pytest.mark.usefixtures("float64")
@scenarios(*(name for name in SCENARIOS if "-to-single" in name))
def test_a_checkpoint_of_two_processes_resumes_in_one(runs, name):
    muon = name.endswith("-muon")
    train(runs / name, MUON if muon else WHOLE)
    assert_like_single(runs, name, "single-muon" if muon else "single")


def test_a_checkpoint_of_a_sharded_model_has_all_rows(runs):
    checkpoint = RunDirectory(runs / "fsdp-plain").checkpoint(12)
    verify_checkpoint(checkpoint)
    with safe_open(checkpoint, "pt") as file:
        assert file.get_tensor("optimizer.lm_head.weight.exp_avg").shape[0] == 257


def test_a_batch_that_cannot_be_divided_is_rejected():
    check_batch_size(dataclasses.replace(WHOLE, accumulation=2), World(size=2))
    for config, size in ((WHOLE, 3), (dataclasses.replace(WHOLE, accumulation=2), 4)):
        with pytest.raises(ValueError, match=f"batch_size .*{size} processes .*got 4"):
            check_batch_size(config, World(size=size))


CONFIG_FILE = """
name: tiny
max_steps: 100000
batch_size: 4
device: cpu
num_workers: 1
log_every: 2
eval_every: 1000
checkpoint_every: 20
sample_tokens: 0
data: {sample_bytes: 60000, trainer: heap}
model: {vocab_size: 300, context_length: 16, d_model: 16, num_layers: 1, num_heads: 2, d_ff: 32}
"""


@contextlib.contextmanager
def two_processes(tmp_path):
    """Yield a job, its two workers and its run after the job has saved its first checkpoint."""
    (tmp_path / "tiny.yaml").write_text(CONFIG_FILE)
    run = RunDirectory(tmp_path / "run")
    command = [*TORCHRUN, "-m", "cs336_basics.train", "--config", str(tmp_path / "tiny.yaml")]
    with subprocess.Popen(
        [*command, "--run-dir", str(run.path)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as job:
        try:
            deadline = time.monotonic() + 120
            while not run.steps_saved() and job.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            workers = sorted(psutil.Process(job.pid).children(), key=lambda process: process.pid)
            assert len(workers) == 2
            yield job, workers, run
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
    for step in run.steps_saved():
        verify_checkpoint(run.checkpoint(step))


def test_a_killed_process_ends_the_job_with_a_message(tmp_path):
    with two_processes(tmp_path) as (job, workers, run):
        workers[1].send_signal(signal.SIGKILL)
        output, _ = job.communicate(timeout=60)
        assert job.returncode != 0
        assert "Signal 9 (SIGKILL)" in output
        assert f"torchrun --nproc-per-node 2 -m cs336_basics.train --resume {run.path}" in output


@pytest.mark.slow
def test_a_signal_to_one_process_saves_and_stops_all(tmp_path):
    with two_processes(tmp_path) as (job, workers, run):
        workers[1].send_signal(signal.SIGTERM)
        output, _ = job.communicate(timeout=60)
        assert job.returncode != 0
        assert f"stopped by SIGTERM after step {run.steps_saved()[-1]}; " in output
