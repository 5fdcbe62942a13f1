"""Validation loss and bits per byte, in one process and in several."""

from __future__ import annotations

import dataclasses
import functools
import math
import types

import numpy as np
import pytest
import torch

from cs336_basics.tokenizer import Tokenizer
from cs336_basics.training.evaluation import Score, evaluation_row, rounded
from cs336_basics.training.trainer import NonFiniteLossError
from tests.errors import rejects
from tests.tokenizer.examples import byte_tokenizer
from tests.training.tiny_runs import CONFIG, TOKENIZER, VALID, changed, make


def losses_of_window(trainer, tokens, window):
    """Return the ids that follow in a window, and the loss of each, by plain torch."""
    ids = torch.tensor(tokens[window * 16 : window * 16 + 17].astype(np.int64))
    with torch.no_grad():
        logits = trainer.model(ids[:-1])
    return ids[1:], torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("eval_windows", [0, 1, 8, 400])
@pytest.mark.parametrize("loss_chunks", [1, 3])
def test_evaluation_is_the_mean_over_windows_that_do_not_overlap(
    tmp_path, eval_windows, loss_chunks
):
    trainer = make(tmp_path, changed(eval_windows=eval_windows, loss_chunks=loss_chunks))
    windows = (len(VALID) - 1) // 16
    number = min(windows, eval_windows) or windows
    chosen = [k * windows // number for k in range(number)]
    expected = torch.cat([losses_of_window(trainer, VALID, window)[1] for window in chosen])
    assert trainer.evaluate().loss == pytest.approx(float(expected.mean()))
    assert trainer.evaluate() == trainer.evaluate()
    assert trainer.model.training


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("eval_windows", [0, 4, 8])
def test_bits_per_byte_leave_out_special_tokens_and_their_loss(tmp_path, eval_windows):
    # "abababab" is one token. Of every nine windows, the first has about eight bytes per token and
    # the others have one. Every evaluation includes the very first window.
    halves = [(b"a", b"b"), (b"ab", b"ab"), (b"abab", b"abab")]
    vocab = {**TOKENIZER.vocab, **{257 + n: x + y for n, (x, y) in enumerate(halves)}}
    tokenizer = Tokenizer(vocab, halves, ["<|endoftext|>"])
    dense, thin = "abababab" * 11 + "<|endoftext|>" + "abababab" * 4, "xyz " * 4
    text = (dense + thin * 8) * 10 + "."
    valid = np.array(tokenizer.encode(text), dtype=np.uint16)
    assert len(valid) == 9 * 10 * 16 + 1
    # The model has one id more than the tokenizer. It has no bytes, either.
    config = changed(
        eval_windows=eval_windows, model=dataclasses.replace(CONFIG.model, vocab_size=261)
    )
    trainer = make(tmp_path, config, valid=valid, tokenizer=tokenizer)
    windows = len(valid) // 16
    chosen = min(windows, eval_windows) or windows
    nats = num_bytes = 0.0
    for number in range(chosen):
        targets, losses = losses_of_window(trainer, valid, number * windows // chosen)
        is_text = targets != tokenizer.special_token_id("<|endoftext|>")
        nats += float(losses[is_text].sum())
        num_bytes += len(tokenizer.decode(targets[is_text].tolist()).encode())
    found = trainer.evaluate()
    assert found.bits_per_byte == pytest.approx(nats / math.log(2) / num_bytes)
    # Only an evaluation of all windows counts every byte after the first token.
    plain = text.replace("<|endoftext|>", "")
    predicted = len(plain) - len(tokenizer.decode([int(valid[0])]))
    assert (found.num_bytes == predicted) == (chosen == windows)


def test_text_of_special_tokens_only_has_no_bits_per_byte(tmp_path):
    valid = np.full(33, TOKENIZER.special_token_id("<|endoftext|>"), np.uint16)
    score = make(tmp_path, valid=valid).evaluate()
    assert score.bits_per_byte is None
    assert score.tokens == 32
    row, line = evaluation_row(3, 7, score)
    assert list(row) == ["step", "tokens", "val_loss", "val_perplexity"]
    assert "bits" not in line


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
def test_evaluations_of_any_batch_size_use_the_same_windows(tmp_path):
    scores = [
        make(tmp_path / str(size), changed(batch_size=size, eval_windows=6)).evaluate()
        for size in (1, 2, 4, 32)
    ]
    for score in scores[1:]:
        assert score == pytest.approx(scores[0])
    assert scores[0].tokens == 6 * 16


def test_the_last_evaluation_covers_all_windows_and_the_others_only_the_chosen_ones(tmp_path):
    said = []
    trainer = make(tmp_path, report=said.append)
    result = trainer.fit()
    *rows, last = (row for row in trainer.run.read_metrics() if "val_loss" in row)
    assert trainer.evaluate().loss == last["val_loss_subset"]
    whole = trainer.evaluate().plus(trainer.evaluate(others=True))
    assert whole.tokens == 16 * ((len(VALID) - 1) // 16) > trainer.evaluate().tokens == 16 * 8
    assert result.val_loss == last["val_loss"] == whole.loss != last["val_loss_subset"]
    assert last["val_bits_per_byte"] == whole.bits_per_byte
    assert rows
    assert not any("val_loss_subset" in row for row in rows)
    # The best evaluation is found on the same windows in all rows.
    best = min([*rows, {**last, "val_loss": last["val_loss_subset"]}], key=lambda r: r["val_loss"])
    assert (result.best_val_loss, result.best_step) == (best["val_loss"], best["step"])
    assert any(line.endswith(f"(all {len(VALID) // 16} windows)") for line in said)


def test_if_all_windows_are_evaluated_each_time_the_last_row_has_the_keys_of_the_others(tmp_path):
    trainer = make(tmp_path, changed(eval_windows=0))
    trainer.fit()
    rows = [row for row in trainer.run.read_metrics() if "val_loss" in row]
    assert len({tuple(row) for row in rows}) == 1


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("windows", [5, 7, 8, 11])
def test_unequal_shares_of_an_evaluation_add_up(tmp_path, windows):
    trainer = make(tmp_path, changed(eval_windows=0, batch_size=8), valid=VALID[: 16 * windows + 1])
    expected = trainer.evaluate()
    scores = []
    for rank in range(4):  # two windows each; if there are five, the last process gets none
        trainer.world = types.SimpleNamespace(
            rank=rank, size=4, sum=lambda values: values, any=lambda condition: condition
        )
        scores.append(trainer.evaluate())
    assert functools.reduce(Score.plus, scores) == pytest.approx(expected)
    text = TOKENIZER.decode(VALID[1 : 16 * windows + 1].tolist()).replace("<|endoftext|>", "")
    assert expected.num_bytes == len(text.encode())
    assert expected.tokens == 16 * windows


def test_a_validation_loss_that_is_not_finite_stops_the_run(tmp_path):
    trainer = make(tmp_path)
    trainer.evaluate = lambda: Score(math.nan, 1)
    with rejects(None, "step 8", kind=NonFiniteLossError):
        trainer.fit()
    assert not any("val_loss" in row for row in trainer.run.read_metrics())


@pytest.mark.parametrize(
    ("prompt", "tokenizer"),
    [
        ("\ud800", TOKENIZER),
        ("", byte_tokenizer()),
        ("é", Tokenizer({0: b"a", 1: b"<|endoftext|>"}, [], ["<|endoftext|>"])),
    ],
)
def test_texts_that_cannot_be_sampled_are_rejected_before_training(tmp_path, prompt, tokenizer):
    config = changed(sample_prompt=prompt)
    with rejects("sample_prompt", "sample_prompt", "sample_tokens"):
        make(tmp_path, config, tokenizer=tokenizer)
    make(tmp_path, dataclasses.replace(config, sample_tokens=0), tokenizer=tokenizer)


def test_a_huge_perplexity_is_written_in_few_digits():
    assert rounded(12.3456) == "12.35"
    assert rounded(1e134) == "1.00e+134"
