"""The training loop: results, files and errors."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import warnings

import numpy as np
import pytest
import torch
from safetensors import safe_open

import cs336_basics.training.devices as devices
import cs336_basics.training.session as session
import cs336_basics.training.trainer as trainer_module
from cs336_basics._support.text import turn
from cs336_basics.checkpoints.run_dir import RunDirectory, comparable
from cs336_basics.model import RotaryPositionalEmbedding, TransformerLM
from cs336_basics.training import cosine_schedule, get_batch
from cs336_basics.training.data import step_generator
from cs336_basics.training.evaluation import Score
from cs336_basics.training.learning_curves import plot_run
from cs336_basics.training.optimizers import AdamWSettings
from cs336_basics.training.start import Resumption, resume_run
from cs336_basics.training.trainer import NonFiniteLossError
from tests.errors import rejects
from tests.numerics import make_tables_exact
from tests.tokenizer.examples import byte_tokenizer
from tests.training.tiny_runs import (
    CONFIG,
    PACKED,
    SHORT_IDS,
    TRAIN,
    TURN_IDS,
    TURNS,
    TURNS_TOKENIZER,
    changed,
    crash_in_step,
    losses_of,
    make,
    outcome,
    resumed,
    uninterrupted_losses,
    weights_of,
)


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
def test_the_loop_equals_one_written_with_torch(tmp_path):
    optimizer = AdamWSettings(max_grad_norm=0.5, decay="all")
    config = changed(max_steps=8, log_every=1, eval_every=100, sample_tokens=0, optimizer=optimizer)
    trainer = make(tmp_path, config)
    torch.manual_seed(config.seed)
    model = TransformerLM(config.model)
    torch.testing.assert_close(trainer.model.state_dict(), model.state_dict(), rtol=0, atol=0)
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


def test_a_repeating_text_is_learned(tmp_path):
    result = make(tmp_path, changed(max_steps=150, eval_every=150, checkpoint_every=150)).fit()
    assert result.val_loss < 0.7 < math.log(257) / 2
    assert result.step == 150
    assert result.tokens == 150 * 4 * 16


def test_loss_png_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "plot_run", plot_run)
    plot = RunDirectory(tmp_path).loss_plot
    config = changed(max_steps=2)
    make(tmp_path, config).fit()
    assert plot.read_bytes().startswith(b"\x89PNG")
    plot.write_bytes(b"of a session that was killed")
    resumed(tmp_path, config).fit()  # the run is complete
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_run_goes_on_without_its_picture_and_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "plot_run", plot_run)
    for name in ("loss.png", "samples/step_00000008.txt", "samples/step_00000020.txt"):
        (tmp_path / name).mkdir(parents=True)
    with (
        pytest.warns(UserWarning, match=r"loss\.png"),
        pytest.warns(UserWarning, match=r"\bstep 20\b"),
    ):
        result = make(tmp_path).fit()
    assert result.sample is None
    assert RunDirectory(tmp_path).steps_saved()[-1] == 20


def test_metrics_samples_and_checkpoints_are_written(tmp_path):
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
        assert row["val_bits_per_byte"] == pytest.approx(row["val_loss"] / math.log(2), rel=0.1)
    # Times are in a separate file, so tests can compare all other files byte for byte.
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
    # Steps 5, 8, 10, 15, 16 and 20 were saved; only the newest three were kept.
    assert run.steps_saved() == [15, 16, 20]
    with safe_open(run.checkpoint(16), "pt") as file:
        assert json.loads(file.metadata()["checkpoint"])["iteration"] == 16
    loss, step = min((comparable(row, "val_loss"), row["step"]) for row in valid)
    assert run.best() == (loss, step, [8, 16, 20][::-1].index(step))
    assert (result.best_val_loss, result.best_step) == (loss, step)
    assert sorted(file.name for file in run.samples.iterdir()) == [
        f"step_{step:08d}.txt" for step in (8, 16, 20)
    ]
    assert result.sample == run.sample(20).read_text(encoding="utf-8")


def test_every_evaluation_is_reported(tmp_path):
    said = []
    make(tmp_path, report=said.append).fit()
    rows = [row for row in RunDirectory(tmp_path).read_metrics() if "val_loss" in row]
    assert len(rows) > 1
    for row in rows:
        start = f"step {row['step']}: validation loss {row['val_loss']:.4f}"
        assert sum(line.startswith(start) for line in said) == 1


def test_without_a_tokenizer_there_are_no_samples_and_no_bits_per_byte(tmp_path):
    result = make(tmp_path, changed(max_steps=2), tokenizer=None).fit()
    assert result.sample is None
    assert result.val_bits_per_byte is None


def test_the_same_seed_gives_the_same_run(tmp_path, uninterrupted):
    make(tmp_path / "same").fit()
    assert outcome(tmp_path / "same") == uninterrupted
    make(tmp_path / "other", changed(seed=1)).fit()
    assert outcome(tmp_path / "other")["metrics.jsonl"] != uninterrupted["metrics.jsonl"]


def test_the_best_checkpoint_is_kept(tmp_path):
    losses = iter([3.0, 4.0, 5.0])
    trainer = make(tmp_path, changed(keep_checkpoints=1, eval_windows=0))
    trainer.evaluate = lambda **_: Score(next(losses), 1)
    assert trainer.fit().best_val_loss == 3.0
    assert trainer.run.steps_saved() == [8, 20]
    assert trainer.run.best()[:2] == (3.0, 8)


def scripted(trainer, losses):
    """Let evaluations of a trainer find the given losses, and count the steps taken."""
    found = iter(losses)
    trainer.evaluate = lambda *, others=False: Score(2.5 if others else next(found), 1)
    return trainer


STOPPING = changed(eval_every=1, stop_after_worse=2, checkpoint_every=100, keep_checkpoints=1)


def test_a_run_stops_after_evaluations_in_a_row_without_a_new_lowest_loss(tmp_path):
    said = []
    # The evaluations after steps 2 and 4 are worse, and so is a loss equal to the lowest one.
    losses = [3.0, 3.5, 2.0, 2.1, 2.0]
    trainer = scripted(make(tmp_path, STOPPING, report=said.append), [*losses, 0.0])
    result = trainer.fit()
    assert result.step == trainer.step == 5
    assert (result.best_val_loss, result.best_step) == (2.0, 3)
    assert trainer.run.steps_saved() == [3, 5]
    rows = [row for row in trainer.run.read_metrics() if "val_loss" in row]
    assert [comparable(row, "val_loss") for row in rows] == losses
    assert rows[-1]["val_loss"] == (2.0 + 2.5) / 2  # the last evaluation covers all windows
    assert any(line.startswith("step 5: the run ends") for line in said)
    assert trainer.is_complete()


@pytest.mark.parametrize("crash", [3, 4, 5])
def test_a_resumed_run_stops_where_an_uninterrupted_run_stops(tmp_path, crash):
    losses = [3.0, 2.0, 2.1, 1.9, 2.2, 2.3, 1.0]
    scripted(make(tmp_path / "whole", STOPPING), losses).fit()
    crash_in_step(scripted(make(tmp_path / "run", STOPPING), losses), crash)
    trainer = scripted(resumed(tmp_path / "run", STOPPING), losses[crash - 1 :])
    assert trainer.fit().step == 6
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
    # It has nothing left to do, until it may go on for longer.
    again = resumed(tmp_path / "run", STOPPING)
    assert again.is_complete()
    assert again.fit().step == 6
    longer = resumed(tmp_path / "run", changed(STOPPING, stop_after_worse=3, max_steps=8))
    assert not longer.is_complete()
    assert scripted(longer, [1.5, 1.5]).fit().step == 8


def test_directories_with_other_names_are_not_removed(tmp_path):
    trainer = make(tmp_path, changed(max_steps=2, eval_every=1, keep_checkpoints=1))
    theirs = {"step_1", "step_99", "notes"}
    for name in theirs:
        (trainer.run.checkpoints / name).mkdir(parents=True)
    trainer.fit()
    assert trainer.run.steps_saved() == [2]
    assert theirs < {file.name for file in trainer.run.checkpoints.iterdir()}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, bad):
    trainer = make(tmp_path)
    original = trainer.loss_of
    trainer.loss_of = lambda x, y: original(x, y) * (bad if trainer.step == 6 else 1.0)
    with rejects(None, "step 7", trainer.run.checkpoint(5), kind=NonFiniteLossError):
        trainer.fit()
    assert trainer.run.steps_saved() == [5]
    saved = weights_of(trainer.run.checkpoint(5))
    assert all(value.isfinite().all() for value in saved.values())


def test_infinite_gradients_stop_the_run(tmp_path):
    trainer = make(tmp_path)
    trainer.model.lm_head.weight.register_hook(lambda gradient: gradient * math.inf)
    with rejects(None, "step 1", kind=NonFiniteLossError):
        trainer.fit()
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize(
    ("tokens", "named"),
    [
        (np.full(100, 257, np.uint16), "257"),
        (np.array([-1] + [0] * 99, np.int64), "-1"),
        (np.zeros(16, np.uint16), "16 tokens"),
        (np.zeros((2, 50), np.uint16), "(2, 50)"),
    ],
)
def test_tokens_that_do_not_fit_are_rejected(tmp_path, split, tokens, named):
    with rejects(f"{split}_tokens", named):
        make(tmp_path, **{split: tokens})


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta"])
def test_a_missing_device_is_rejected(tmp_path, device):
    with rejects("device", device):
        make(tmp_path, changed(device=device))


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "fast",
    [
        {"loss_chunks": 3},
        {"optimizer": AdamWSettings(fused=True, max_grad_norm=0.5)},
        {"checkpoint_activations": True},
        {"accumulation": 4},
        {
            "loss_chunks": 8,
            "optimizer": AdamWSettings(fused=True, max_grad_norm=0.5),
            "accumulation": 2,
        },
    ],
)
def test_fast_implementations_have_the_losses_of_the_readable_ones(
    tmp_path, uninterrupted_in_float64, fast
):
    make(tmp_path, changed(**fast)).fit()
    for key in ("train_loss", "val_loss"):
        expected = uninterrupted_losses(uninterrupted_in_float64, key)
        assert losses_of(tmp_path, key) == pytest.approx(expected)


def test_a_diverged_step_is_not_saved_on_a_gpu(tmp_path):
    trainer = make(tmp_path, changed(checkpoint_every=4, log_every=100, eval_every=100))
    trainer.checks_each_step = False  # as on a GPU
    trainer.model.lm_head.weight.register_hook(
        lambda gradient: gradient * (math.nan if trainer.step == 5 else 1.0)
    )
    with rejects(None, "step 6", kind=NonFiniteLossError):
        trainer.fit()
    assert trainer.run.steps_saved() == [4]


def break_weights(trainer, step):
    """Let an optimizer step give weights that are finite, but whose gradients are not."""

    def scale(*_):
        if trainer.step + 1 == step:
            with torch.no_grad():
                for weight in trainer.model.parameters():
                    weight *= 1e30

    trainer.optimizer.register_step_post_hook(scale)


@pytest.mark.parametrize("values", [{}, {"accumulation": 2}, {"loss_chunks": 2}, {"dropout": 0.1}])
def test_weights_that_a_step_has_broken_are_not_saved(tmp_path, values):
    trainer = make(tmp_path, changed(keep_checkpoints=1, **values))
    break_weights(trainer, 10)
    good = trainer.run.checkpoint(8)
    with rejects(None, "step 10", good, kind=NonFiniteLossError):
        trainer.fit()
    assert good.is_file()
    assert trainer.run.steps_saved() == [8]


def test_a_divergence_before_the_first_checkpoint_names_no_directory(tmp_path):
    trainer = make(tmp_path)
    break_weights(trainer, 2)
    with rejects(None, "step 3", "max_learning_rate", kind=NonFiniteLossError) as error:
        trainer.fit()
    assert "checkpoints" not in str(error.value)


def test_an_evaluation_that_diverged_keeps_the_checkpoint_before(tmp_path):
    trainer = make(tmp_path, changed(keep_checkpoints=1))
    trainer.evaluate = lambda: Score(math.nan, 1)
    good = trainer.run.checkpoint(5)
    with rejects(None, "step 8", good, kind=NonFiniteLossError):
        trainer.fit()
    assert good.is_file()


def test_mfu_is_written_only_if_the_peak_is_known(tmp_path, monkeypatch):
    make(tmp_path / "unknown", changed(max_steps=2)).fit()
    assert losses_of(tmp_path / "unknown", "mfu") == []
    monkeypatch.setattr(devices, "PEAK_FLOPS", {"this CPU": {"float32": 1e12}})
    make(tmp_path / "known", changed(max_steps=2)).fit()
    for row in RunDirectory(tmp_path / "known").read_metrics():
        if "mfu" in row:
            flops = devices.flops_per_token(CONFIG.model)
            assert row["mfu"] == pytest.approx(row["tokens_per_second"] * flops / 1e12)
    assert len(losses_of(tmp_path / "known", "mfu")) == 2


def test_the_speed_is_tokens_per_second(tmp_path, monkeypatch):
    monkeypatch.setattr(session.Clock, "seconds_per_step", lambda clock: 0.5)
    make(tmp_path / "run", changed(max_steps=2)).fit()
    tokens = CONFIG.batch_size * CONFIG.model.context_length
    assert set(losses_of(tmp_path / "run", "tokens_per_second")) == {2 * tokens}


def test_bfloat16_rounds_products_and_keeps_the_weights(tmp_path, uninterrupted):
    trainer = make(tmp_path, changed(precision="bfloat16"))
    trainer.fit()
    assert {weight.dtype for weight in trainer.model.parameters()} == {torch.float32}
    rounded, exact = losses_of(tmp_path, "train_loss"), uninterrupted_losses(uninterrupted)
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.05)


def make_turns(path, config=TURNS):
    return make(path, config, TURN_IDS, TURN_IDS[:400], tokenizer=TURNS_TOKENIZER)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("accumulation", [1, 2, 4])
@pytest.mark.parametrize("loss_chunks", [1, 3])
def test_a_step_on_instruction_data_has_the_mean_loss_of_the_answers(
    tmp_path, accumulation, loss_chunks
):
    config = changed(TURNS, accumulation=accumulation, loss_chunks=loss_chunks)
    trainer = make_turns(tmp_path, config)
    inputs, targets = next(iter(trainer.loader))
    per_window = (targets >= 0).sum(-1).tolist()
    assert len(set(per_window)) > 1  # otherwise, a mean of means would be right, too
    loss = trainer._compute_gradients(inputs, targets)
    found = [parameter.grad.clone() for parameter in trainer.model.parameters()]
    logits = trainer.model(inputs).flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=-1)
    torch.testing.assert_close(loss, expected.detach())
    gradients = torch.autograd.grad(expected, list(trainer.model.parameters()))
    torch.testing.assert_close(found, list(gradients))


def make_packed(path, config=PACKED):
    return make(path, config, SHORT_IDS, SHORT_IDS[:400])


def packed_losses(model, inputs, targets):
    """Return the loss of each target, computed from its document alone, with plain torch."""
    losses = []
    for x, y in zip(inputs, targets, strict=True):
        starts = [0, *(i for i in range(1, len(x)) if x[i] == 256), len(x)]
        for begin, end in itertools.pairwise(starts):
            logits = model(x[begin:end])
            losses.append(torch.nn.functional.cross_entropy(logits, y[begin:end], reduction="none"))
    return torch.cat(losses)


def exact_rope(trainer):
    for module in trainer.model.modules():
        if isinstance(module, RotaryPositionalEmbedding):
            make_tables_exact(module, trainer.config.model.rope_theta)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("loss_chunks", [1, 3])
@pytest.mark.parametrize("attention", ["sdpa", "blocked"])
def test_a_packed_step_has_the_loss_of_each_document_alone(
    tmp_path, accumulation, loss_chunks, attention
):
    model = dataclasses.replace(PACKED.model, attention=attention)
    config = changed(PACKED, accumulation=accumulation, loss_chunks=loss_chunks, model=model)
    trainer = make_packed(tmp_path, config)
    exact_rope(trainer)
    inputs, targets = next(iter(trainer.loader))
    assert (inputs == 256).sum() > 2
    loss = trainer._compute_gradients(inputs, targets)
    found = [parameter.grad.clone() for parameter in trainer.model.parameters()]
    expected = packed_losses(trainer.model, inputs, targets).mean()
    torch.testing.assert_close(loss, expected.detach())
    gradients = torch.autograd.grad(expected, list(trainer.model.parameters()))
    torch.testing.assert_close(found, list(gradients))
    joined = torch.nn.functional.cross_entropy(
        trainer.model(inputs).flatten(0, 1), targets.flatten()
    )
    assert abs(float((joined - loss).detach())) > 1e-4


@pytest.mark.usefixtures("float64")
def test_the_evaluation_of_a_packed_run_is_packed(tmp_path):
    trainer = make_packed(tmp_path, changed(PACKED, eval_windows=0))
    exact_rope(trainer)
    trainer.model.eval()
    windows = trainer.evaluation.windows
    batch = windows.batch(range(len(windows)))
    expected = packed_losses(trainer.model, *batch).mean()
    assert trainer.evaluate().loss == pytest.approx(float(expected.detach()))


@pytest.mark.usefixtures("float64")
def test_a_packed_turn_starts_with_its_prompt(tmp_path):
    trainer = make_turns(
        tmp_path, changed(TURNS, data=dataclasses.replace(TURNS.data, pack="documents"))
    )
    exact_rope(trainer)
    prompt, answer = TURNS_TOKENIZER.encode(turn("Who?", "The")), [256]
    ids = torch.tensor([[*TURN_IDS[:3], 256, *prompt, *answer]], dtype=torch.long)
    found = trainer.loss_module(ids[:, :-1], ids[:, 1:], reduction="none")[0, -3:]
    logits = trainer.model(torch.tensor(prompt))[-3:]  # what `generate --chat` sees
    expected = torch.nn.functional.cross_entropy(logits, ids[0, -3:], reduction="none")
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_crashed_packed_run_resumes_exactly(tmp_path, compiled):
    config = changed(PACKED, compile=compiled, accumulation=2, max_steps=8, checkpoint_every=3)
    make_packed(tmp_path / "whole", config).fit()
    crash_in_step(make_packed(tmp_path / "run", config), 5)
    trainer = make_packed(tmp_path / "run", config)
    resume_run(trainer, Resumption())
    assert trainer.step == 3
    trainer.fit()
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_a_compiled_packed_run_has_the_same_losses(tmp_path):
    for compiled in (False, True):
        make_packed(tmp_path / str(compiled), changed(PACKED, compile=compiled)).fit()
    for key in ("train_loss", "grad_norm", "val_loss"):
        plain, compiled = (losses_of(tmp_path / str(value), key) for value in (False, True))
        assert compiled == pytest.approx(plain)


def test_a_packed_run_requires_a_tokenizer(tmp_path):
    with rejects("tokenizer", "documents"):
        make(tmp_path, PACKED, SHORT_IDS, SHORT_IDS, tokenizer=None)
    silent = changed(PACKED, sample_tokens=0)
    with rejects("data.pack", "<|endoftext|>"):
        make(tmp_path, silent, SHORT_IDS, SHORT_IDS, tokenizer=byte_tokenizer())
    with pytest.warns(UserWarning, match="documents"):
        make(tmp_path, silent, SHORT_IDS % 256, SHORT_IDS)


def test_a_batch_without_answers_changes_nothing(tmp_path):
    trainer = make_turns(tmp_path)
    inputs, targets = next(iter(trainer.loader))
    with pytest.warns(UserWarning, match="answer"):
        assert trainer._compute_gradients(inputs, torch.full_like(targets, -1)) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # only the first one is reported
        assert trainer._compute_gradients(inputs, torch.full_like(targets, -1)) == 0
    assert not any(parameter.grad.any() for parameter in trainer.model.parameters())


@pytest.mark.usefixtures("float64")
def test_the_evaluation_of_instruction_data_is_of_the_answers(tmp_path):
    trainer = make_turns(tmp_path, changed(TURNS, eval_windows=0))
    lines = []
    trainer.report = lines.append
    score = trainer.evaluate()
    trainer.model.eval()
    windows = trainer.evaluation.windows
    nats, text, num_bytes, tokens = 0.0, 0.0, 0, 0
    for x, y in (windows[i] for i in range(len(windows))):
        losses = -trainer.model(x[None]).log_softmax(-1)[0]
        for j, token in enumerate(y.tolist()):
            if token >= 0:
                nats, tokens = nats + losses[j, token].item(), tokens + 1
                if token < 256:
                    text, num_bytes = text + losses[j, token].item(), num_bytes + 1
    assert score.loss == pytest.approx(nats / tokens)
    assert score.bits_per_byte == pytest.approx(text / math.log(2) / num_bytes)
    assert trainer._row_of(3, score)[1].startswith("step 3: answers only: validation loss")


def test_a_crashed_run_on_instruction_data_resumes_exactly(tmp_path):
    make_turns(tmp_path / "whole").fit()
    crash_in_step(make_turns(tmp_path / "run"), 12)
    trainer = make_turns(tmp_path / "run")
    resume_run(trainer, Resumption())
    assert trainer.step == 10
    trainer.fit()
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_instruction_data_without_answers_is_rejected(tmp_path):
    plain = np.array([*b"The cat sat." * 20], dtype=np.uint16)
    for train, valid, name in ((plain, TURN_IDS, "train"), (TURN_IDS, plain, "valid")):
        with rejects(f"{name}_tokens", "answers"):
            make(tmp_path / name, TURNS, train, valid, tokenizer=TURNS_TOKENIZER)
    # The only answer is in a window that the evaluations leave out.
    late = np.concatenate([plain, [257, 258, 65, 256]]).astype(np.uint16)
    with rejects("valid_tokens", "evaluated", "eval_windows"):
        config = changed(TURNS, eval_windows=2)
        make(tmp_path / "late", config, TURN_IDS, late, tokenizer=TURNS_TOKENIZER)


def test_instruction_data_requires_a_tokenizer_with_its_special_tokens(tmp_path):
    with rejects("tokenizer", "data.answer_field"):
        make(tmp_path / "a", TURNS, TURN_IDS, TURN_IDS, tokenizer=None)
    with rejects(None, "<|user|>", "data.answer_field"):
        make(tmp_path / "b", TURNS, TURN_IDS, TURN_IDS)
