from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import shutil
import signal
import threading
import types

import numpy as np
import pytest
import torch
from safetensors import safe_open

import cs336_basics.training.devices as devices
import cs336_basics.training.trainer as trainer_module
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.runs.checkpoint_dir import load_checkpoint_directory
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.training import cosine_schedule, get_batch, save_checkpoint
from cs336_basics.training.config import OptimizerConfig, ScheduleConfig, TrainConfig
from cs336_basics.training.trainer import (
    NonFiniteLossError,
    Trainer,
    TrainingInterrupted,
    step_generator,
)
from tests.numerics import default_dtype

CONFIG = TrainConfig(
    max_steps=20,
    batch_size=4,
    device="cpu",
    log_every=3,
    eval_every=8,
    eval_batches=2,
    checkpoint_every=5,
    keep_checkpoints=3,
    sample_tokens=12,
    model=ModelConfig(
        vocab_size=257, context_length=16, d_model=16, num_layers=2, num_heads=2, d_ff=32
    ),
    optimizer=OptimizerConfig(max_grad_norm=0.5),
    schedule=ScheduleConfig(max_learning_rate=1e-2, min_learning_rate=1e-3, warmup_fraction=0.2),
)
TOKENIZER = Tokenizer(
    {**{byte: bytes([byte]) for byte in range(256)}, 256: b"<|endoftext|>"}, [], ["<|endoftext|>"]
)
TEXT = "The cat sat on the mat, and the dog ate the hat.<|endoftext|>" * 60
TRAIN = np.array(TOKENIZER.encode(TEXT), dtype=np.uint16)
VALID = np.array(TOKENIZER.encode(TEXT[30:1000]), dtype=np.uint16)


def make(path, config=CONFIG, train=TRAIN, valid=VALID, **options):
    run = RunDirectory(path)
    run.path.mkdir(parents=True, exist_ok=True)
    options = {"tokenizer": TOKENIZER, **options}
    return Trainer(config, train, valid, run, report=lambda line: None, **options)


def changed(config=CONFIG, **values):
    return dataclasses.replace(config, **values)


def outcome(path):
    """Everything that a run leaves behind and that must be the same again: names and bytes."""
    run = RunDirectory(path)
    kept = {}
    for file in sorted(run.path.rglob("*")):
        if file.is_file() and file not in (run.timings, run.loss_plot):
            kept[str(file.relative_to(run.path))] = file.read_bytes()
    return kept


def weights_of(checkpoint, config=CONFIG):
    model = TransformerLM(config.model)
    load_checkpoint_directory(checkpoint, model, None)
    return model.state_dict()


def losses_of(path, key):
    return [row[key] for row in RunDirectory(path).read_metrics() if key in row]


def assert_same(left, right):
    """Compare nested containers, tensors bit for bit."""
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    elif isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    else:
        assert left == right


@pytest.fixture(autouse=True)
def no_plots(monkeypatch):
    """Leave the plots out: they take most of a tiny run's time."""
    monkeypatch.setattr(RunDirectory, "plot_losses", lambda run: None)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    make(path).fit()
    return outcome(path)


