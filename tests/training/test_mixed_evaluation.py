"""The validation loss of each corpus of a mixture."""

from __future__ import annotations

import math

import pytest

from cs336_basics.training.mixed_evaluation import CORPUS_LOSS
from cs336_basics.training.start import Resumption, resume_run
from tests.errors import rejects
from tests.training.distributed_scenarios import mixed
from tests.training.tiny_runs import (
    TRAIN,
    VALID,
    changed,
    crash_in_step,
    losses_of,
    make,
    outcome,
)


def evaluate(path, valid):
    """Return the score of an untrained model on all windows."""
    return make(path, changed(eval_windows=0), valid=valid).evaluate()


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
def test_the_figures_of_a_mixture_are_weighted_means(tmp_path):
    tokens = mixed(VALID)
    first, second = (evaluate(tmp_path, corpus) for corpus in tokens.corpora)
    score = evaluate(tmp_path, tokens)
    assert score.loss == pytest.approx(0.8 * first.loss + 0.2 * second.loss)
    bits = [each.text_nats / each.tokens / math.log(2) for each in (first, second)]
    num_bytes = [each.num_bytes / each.tokens for each in (first, second)]
    expected = (0.8 * bits[0] + 0.2 * bits[1]) / (0.8 * num_bytes[0] + 0.2 * num_bytes[1])
    assert score.bits_per_byte == pytest.approx(expected)
    assert score.perplexity == pytest.approx(math.exp(score.loss))
    assert score.figures()["val_loss/a"] == pytest.approx(first.loss)


def test_the_windows_are_divided_equally(tmp_path):
    evaluation = make(tmp_path, changed(eval_windows=9), valid=mixed(VALID)).evaluation
    assert list(map(len, evaluation.chosen)) == [5, 5]
    assert evaluation.has_others
    assert evaluation.num_windows == sum(map(len, [*evaluation.chosen, *evaluation.others]))


def test_a_run_on_a_mixture_records_the_loss_of_each_corpus(tmp_path):
    lines = []
    make(tmp_path, train=mixed(TRAIN), valid=mixed(VALID), report=lines.append).fit()
    total, a, b = (losses_of(tmp_path, key) for key in ("val_loss", "val_loss/a", "val_loss/b"))
    assert len(total) == 3
    for all_of_them in zip(total, a, b, strict=True):
        assert all_of_them[0] == pytest.approx(0.8 * all_of_them[1] + 0.2 * all_of_them[2])
    assert f"(a {a[0]:.4f}, b {b[0]:.4f})" in lines[0]
    assert CORPUS_LOSS == "val_loss/"


def test_a_run_on_a_mixture_that_crashed_resumes_exactly(tmp_path):
    data = {"train": mixed(TRAIN), "valid": mixed(VALID)}
    make(tmp_path / "whole", **data).fit()
    crash_in_step(make(tmp_path / "run", **data), 12)
    again = make(tmp_path / "run", **data)
    resume_run(again, Resumption())
    assert again.step == 10
    again.fit()
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_corpus_shorter_than_a_context_is_named(tmp_path):
    tokens = mixed(VALID[:40])
    with rejects("valid_tokens of a", 13):
        make(tmp_path, valid=tokens)
