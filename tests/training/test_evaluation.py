"""Validation loss and bits per byte, in one process and in several."""

from __future__ import annotations

import dataclasses
import math
import types

import numpy as np
import pytest
import torch

from cs336_basics.tokenizer import Tokenizer
from cs336_basics.training.trainer import NonFiniteLossError
from tests.errors import rejects
from tests.tokenizer.examples import byte_tokenizer
from tests.training.tiny_runs import CONFIG, TOKENIZER, VALID, changed, make


@pytest.mark.numerical(seeds=False)
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


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("eval_batches", [0, 1, 2])
def test_bits_per_byte_count_the_bytes_of_the_predicted_tokens(tmp_path, eval_batches):
    # "abababab" is one token. Of every nine windows, the first has about eight bytes per token and
    # the others have one. Every evaluation includes the very first window.
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
    # Only an evaluation of all windows counts every byte after the first token.
    predicted = len(text) - len(tokenizer.decode([int(valid[0])]))
    assert (num_bytes == predicted) == (chosen == windows)


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("windows", [5, 7, 8, 11])
def test_unequal_shares_of_an_evaluation_add_up(tmp_path, windows):
    trainer = make(tmp_path, changed(eval_batches=0, batch_size=8), valid=VALID[: 16 * windows + 1])
    expected = trainer.evaluate()
    sums = []
    for rank in range(4):  # two windows each; if there are five, the last process gets none
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


def test_a_validation_loss_that_is_not_finite_stops_the_run(tmp_path):
    trainer = make(tmp_path)
    trainer.evaluate = lambda: (math.nan, None)
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
