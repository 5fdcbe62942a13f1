"""Training in one and two CPU processes (gloo), and resuming with another number of processes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import re
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

from cs336_basics.__main__ import main
from cs336_basics.checkpoints.checkpoint import verify_checkpoint
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.datasets import write_sample
from cs336_basics.training.config_files import load_config
from cs336_basics.training.distributed import World, check_batch_size, join_world
from cs336_basics.training.products import has_onednn
from tests.commands.small_run import environment
from tests.errors import rejects
from tests.numerics import default_dtype, rounding_bound
from tests.processes import run_python, wait
from tests.training.distributed_scenarios import (
    ANSWERS,
    HALF,
    HALF_MUON,
    LAYOUTS,
    MUON,
    ONEDNN,
    PACKED,
    QUICK,
    RESUMED,
    SCENARIOS,
    STEPS,
    WHOLE,
    train,
)
from tests.training.tiny_runs import losses_of

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="torch was built without gloo"
)


needs_onednn = pytest.mark.skipif(not has_onednn(), reason="needs oneDNN in torch")


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
    wanted = SCENARIOS if any(map(is_slow, tests)) else QUICK
    names = [name for name in wanted if has_onednn() or SCENARIOS[name].products != "onednn"]
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
    singles = {"onednn": ONEDNN, "mixed": WHOLE, "answers": ANSWERS, "packed": PACKED}
    for ending, config in singles.items():
        if any(name.endswith(f"-{ending}") for name in names):
            with default_dtype("float32" if ending == "onednn" else "float64"):
                train(directory / f"single-{ending}", dataclasses.replace(config, accumulation=1))
    command = [sys.executable, "-m", "tests.training.distributed_scenarios", directory, *names]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-5000:]
    yield directory
    torch.set_num_threads(threads)


def is_slow(item):
    return item.get_closest_marker("slow") is not None


def assert_like_single(runs, name):
    """Assert that a run has the losses of the same run in one process, and return this run."""
    endings = ("-muon", "-mixed", "-answers", "-packed")
    ending = next((e for e in endings if name.endswith(e)), "")
    single = runs / f"single{ending}"
    keys = {"train_loss": STEPS, "grad_norm": STEPS, "val_loss": 2, "val_bits_per_byte": 2}
    if ending == "-mixed":
        keys |= {"val_loss/a": 2, "val_loss/b": 2}
    for key, count in keys.items():
        expected = losses_of(single, key)
        assert len(expected) == count
        assert losses_of(runs / name, key) == pytest.approx(expected), key
    return RunDirectory(single)


OTHER_TESTS = ("-to-single", "-onednn", "-dropout", RESUMED)


@scenarios(*(name for name in SCENARIOS if not any(part in name for part in OTHER_TESTS)))
def test_two_processes_have_the_losses_of_one(runs, name):
    single, run = assert_like_single(runs, name), RunDirectory(runs / name)
    assert run.steps_saved() == [STEPS // 2, STEPS]
    assert run.best().step == single.best().step
    assert len(list(run.samples.iterdir())) == 2
    assert not list(run.path.rglob(".*.tmp"))


@pytest.mark.usefixtures("float64")
@scenarios(*(name for name in SCENARIOS if "-to-single" in name))
def test_a_checkpoint_of_two_processes_resumes_in_one(runs, name):
    train(runs / name, MUON if name.endswith("-muon") else WHOLE)
    assert_like_single(runs, name)


@needs_onednn
@scenarios(*(name for name in SCENARIOS if name.endswith("-onednn")))
def test_products_of_onednn_give_the_losses_of_one_process(runs, name):
    # The longest sum of a step has a term for each entry of the vocabulary.
    bound = 2 * rounding_bound(STEPS * ONEDNN.model.vocab_size)
    for key in ("train_loss", "grad_norm", "val_loss"):
        expected = losses_of(runs / "single-onednn", key)
        assert losses_of(runs / name, key) == pytest.approx(expected, rel=bound, abs=0), key


@scenarios(
    *(name for name in SCENARIOS if name.endswith(("-dropout", "-mixed", "-answers", "-packed")))
)
def test_a_resumed_run_is_the_same_bit_for_bit(runs, name):
    whole, resumed = RunDirectory(runs / name), RunDirectory(runs / f"{name}{RESUMED}")
    assert resumed.metrics.read_bytes() == whole.metrics.read_bytes()
    assert resumed.steps_saved() == whole.steps_saved() == [STEPS // 2, STEPS]
    for step in whole.steps_saved():
        assert resumed.checkpoint(step).read_bytes() == whole.checkpoint(step).read_bytes()


def test_a_checkpoint_of_a_sharded_model_has_all_rows(runs):
    checkpoint = RunDirectory(runs / "fsdp-plain").checkpoint(STEPS)
    verify_checkpoint(checkpoint)
    with safe_open(checkpoint, "pt") as file:
        assert file.get_tensor("optimizer.lm_head.weight.exp_avg").shape[0] == 257


@pytest.mark.parametrize("variable", ["RANK", "WORLD_SIZE", "LOCAL_RANK"])
@pytest.mark.parametrize("value", ["abc", "", "-1", "²"])
def test_a_variable_that_is_not_a_number_is_named(monkeypatch, variable, value):
    for name, number in {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        variable: value,
    }.items():
        monkeypatch.setenv(name, number)
    with rejects(None, value, place=variable):
        join_world("cpu")


def test_more_processes_than_gpus_are_rejected(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setenv("WORLD_SIZE", "3")

    def joined(rank):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        return join_world("cuda")

    assert [joined(rank).local_rank for rank in (0, 1)] == [0, 1]
    with rejects(None, 2, "at least 3"):
        joined(2)


def test_a_batch_that_cannot_be_divided_is_rejected():
    check_batch_size(dataclasses.replace(WHOLE, accumulation=2), World(size=2))
    for config, size in ((WHOLE, 3), (dataclasses.replace(WHOLE, accumulation=2), 4)):
        with rejects("batch_size", f"({size})", "got 4"):
            check_batch_size(config, World(size=size))


CONFIG_FILE = """
name: tiny
max_steps: 400
batch_size: 4
device: cpu
num_workers: 1
log_every: 1
eval_every: 200
eval_windows: 8
checkpoint_every: 10
sample_tokens: 0
data: {sample_bytes: 60000, trainer: heap}
model: {vocab_size: 300, context_length: 16, d_model: 16, num_layers: 2, num_heads: 2, d_ff: 33}
"""
# The `train` command in float64, where the order of sums has no visible effect.
TRAIN = """
import sys
import torch
from cs336_basics.__main__ import main
torch.set_default_dtype(torch.float64)
sys.exit(main(["train", *sys.argv[1:]]))
"""
SECONDS_TO_STOP = 10


@contextlib.contextmanager
def job(run, size, *words):
    """Start or resume a run in several processes.

    Yields:
        The job, and its workers by rank, once the run has recorded a new step.
    """
    steps = len(losses_of(run.path, "train_loss")) if run.metrics.exists() else 0
    program = ["--no-python", sys.executable, "-c", TRAIN]
    command = [*TORCHRUN[:-1], str(size), *program, *words]
    with subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            wait_for_step(process, run, steps + 1)
            children = psutil.Process(process.pid).children()
            workers = {int(child.environ()["RANK"]): child for child in children}
            assert len(workers) == size
            yield process, workers
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def wait_for_step(process, run, step):
    """Wait until the run has recorded the step, or has ended."""
    wait(
        lambda: (
            process.poll() is not None
            or (run.metrics.exists() and len(losses_of(run.path, "train_loss")) >= step)
        )
    )


def kill_one(run, size, victim, step, *words, delay):
    """Start or resume a run, and kill one of its processes `delay` seconds after a step.

    Assert that the others stop in time, with a message that names an intact checkpoint.
    """
    with job(run, size, *words) as (process, workers):
        wait_for_step(process, run, step)
        time.sleep(delay)
        workers.pop(victim).kill()
        _, running = psutil.wait_procs(workers.values(), timeout=SECONDS_TO_STOP)
        assert not running
        output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Signal 9 (SIGKILL)" in output
    lines = [line for line in output.splitlines() if line.startswith("cs336 train: error: ")]
    assert lines
    for line in lines:
        assert re.search(
            rf"process \d of {size} stopped after step \d+: another process has ended;", line
        )
        assert f"torchrun --nproc-per-node {size} -m cs336_basics train --resume {run.path}" in line
    saved = run.steps_saved()
    assert saved[-1] >= step - 10
    for path in map(run.checkpoint, saved):
        verify_checkpoint(path)
    # The first process may save one more checkpoint after the others have stopped.
    named = {Path(name) for name in re.findall(r"the last checkpoint is (\S+);", output)}
    assert named
    assert named <= set(map(run.checkpoint, saved))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The configuration file, and the run that one process trained from it in float64."""
    directory = tmp_path_factory.mktemp("uninterrupted")
    file = directory / "tiny.yaml"
    file.write_text(CONFIG_FILE)
    threads = torch.get_num_threads()
    with default_dtype("float64"):
        assert main(["train", "--config", str(file), "--run-dir", str(directory / "run")]) == 0
    yield file, directory / "run"
    torch.set_num_threads(threads)


