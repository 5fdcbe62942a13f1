"""The validation loss of each corpus of a mixture, and of the mixture."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cs336_basics.data.checked_tokens import MixedTokens
from cs336_basics.model import TransformerLM
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.data import AnswerRule
from cs336_basics.training.distributed import World
from cs336_basics.training.evaluation import Evaluation, Score, TotalFigures

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer

CORPUS_LOSS = "val_loss/"
"""Start of the names of metrics that are losses of single corpora, such as `val_loss/reviews`."""

CORPUS_BITS = "val_bits_per_byte/"
"""Start of the names of their bits per byte."""


@dataclass(frozen=True)
class MixedScore(TotalFigures):
    """The score on each corpus of a mixture, and the score of the mixture.

    The loss of the mixture is the mean of the losses with the weights of the corpora. It estimates
    the loss of windows that are drawn as in training. So do its bits per byte.
    """

    scores: Mapping[str, Score]
    """Score by the name of the corpus."""
    weights: Sequence[float]

    @functools.cached_property
    def total(self) -> Score:
        """The weighted sums over a token of each corpus."""
        rows = [
            weight * np.array(score) / score.tokens
            for weight, score in zip(self.weights, self.scores.values(), strict=True)
        ]
        return Score(*np.sum(rows, axis=0).tolist())

    def plus(self, other: MixedScore) -> MixedScore:
        """Return the scores over the tokens of both."""
        scores = {name: score.plus(other.scores[name]) for name, score in self.scores.items()}
        return MixedScore(scores, self.weights)

    def figures(self) -> dict[str, float]:
        """Return the metrics of the mixture, and the loss and bits per byte of each corpus."""
        losses = {f"{CORPUS_LOSS}{name}": score.loss for name, score in self.scores.items()}
        bits = {
            f"{CORPUS_BITS}{name}": score.bits_per_byte
            for name, score in self.scores.items()
            if score.bits_per_byte is not None
        }
        return {**self.total.figures(), **losses, **bits}

    def described(self) -> str:
        """Return the figures in words."""
        losses = (f"{name} {score.loss:.4f}" for name, score in self.scores.items())
        return f"{self.total.described()} ({', '.join(losses)})"


class MixedEvaluation:
    """Evaluates a model on the validation data of each corpus of a mixture.

    The windows of an evaluation are divided equally between the corpora, so that the loss of a
    corpus with a small weight is measured as well as the others.

    Args:
        config: Configuration of the run.
        tokens: Validation data of each corpus.
        tokenizer, answers: See `Evaluation`.

    Attributes:
        chosen: Indices of the windows of every evaluation, for each corpus.
        others: Indices of the other windows, for each corpus.
    """

    def __init__(
        self,
        config: TrainConfig,
        tokens: MixedTokens,
        tokenizer: Tokenizer | None,
        answers: AnswerRule | None = None,
    ) -> None:
        number = -(-config.eval_windows // len(tokens.corpora))  # 0 stays 0, which means all
        config = dataclasses.replace(config, eval_windows=number)
        self.weights = tokens.weights
        self.evaluations = {
            name: Evaluation(config, corpus, tokenizer, f"valid_tokens of {name}", answers)
            for name, corpus in zip(tokens.names, tokens.corpora, strict=True)
        }
        self.chosen = [evaluation.chosen for evaluation in self.evaluations.values()]
        self.others = [evaluation.others for evaluation in self.evaluations.values()]

    @property
    def num_windows(self) -> int:
        """Number of windows of all corpora."""
        return sum(evaluation.num_windows for evaluation in self.evaluations.values())

    @property
    def has_others(self) -> bool:
        """Whether an evaluation leaves out windows."""
        return any(map(len, self.others))

    def run(
        self,
        indices: Sequence[npt.NDArray[np.int64]],
        model: TransformerLM,
        loss_of: Callable[..., Tensor],
        device: torch.device,
        world: World,
        before_batch: Callable[[], None],
    ) -> MixedScore:
        """Return the score on the windows of each corpus; see `Evaluation.run`."""
        scores = {
            name: evaluation.run(some, model, loss_of, device, world, before_batch)
            for (name, evaluation), some in zip(self.evaluations.items(), indices, strict=True)
        }
        return MixedScore(scores, self.weights)