@pytest.fixture(scope="module")
def uninterrupted_in_float64(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run64"
    with default_dtype("float64"):
        make(path).fit()
    return outcome(path)


def uninterrupted_losses(uninterrupted, key="train_loss"):
    rows = map(json.loads, uninterrupted["metrics.jsonl"].splitlines())
    return [row[key] for row in rows if key in row]


class Crash(Exception):
    """Stands for a process that ends where it is."""


def raise_at(trainer, method, condition):
    """Let a method of this trainer crash when the condition holds for its arguments."""
    original = getattr(trainer, method)

    def wrapped(*arguments):
        if condition(*arguments):
            raise Crash
        return original(*arguments)

    setattr(trainer, method, wrapped)


# The loop computes what it should.


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
def test_the_loop_equals_one_written_with_torch(tmp_path):
    config = changed(max_steps=8, log_every=1, eval_every=100, sample_tokens=0)
    trainer = make(tmp_path, config)
    torch.manual_seed(config.seed)
    model = TransformerLM(config.model)
    assert_same(dict(trainer.model.state_dict()), dict(model.state_dict()))
    trainer.fit()
    rows = {row["step"]: row for row in RunDirectory(tmp_path).read_metrics() if "lr" in row}

    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(1, 9):
        x, y = get_batch(TRAIN, 4, 16, "cpu", step_generator(0, step))
        optimizer.param_groups[0]["lr"] = cosine_schedule(step, 1e-2, 1e-3, round(0.2 * 8), 8)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        assert rows[step]["train_loss"] == pytest.approx(loss.item())
        assert rows[step]["grad_norm"] == pytest.approx(norm.item())
        assert rows[step]["lr"] == optimizer.param_groups[0]["lr"]
        assert rows[step]["tokens"] == step * 4 * 16
    for ours, theirs in zip(trainer.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_learns_a_text_that_repeats(tmp_path):
    result = make(tmp_path, changed(max_steps=150, eval_every=150, checkpoint_every=150)).fit()
    assert result.val_loss < 0.7 < math.log(257) / 2
    assert result.step == 150
    assert result.tokens == 150 * 4 * 16


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("values", [{}, {"fused_optimizer": True, "loss_chunks": 2}])
def test_a_gpu_resumes_exactly_where_it_is_asked_to(tmp_path, values):
    config = changed(device="cuda", deterministic=True, **values)
    make(tmp_path, config).fit()
    expected = outcome(tmp_path)
    again = make(tmp_path, config)
    again.resume(RunDirectory(tmp_path).checkpoint(15))
    shutil.rmtree(tmp_path / "checkpoints" / "step_00000016.unused")
    shutil.rmtree(tmp_path / "checkpoints" / "step_00000020.unused")
    again.fit()
    assert_same(outcome(tmp_path), expected)


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("accumulation", [2, 4])
def test_accumulation_changes_nothing_but_rounding(tmp_path, accumulation):
    losses = []
    for k in (1, accumulation):
        config = changed(max_steps=10, accumulation=k, log_every=1)
        make(tmp_path / str(k), config).fit()
        rows = RunDirectory(tmp_path / str(k)).read_metrics()
        losses.append([row["train_loss"] for row in rows if "train_loss" in row])
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("eval_batches", [0, 1, 2, 100])
def test_evaluation_is_the_mean_over_windows_that_do_not_overlap(tmp_path, eval_batches):
    trainer = make(tmp_path, changed(eval_batches=eval_batches))
    windows = (len(VALID) - 1) // 16
    chosen = range(windows)
    if 0 < eval_batches * 4 < windows:
        chosen = [k * windows // (eval_batches * 4) for k in range(eval_batches * 4)]
    losses = []
    for window in chosen:
        ids = torch.tensor(VALID[window * 16 : window * 16 + 17].astype(np.int64))
        with torch.no_grad():
            losses.append(torch.nn.functional.cross_entropy(trainer.model(ids[:-1]), ids[1:]))
    assert trainer.evaluate()[0] == pytest.approx(float(torch.stack(losses).mean()))
    assert trainer.evaluate() == trainer.evaluate()
    assert trainer.model.training


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("eval_batches", [0, 1, 2])
def test_bits_per_byte_are_those_of_the_bytes_that_were_predicted(tmp_path, eval_batches):
    # "abababab" becomes one token, so that eight of nine windows hold a byte per token, and the
    # ninth, which a small evaluation begins with, eight bytes per token or more.
    halves = [(b"a", b"b"), (b"ab", b"ab"), (b"abab", b"abab")]
    vocab = {**TOKENIZER.vocab, **{257 + n: x + y for n, (x, y) in enumerate(halves)}}
    tokenizer = Tokenizer(vocab, halves, ["<|endoftext|>"])
    dense, thin = "abababab" * 11 + "<|endoftext|>" + "abababab" * 4, "xyz " * 4
    text = (dense + thin * 8) * 10 + "."
    valid = np.array(tokenizer.encode(text), dtype=np.uint16)
    assert len(valid) == 9 * 10 * 16 + 1
    config = changed(
        eval_batches=eval_batches,
        model=dataclasses.replace(CONFIG.model, vocab_size=260),
    )
    trainer = make(tmp_path, config, valid=valid, tokenizer=tokenizer)
    windows = len(valid) // 16
    chosen = min(windows, eval_batches * 4) or windows
    nats = num_bytes = 0.0
    for number in range(chosen):
        start = number * windows // chosen * 16
        ids = torch.tensor(valid[start : start + 17].astype(np.int64))
        with torch.no_grad():
            logits = trainer.model(ids[:-1])
        nats += float(torch.nn.functional.cross_entropy(logits, ids[1:], reduction="sum"))
        num_bytes += len(tokenizer.decode(ids[1:].tolist()).encode())
    _, found = trainer.evaluate()
    assert found == pytest.approx(nats / math.log(2) / num_bytes)
    # (The ratio of the whole text would be another figure, unless all of it is evaluated.)
    predicted = len(text) - len(tokenizer.decode([int(valid[0])]))
    assert (num_bytes == predicted) == (chosen == windows)


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("windows", [5, 7, 8, 11])
def test_shares_of_an_evaluation_add_up_where_they_differ(tmp_path, windows):
    trainer = make(tmp_path, changed(eval_batches=0, batch_size=8), valid=VALID[: 16 * windows + 1])
    expected = trainer.evaluate()
    sums = []
    for rank in range(4):  # of two windows at a time each; of five the last process gets none
        trainer.world = types.SimpleNamespace(
            rank=rank,
            size=4,
            sum=lambda values: sums.append(values) or [1.0, 1.0, 1.0],
            any=lambda condition: condition,
        )
        trainer.evaluate()
    total, count, num_bytes = np.sum(sums, axis=0)
    assert count == 16 * windows
    assert num_bytes == len(TOKENIZER.decode(VALID[1 : 16 * windows + 1].tolist()).encode())
    assert total / count == pytest.approx(expected[0])
    assert total / math.log(2) / num_bytes == pytest.approx(expected[1])


def test_draws_the_curves(tmp_path, monkeypatch):
    monkeypatch.undo()
    make(tmp_path).fit()
    assert RunDirectory(tmp_path).loss_plot.read_bytes().startswith(b"\x89PNG")


def test_writes_metrics_samples_and_checkpoints(tmp_path):
    result = make(tmp_path).fit()
    run = RunDirectory(tmp_path)
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    timings = [json.loads(line) for line in run.timings.read_text().splitlines()]
    train = [row for row in rows if "train_loss" in row]
    valid = [row for row in rows if "val_loss" in row]
    assert [row["step"] for row in train] == [1, 3, 6, 9, 12, 15, 18, 20]
    assert [row["step"] for row in valid] == [8, 16, 20]
    for row in valid:
        assert row["val_perplexity"] == pytest.approx(math.exp(row["val_loss"]))
        assert row["val_bits_per_byte"] > row["val_loss"] / math.log(2) / len("<|endoftext|>")
    # Times are kept apart, so that all the rest can be compared byte for byte.
    assert not any("seconds" in row for row in rows)
    times = {kind: [] for kind in ("training", "evaluation", "checkpoint")}
    for row in timings:
        times[row["kind"]].append(row["step"])
    assert times["training"] == [row["step"] for row in train]
    assert times["evaluation"] == [row["step"] for row in valid]
    assert times["checkpoint"] == [5, 8, 10, 15, 16, 20]
    assert all(row["tokens_per_second"] > 0 for row in timings if row["kind"] == "training")
    seconds = [row["seconds"] for row in run.read_metrics()]
    assert seconds == sorted(seconds)
    assert set(seconds) <= {row["seconds"] for row in timings}
    # Steps 5, 8, 10, 15, 16 and 20 were saved; the newest three stay.
    assert run.steps_saved() == [15, 16, 20]
    assert json.loads((run.checkpoint(16) / "state.json").read_text())["iteration"] == 16
    best = min(valid, key=lambda row: row["val_loss"])
    assert run.best_step() == best["step"]
    assert json.loads(run.best.read_text())["val_loss"] == best["val_loss"]
    assert result.best_val_loss == best["val_loss"]
    assert sorted(file.name for file in run.samples.iterdir()) == [
        f"step_{step:08d}.txt" for step in (8, 16, 20)
    ]
    assert result.sample == run.sample(20).read_text(encoding="utf-8")


def test_runs_without_tokenizer(tmp_path):
    result = make(tmp_path, changed(max_steps=2), tokenizer=None).fit()
    assert result.sample is None
    assert result.val_bits_per_byte is None


def test_the_seed_decides_everything(tmp_path, uninterrupted):
    make(tmp_path / "same").fit()
    assert_same(outcome(tmp_path / "same"), uninterrupted)
    make(tmp_path / "other", changed(seed=1)).fit()
    assert outcome(tmp_path / "other")["metrics.jsonl"] != uninterrupted["metrics.jsonl"]


def test_data_order_depends_on_seed_and_step_alone():
    def first(seed, step):
        return step_generator(seed, step).integers(1 << 40, size=8).tolist()

    streams = [first(seed, step) for seed in (0, 1, 2**63 - 3) for step in (0, 1, 2, 10**9)]
    assert len({tuple(stream) for stream in streams}) == len(streams)
    assert first(1, 2) == streams[6]
    # Philox is specified bit for bit, so these numbers hold on every platform; were they others,
    # runs could not be continued by another version of the library.
    assert step_generator(1, 2).bit_generator.random_raw(2).tolist() == [
        5705853004827290377,
        6584680345644299050,
    ]


# A run that was stopped goes on as if it had not been.


@pytest.mark.parametrize("step", [1, 5, 6, 7, 16, 17, 20])
def test_a_run_that_crashed_in_a_step_resumes_exactly(tmp_path, uninterrupted, step):
    trainer = make(tmp_path)
    raise_at(trainer, "_batch", lambda at: at == step)
    with pytest.raises(Crash):
        trainer.fit()
    again = make(tmp_path)
    again.resume()
    assert again.step == max([s for s in (0, 5, 8, 10, 15, 16) if s < step])
    again.fit()
    assert_same(outcome(tmp_path), uninterrupted)


@pytest.mark.parametrize("step", [8, 16, 20])
@pytest.mark.parametrize("method", ["evaluate", "sample"])
def test_a_run_that_crashed_in_an_evaluation_resumes_exactly(tmp_path, uninterrupted, step, method):
    trainer = make(tmp_path)
    raise_at(trainer, method, lambda *at: trainer.step == step)
    with pytest.raises(Crash):
        trainer.fit()
    again = make(tmp_path)
    again.resume()
    assert again.step == step  # it was saved before the evaluation
    again.fit()
    assert_same(outcome(tmp_path), uninterrupted)


def test_a_run_that_crashed_again_and_again_resumes_exactly(tmp_path, uninterrupted):
    for step in (7, 9, 9, 18):
        trainer = make(tmp_path)
        trainer.resume()
        raise_at(trainer, "_batch", functools.partial(lambda at, now: now == at, step))
        with pytest.raises(Crash):
            trainer.fit()
    again = make(tmp_path)
    again.resume()
    again.fit()
    assert_same(outcome(tmp_path), uninterrupted)


def test_a_finished_run_resumes_to_its_end(tmp_path, uninterrupted):
    first = make(tmp_path).fit()
    again = make(tmp_path)
    again.resume()
    assert again.fit() == first
    assert_same(outcome(tmp_path), uninterrupted)


def test_a_half_written_line_and_temporary_files_are_cleared_away(tmp_path, uninterrupted):
    trainer = make(tmp_path)
    raise_at(trainer, "_batch", lambda at: at == 12)
    with pytest.raises(Crash):
        trainer.fit()
    with open(trainer.run.metrics, "a") as file:
        file.write('{"step": 12, "tok')
    left = trainer.run.checkpoints / ".step_00000015.tmp" / ".state.json.abc123.tmp"
    left.parent.mkdir()
    left.write_bytes(b"half")
    again = make(tmp_path)
    again.resume()
    assert not left.parent.exists()
    again.fit()
    assert_same(outcome(tmp_path), uninterrupted)


def test_the_clock_of_a_run_counts_its_sessions_and_not_the_pause(tmp_path, monkeypatch):
    now = 1000.0
    fake = types.SimpleNamespace(perf_counter=lambda: now)
    monkeypatch.setattr(trainer_module, "time", fake)
    # No row and no evaluation falls between the first step and where the run is stopped.
    config = changed(log_every=20, eval_every=20, checkpoint_every=20)

    def session(stop_at=None):
        trainer = make(tmp_path, config)
        trainer.resume()
        original = trainer._batch

        def batch(step):
            nonlocal now
            now += 3.0  # what a step takes
            if step == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)
            return original(step)

        trainer._batch = batch
        if stop_at is None:
            return trainer.fit()
        with pytest.raises(TrainingInterrupted):
            trainer.fit()
        return None

    session(stop_at=7)
    now += 5000.0
    session(stop_at=15)
    now += 5000.0
    assert session().seconds == pytest.approx(20 * 3.0)
    rows = RunDirectory(tmp_path).read_metrics()
    assert [row["seconds"] for row in rows] == pytest.approx([3.0, 60.0, 60.0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_stops_and_the_run_resumes_exactly(tmp_path, uninterrupted, number):
    before = signal.getsignal(number)
    trainer = make(tmp_path)
    original = trainer._batch

    def batch(step):
        if step == 7:
            os.kill(os.getpid(), number)
        return original(step)

    trainer._batch = batch
    with pytest.raises(TrainingInterrupted) as stop:
        trainer.fit()
    assert (stop.value.signal_number, stop.value.step) == (number, 7)
    assert trainer.run.steps_saved()[-1] == 7
    assert signal.getsignal(number) is before
    again = make(tmp_path)
    again.resume()
    assert again.step == 7
    again.fit()
    assert_same(outcome(tmp_path), uninterrupted)


@pytest.mark.parametrize(
    ("first", "second", "saved"),
    [
        (signal.SIGTERM, signal.SIGTERM, True),
        (signal.SIGINT, signal.SIGTERM, True),
        (signal.SIGINT, signal.SIGINT, False),
        (signal.SIGTERM, signal.SIGINT, False),
    ],
)
def test_only_a_ctrl_c_stops_a_run_that_saves_itself(tmp_path, monkeypatch, first, second, saved):
    def as_usual(_number, _frame):
        raise Crash

    trainer = make(tmp_path)
    original, save = trainer._batch, trainer_module.save_checkpoint_directory

    def batch(step):
        if step == 2:
            os.kill(os.getpid(), first)
        return original(step)

    def saving(*arguments):
        os.kill(os.getpid(), second)
        save(*arguments)

    trainer._batch = batch
    monkeypatch.setattr(trainer_module, "save_checkpoint_directory", saving)
    before = {number: signal.signal(number, as_usual) for number in (first, second)}
    try:
        with pytest.raises(TrainingInterrupted if saved else Crash) as stop:
            trainer.fit()
        assert signal.getsignal(first) is signal.getsignal(second) is as_usual
    finally:
        for number in reversed(before):
            signal.signal(number, before[number])
    assert trainer.run.steps_saved() == [2] * saved
    if saved:
        assert stop.value.signal_number == first


def test_a_checkpoint_saved_for_a_signal_pushes_no_other_out(tmp_path, uninterrupted):
    for at, saved in ((17, [10, 15, 16, 17]), (18, [10, 15, 16, 18])):
        trainer = make(tmp_path)
        trainer.resume()
        original = trainer._batch

        def batch(step, at=at, original=original):
            if step == at:
                os.kill(os.getpid(), signal.SIGTERM)
            return original(step)

        trainer._batch = batch
        with pytest.raises(TrainingInterrupted):
            trainer.fit()
        assert trainer.run.steps_saved() == saved
    again = make(tmp_path)
    again.resume()
    again.fit()
    assert again.run.steps_saved() == [15, 16, 20]
    assert_same(outcome(tmp_path), uninterrupted)


@pytest.mark.parametrize("step", [8, 20])
def test_a_signal_in_an_evaluation_stops_at_once_and_the_run_resumes_exactly(
    tmp_path, uninterrupted, monkeypatch, step
):
    read = trainer_module.read_windows
    evaluated = []

    def signal_in_an_evaluation(*arguments):
        if trainer.step == step:
            evaluated.append(step)
            os.kill(os.getpid(), signal.SIGTERM)
        return read(*arguments)

    trainer = make(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(trainer_module, "read_windows", signal_in_an_evaluation)
        with pytest.raises(TrainingInterrupted) as stop:
            trainer.fit()
    assert (stop.value.signal_number, stop.value.step) == (signal.SIGTERM, step)
    assert evaluated == [step]  # one batch of two
    assert trainer.run.steps_saved()[-1] == step
    assert math.isfinite(trainer.evaluate()[0])  # outside of `fit` nothing is stopped
    again = make(tmp_path)
    again.resume()
    assert again.step == step
    again.fit()
    assert_same(outcome(tmp_path), uninterrupted)


def test_trains_in_a_thread_where_signals_cannot_be_caught(tmp_path):
    results = []
    trainer = make(tmp_path, changed(max_steps=2))
    thread = threading.Thread(target=lambda: results.append(trainer.fit()))
    thread.start()
    thread.join()
    assert results[0].step == 2


def test_a_longer_run_goes_on_from_the_end_of_a_shorter_one(tmp_path):
    make(tmp_path, changed(max_steps=4)).fit()
    again = make(tmp_path, changed(max_steps=6))
    again.resume()
    assert again.fit().step == 6
    rows = RunDirectory(tmp_path).read_metrics()
    assert [row["step"] for row in rows if "val_loss" in row] == [4, 6]


def test_a_run_shorter_than_its_checkpoint_is_refused(tmp_path):
    make(tmp_path, changed(max_steps=4)).fit()
    with pytest.raises(ValueError, match=r"step 4.*max_steps is 3"):
        make(tmp_path, changed(max_steps=3)).resume()


# What can go wrong is named.


class TestDamagedCheckpoint:
    @pytest.fixture
    def trainer(self, tmp_path):
        make(tmp_path).fit()
        file = RunDirectory(tmp_path).checkpoint(20) / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-4])
        return make(tmp_path)

    def test_is_named_and_not_passed_over_silently(self, trainer):
        with pytest.raises(
            ValueError, match=r"step_00000020 .*model\.safetensors.*--resume-from .*step_00000016"
        ):
            trainer.resume()
        assert trainer.run.steps_saved() == [15, 16, 20]

    def test_the_one_before_it_is_used_when_asked_for(self, trainer, uninterrupted):
        trainer.resume(trainer.run.checkpoint(16))
        self.check(trainer, uninterrupted)

    def test_damaged_ones_are_passed_over_when_asked_for(self, trainer, uninterrupted):
        said = []
        trainer.report = said.append
        trainer.resume(skip_damaged=True)
        assert "step_00000020" in said[0]
        self.check(trainer, uninterrupted)

    def check(self, trainer, uninterrupted):
        assert trainer.step == 16
        assert trainer.run.steps_saved() == [15, 16]
        unused = trainer.run.checkpoints / "step_00000020.unused"
        assert unused.exists()
        trainer.fit()
        shutil.rmtree(unused)
        assert_same(outcome(trainer.run.path), uninterrupted)

    def test_where_all_are_damaged_or_gone_nothing_is_changed(self, trainer):
        for step in trainer.run.steps_saved():
            (trainer.run.checkpoint(step) / "manifest.json").unlink()
        before = outcome(trainer.run.path)
        with pytest.raises(ValueError, match=r"no checkpoint in .*checkpoints is whole"):
            trainer.resume(skip_damaged=True)
        assert_same(outcome(trainer.run.path), before)
        shutil.rmtree(trainer.run.checkpoints)
        before = outcome(trainer.run.path)
        for skip_damaged in (False, True):
            with pytest.raises(ValueError, match=r"checkpoints has none of the checkpoints that"):
                trainer.resume(skip_damaged=skip_damaged)
        assert_same(outcome(trainer.run.path), before)


def test_the_best_checkpoint_stays_when_newer_ones_push_it_out(tmp_path, monkeypatch):
    losses = iter([3.0, 4.0, 5.0])
    trainer = make(tmp_path, changed(keep_checkpoints=1))
    trainer.evaluate = lambda: (next(losses), None)
    assert trainer.fit().best_val_loss == 3.0
    assert trainer.run.steps_saved() == [8, 20]
    assert trainer.run.best_checkpoint == trainer.run.checkpoint(8)


def test_what_is_no_checkpoint_is_left_where_it_is(tmp_path):
    trainer = make(tmp_path, changed(max_steps=2, eval_every=1, keep_checkpoints=1))
    theirs = {"step_1", "step_99", "notes"}
    for name in theirs:
        (trainer.run.checkpoints / name).mkdir(parents=True)
    trainer.fit()
    assert trainer.run.steps_saved() == [2]
    assert theirs < {file.name for file in trainer.run.checkpoints.iterdir()}


@pytest.mark.parametrize("error", [MemoryError("full"), torch.OutOfMemoryError("full")])
def test_a_checkpoint_is_not_blamed_where_memory_runs_out(tmp_path, monkeypatch, error):
    make(tmp_path, changed(max_steps=5)).fit()

    def load(*arguments):
        raise error

    monkeypatch.setattr(trainer_module, "load_checkpoint", load)
    with pytest.raises(type(error), match=r"^full$"):
        make(tmp_path).resume()


def test_a_line_of_bytes_that_are_no_text_is_named_or_left_out(tmp_path):
    run = RunDirectory(tmp_path)
    run.metrics.write_bytes(b'{"step": 1, "train_loss": 3.0}\n{"step": \xff\x80')
    assert run.read_metrics() == [{"step": 1, "train_loss": 3.0}]
    run.timings.write_bytes(b'\xff\x80\n{"step": 1, "kind": "checkpoint", "seconds": 3.0}\n')
    with pytest.raises(ValueError, match=r"timings\.jsonl, line 1 is not JSON: remove it"):
        run.seconds()


def test_a_damaged_note_of_the_best_is_named(tmp_path):
    make(tmp_path).fit()
    RunDirectory(tmp_path).best.write_text("{")
    with pytest.raises(ValueError, match=r"best\.json is damaged"):
        make(tmp_path).resume()


def test_resuming_from_a_checkpoint_outside_the_run_makes_it_the_runs_own(tmp_path):
    make(tmp_path / "a").fit()
    moved = tmp_path / "moved"
    RunDirectory(tmp_path / "a").checkpoint(16).rename(moved)
    again = make(tmp_path / "a")
    again.resume(moved)
    assert again.run.steps_saved() == [15, 16]


def test_resuming_from_another_checkpoint_of_the_same_step_replaces_the_runs_own(tmp_path):
    make(tmp_path / "a").fit()
    make(tmp_path / "b", changed(seed=1)).fit()
    other = RunDirectory(tmp_path / "b").checkpoint(16)
    again = make(tmp_path / "a")
    again.resume(other)
    assert again.run.steps_saved() == [15, 16]
    assert_same(weights_of(again.run.checkpoint(16)), weights_of(other))
    assert (again.run.checkpoints / "step_00000016.unused").is_dir()
    assert again.run.best_step() is None


def test_resuming_from_a_file_of_save_checkpoint(tmp_path):
    trainer = make(tmp_path, changed(max_steps=3))
    trainer.fit()
    save_checkpoint(trainer.model, trainer.optimizer, 3, tmp_path / "course.pt")
    again = make(tmp_path, changed(max_steps=5))
    again.resume(tmp_path / "course.pt")
    assert_same(dict(again.model.state_dict()), dict(trainer.model.state_dict()))
    assert again.fit().step == 5


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    make(tmp_path, changed(max_steps=2)).fit()
    wider = dataclasses.replace(CONFIG.model, d_ff=64)
    with pytest.raises(ValueError, match=r"step_00000002 cannot be used") as error:
        make(tmp_path, changed(model=wider)).resume()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step(tmp_path, bad):
    trainer = make(tmp_path)
    original = trainer.loss_of
    trainer.loss_of = lambda x, y: original(x, y) * (bad if trainer.step == 6 else 1.0)
    with pytest.raises(NonFiniteLossError, match="step 7") as error:
        trainer.fit()
    assert "step_00000005" in str(error.value)
    assert trainer.run.steps_saved() == [5]
    saved = weights_of(trainer.run.checkpoint(5))
    assert all(value.isfinite().all() for value in saved.values())


def test_infinite_gradients_of_a_finite_loss_stop_the_run_too(tmp_path):
    trainer = make(tmp_path)
    trainer.model.lm_head.weight.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(NonFiniteLossError, match="step 1"):
        trainer.fit()
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())


def test_a_validation_loss_that_is_not_finite_is_named(tmp_path):
    trainer = make(tmp_path)
    trainer.evaluate = lambda: (math.nan, None)
    with pytest.raises(NonFiniteLossError, match="step 8: the validation loss is nan"):
        trainer.fit()
    assert trainer.run.best_checkpoint is None
    assert not any("val_loss" in row for row in trainer.run.read_metrics())


def test_a_final_checkpoint_without_the_metrics_of_its_run_is_evaluated(tmp_path):
    make(tmp_path / "a", changed(max_steps=3)).fit()
    again = make(tmp_path / "b", changed(max_steps=3))
    again.resume(RunDirectory(tmp_path / "a").checkpoint(3))
    result = again.fit()
    assert math.isfinite(result.val_loss)
    assert math.isnan(result.train_loss)


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize(
    ("tokens", "named"),
    [
        (np.full(100, 257, np.uint16), "257"),
        (np.array([0] * 99 + [300], np.uint16), "300"),
        (np.array([-1] + [0] * 99, np.int64), "-1"),
        (np.zeros(16, np.uint16), "16 tokens"),
        (np.zeros(0, np.uint16), "0 tokens"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(tmp_path, split, tokens, named):
    name = {"train": "training", "valid": "validation"}[split]
    with pytest.raises(ValueError, match=named) as error:
        make(tmp_path, **{split: tokens})
    assert name in str(error.value)


def test_one_window_is_enough(tmp_path):
    make(tmp_path, changed(max_steps=1), train=TRAIN[:17], valid=VALID[:17]).fit()


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_named(tmp_path, device):
    with pytest.raises(ValueError, match=device):
        make(tmp_path, changed(device=device))


# Faster arithmetic.


@pytest.mark.numerical
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "fast",
    [
        {"loss_chunks": 3},
        {"fused_optimizer": True},
        {"checkpoint_activations": True},
        {"loss_chunks": 8, "fused_optimizer": True, "accumulation": 2},
    ],
)
def test_the_fast_path_has_the_losses_of_the_readable_one(tmp_path, uninterrupted_in_float64, fast):
    make(tmp_path, changed(**fast)).fit()
    for key in ("train_loss", "val_loss"):
        expected = uninterrupted_losses(uninterrupted_in_float64, key)
        assert losses_of(tmp_path, key) == pytest.approx(expected)


def assert_a_crashed_run_resumes_exactly(tmp_path, config):
    make(tmp_path / "whole", config).fit()
    trainer = make(tmp_path / "run", config)
    raise_at(trainer, "_batch", lambda at: at == 12)
    with pytest.raises(Crash):
        trainer.fit()
    again = make(tmp_path / "run", config)
    again.resume()
    again.fit()
    assert_same(outcome(tmp_path / "run"), outcome(tmp_path / "whole"))


def test_the_fast_path_resumes_exactly_too(tmp_path):
    config = changed(loss_chunks=3, fused_optimizer=True, accumulation=2)
    assert_a_crashed_run_resumes_exactly(tmp_path, config)


def test_where_the_device_is_not_waited_for_no_bad_step_is_saved(tmp_path):
    trainer = make(tmp_path, changed(checkpoint_every=4, log_every=100, eval_every=100))
    trainer._may_wait_for_device = trainer._checkpoint_is_due  # as on a GPU
    trainer.model.lm_head.weight.register_hook(
        lambda gradient: gradient * (math.nan if trainer.step == 5 else 1.0)
    )
    with pytest.raises(NonFiniteLossError, match=r"step 6: .*gradient norm nan"):
        trainer.fit()
    assert trainer.run.steps_saved() == [4]


def test_model_flop_utilization_is_written_where_the_peak_is_known(tmp_path, monkeypatch):
    make(tmp_path / "unknown", changed(max_steps=2)).fit()
    assert losses_of(tmp_path / "unknown", "mfu") == []
    monkeypatch.setattr(devices, "PEAK_FLOPS", {"this CPU": {"float32": 1e12}})
    make(tmp_path / "known", changed(max_steps=2)).fit()
    for row in RunDirectory(tmp_path / "known").read_metrics():
        if "mfu" in row:
            flops = devices.flops_per_token(CONFIG.model)
            assert row["mfu"] == pytest.approx(row["tokens_per_second"] * flops / 1e12)
    assert len(losses_of(tmp_path / "known", "mfu")) == 2


def test_bfloat16_is_refused_where_the_cpu_would_emulate_it(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: False)
    with pytest.raises(ValueError, match=r"avx512_bf16.*float32"):
        make(tmp_path, changed(precision="bfloat16"))


def test_bfloat16_rounds_products_and_keeps_the_weights(tmp_path, monkeypatch, uninterrupted):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    trainer = make(tmp_path, changed(precision="bfloat16"))
    trainer.fit()
    assert {weight.dtype for weight in trainer.model.parameters()} == {torch.float32}
    rounded, exact = losses_of(tmp_path, "train_loss"), uninterrupted_losses(uninterrupted)
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.05)


@pytest.mark.usefixtures("float64")
def test_a_compiled_model_is_saved_under_plain_names_and_resumes(
    tmp_path, monkeypatch, uninterrupted_in_float64
):
    # Its own tracing and graph, without the minute that code generation takes.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    trainer = make(tmp_path, changed(compile=True))
    raise_at(trainer, "_batch", lambda at: at == 17)
    with pytest.raises(Crash):
        trainer.fit()
    again = make(tmp_path)  # not compiled
    again.resume()
    again.fit()
    names = safe_open(RunDirectory(tmp_path).checkpoint(16) / "model.safetensors", "pt").keys()
    assert set(names) == set(again.model.state_dict())
    expected = uninterrupted_losses(uninterrupted_in_float64, "val_loss")
    assert losses_of(tmp_path, "val_loss") == pytest.approx(expected)


@pytest.mark.usefixtures("float64")
@pytest.mark.slow
def test_torch_compile_gives_the_same_losses(tmp_path, uninterrupted_in_float64):
    make(tmp_path, changed(compile=True)).fit()
    expected = uninterrupted_losses(uninterrupted_in_float64, "val_loss")
    assert losses_of(tmp_path, "val_loss") == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_compiled_run_resumes_exactly(tmp_path, precision, monkeypatch):
    monkeypatch.setattr(devices, "cpu_has_bfloat16", lambda: True)
    config = changed(
        compile=True, loss_chunks=2, fused_optimizer=True, precision=precision, accumulation=2
    )
    assert_a_crashed_run_resumes_exactly(tmp_path, config)