def assert_same_losses(run, expected):
    for key, count in {"train_loss": 400, "grad_norm": 400, "val_loss": 2}.items():
        assert len(losses_of(run, key)) == count
        torch.testing.assert_close(
            torch.tensor(losses_of(run, key), dtype=torch.float64),
            torch.tensor(losses_of(expected, key), dtype=torch.float64),
        )


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("seed", "jobs"),
    [(seed, [(layout, 2), (layout, 4), (layout, 4)]) for layout in LAYOUTS for seed in range(5)],
)
def test_processes_killed_at_any_time_leave_a_run_that_continues_in_one(
    tmp_path, uninterrupted, seed, jobs
):
    file, expected = uninterrupted
    generator = random.Random(f"{jobs[-1][0]} {seed}")
    run = RunDirectory(tmp_path / "run")
    start, step = ["--config", str(file), "--run-dir", str(run.path)], 0
    for layout, size in jobs:
        step += generator.randint(11, 60)
        victim, delay = generator.randrange(size), generator.uniform(0, 0.1)
        kill_one(run, size, victim, step, *start, "--parallel", layout, delay=delay)
        start = ["--resume", str(run.path)]
        step = run.steps_saved()[-1]
    assert main(["train", "--resume", str(run.path)]) == 0
    assert_same_losses(run.path, expected)


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("extended", [False, True])
def test_a_run_from_a_model_in_two_processes_has_the_losses_of_one(
    tmp_path, uninterrupted, layout, extended
):
    _, origin = uninterrupted
    text = tmp_path / "my.txt"
    write_sample(text, 40_000, seed=9)
    words = ["--init-from", origin, "--data.train-path", text, "--max-steps", 6]
    words += ["--eval-every", 3, "--log-every", 1, "--batch-size", 4, "--sample-tokens", 0]
    words += ["--device", "cpu", "--num-workers", 1]
    if extended:
        options = ["--input", text, "--vocab-size", 320, "--output", tmp_path / "longer"]
        command = ["train-bpe", "--continue", origin / "tokenizer", *options]
        assert main(list(map(str, command))) == 0
        words += ["--data.tokenizer", tmp_path / "longer"]
    words = list(map(str, words))
    assert main(["train", *words, "--run-dir", str(tmp_path / "one")]) == 0
    program = ["--no-python", sys.executable, "-c", TRAIN, *words, "--parallel", layout]
    done = subprocess.run(
        [*TORCHRUN, *program, "--run-dir", str(tmp_path / "two")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    # The first evaluation uses the origin's weights.
    for key, count in {"train_loss": 6, "grad_norm": 6, "val_loss": 3}.items():
        one, two = (losses_of(tmp_path / name, key) for name in ("one", "two"))
        assert len(one) == count
        assert two == pytest.approx(one)
    origins = [load_config(tmp_path / name / "config.yaml").origin for name in ("one", "two")]
    assert origins[0] == origins[1]
    assert origins[0].weights is not None


@pytest.mark.slow
def test_a_signal_to_one_process_saves_and_stops_all(tmp_path, uninterrupted):
    file, _ = uninterrupted
    run = RunDirectory(tmp_path / "run")
    with job(run, 2, "--config", str(file), "--run-dir", str(run.path)) as (process, workers):
        workers[1].send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert f"stopped by SIGTERM after step {run.steps_saved()[-1]}; " in output
    verify_checkpoint(run.checkpoint(run.steps_saved()[-1]))


LONG_PREPARATION = """
import datetime
import os
import sys
import time
import cs336_basics.training.distributed as distributed
import cs336_basics.training.start as start
from cs336_basics.__main__ import main
from cs336_basics._support.errors import InputError

def prepare_data(*_args, **_options):
    time.sleep(3)
    raise InputError("the text is damaged")

distributed.TIMEOUT = datetime.timedelta(seconds=1)
start.prepare_data = prepare_data
sys.exit(main(["train", *sys.argv[1:]]))
"""


@pytest.mark.slow
def test_processes_wait_for_the_preparation_and_say_when_it_fails(tmp_path):
    program = ["--no-python", sys.executable, "-c", LONG_PREPARATION]
    words = ["--device", "cpu", "--run-dir", str(tmp_path / "run")]
    done = subprocess.run(
        [*TORCHRUN, *program, *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "error: the text is damaged" in done.stderr
    assert "gloo" not in done.stderr  # the second process names no source file of gloo's
    assert not (tmp_path / "run").exists()


# Two processes use the group and exit. Its threads get the GIL only while the main thread waits.
LEAVING = """
import os, sys
import torch
import torch.distributed as dist
from cs336_basics.training.distributed import World, leave_world

torch.set_num_threads(1)
for trial in range(int(sys.argv[2])):
    children = []
    for rank in range(2):
        if child := os.fork():
            children.append(child)
            continue
        store = dist.FileStore(f"{sys.argv[1]}/{trial}", 2)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
        sys.group = dist.group.WORLD  # the caches of FSDP also keep the group
        sys.setswitchinterval(60)
        for _ in range(20):
            dist.all_reduce(torch.ones(1))
        World(rank, 2).finish()
        leave_world()
        sys.exit()
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("trials", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_finished_processes_exit_cleanly(tmp_path, trials):
    run_python(LEAVING, tmp_path, trials, OMP_NUM_THREADS="1")


# Two processes of a run. The first one is slow to print its summary.
TRAINING = """
import os, sys, time
from pathlib import Path
import torch
import torch._dynamo  # DDP imports it, once for both processes
import torch.distributed as dist
import cs336_basics.training.trainer as trainer_module
from cs336_basics.__main__ import main
from cs336_basics.commands import _training
from cs336_basics.training.distributed import World

directory, *words = sys.argv[1:]
summary = Path(directory, "summary")

def join(device):
    store = dist.FileStore(f"{directory}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    return World(rank, 2)

def say(line):
    if "What to try next" in line:
        time.sleep(1)
        summary.touch()

_training.join_world, _training.say = join, say
trainer_module.plot_run = lambda run: None  # saves the time to import Matplotlib
torch.set_num_threads(1)
children = []
for rank in range(2):
    if child := os.fork():
        children.append(child)
        continue
    status = main(["train", *words])
    os._exit(status or 100 * (not summary.exists()))
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_no_process_of_a_run_ends_before_the_others(tmp_path):
    sizes = ["--model.vocab-size", 260, "--model.d-model", 8, "--model.num-heads", 2]
    sizes += ["--model.num-layers", 1, "--model.context-length", 8, "--model.d-ff", 8]
    words = ["--run-dir", tmp_path / "run", "--device", "cpu", "--data.sample-bytes", 20_000]
    words += ["--max-steps", 2, "--batch-size", 2, "--sample-tokens", 0, "--num-workers", 1]
    run_python(TRAINING, tmp_path, *words, *sizes, OMP_NUM_THREADS="1")
