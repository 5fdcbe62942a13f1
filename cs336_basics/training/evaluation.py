"""Evaluating a run's model: validation loss, bits per byte and sampled text."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import counted, short_repr
from cs336_basics._support.text import END_OF_TEXT, turn
from cs336_basics.checkpoints.run_dir import subset_key
from cs336_basics.data.checked_tokens import CheckedTokens
from cs336_basics.generation import Sampling, generate_text
from cs336_basics.model import TransformerLM
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.data import AnswerRule, TokenArray, TokenWindows, step_seed
from cs336_basics.training.distributed import World

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.training.mixed_evaluation import MixedScore


def rounded(perplexity: float) -> str:
    """Return a perplexity as text. A diverging run has perplexities of a hundred digits."""
    return f"{perplexity:.2f}" if perplexity < 1e6 else f"{perplexity:.2e}"


class Score(NamedTuple):
    """Sums over predicted tokens, and the figures that follow from them.

    Bits per byte let you compare models with different tokenizers. Special tokens are left out of
    the bytes, and their loss is left out of the bits: they are not part of the text, and tokenizers
    could have names of any length for them.
    """

    nats: float = 0.0
    """Total loss of all predicted tokens."""
    tokens: float = 0.0
    """Number of predicted tokens."""
    text_nats: float = 0.0
    """Total loss of the predicted tokens that are not special."""
    num_bytes: float = 0.0
    """Number of bytes in these tokens."""

    @property
    def loss(self) -> float:
        """Mean loss in nats per predicted token, or not-a-number if there are none."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """Exponential of the loss."""
        return perplexity(self.loss)

    @property
    def bits_per_byte(self) -> float | None:
        """Bits per byte of text, or None if no byte was predicted or lengths are not known."""
        return self.text_nats / math.log(2) / self.num_bytes if self.num_bytes else None

    def plus(self, other: Score) -> Score:
        """Return the sums over the tokens of both."""
        return Score(*(a + b for a, b in zip(self, other, strict=True)))

    def figures(self) -> dict[str, float]:
        """Return the figures as metrics."""
        figures = {"val_loss": self.loss, "val_perplexity": self.perplexity}
        if self.bits_per_byte is not None:
            figures["val_bits_per_byte"] = self.bits_per_byte
        return figures

    def described(self) -> str:
        """Return the figures in words."""
        line = f"validation loss {self.loss:.4f}, perplexity {rounded(self.perplexity)}"
        if self.bits_per_byte is not None:
            line += f", {self.bits_per_byte:.4f} bits per byte"
        return line


class TotalFigures:
    """The figures of several scores together, which follow from their `total`."""

    @property
    def total(self) -> Score:
        """Score of all tokens."""
        raise NotImplementedError

    @property
    def loss(self) -> float:
        """Mean loss in nats per predicted token."""
        return self.total.loss

    @property
    def perplexity(self) -> float:
        """Exponential of the loss."""
        return self.total.perplexity

    @property
    def bits_per_byte(self) -> float | None:
        """Bits per byte of text, without special tokens; see `Score`."""
        return self.total.bits_per_byte


def text_lengths(tokenizer: Tokenizer, vocab_size: int) -> Tensor:
    """Return the number of bytes of text in each token, int64 of shape (vocab_size,).

    It is 0 for special tokens, and for ids that the tokenizer does not have.
    """
    lengths = torch.zeros(vocab_size, dtype=torch.int64)
    special = tokenizer.definition.ids_of_special
    for token_id, token in tokenizer.vocab.items():
        if token_id < vocab_size and token_id not in special:
            lengths[token_id] = len(token)
    return lengths


def window_sums(losses: Tensor, targets: Tensor, lengths: Tensor | None) -> Tensor:
    """Return the sums of a `Score` for each window, float64 of shape (windows, 4), on the CPU.

    Args:
        losses: Loss of each target in nats, shape (windows, length).
        targets: Ids on the CPU, of the same shape. A negative id, such as UNCOUNTED, is not
            counted.
        lengths: See `text_lengths`. None counts no bytes.
    """
    nats = losses.cpu().double()
    is_token = targets >= 0
    num_bytes = torch.zeros_like(targets)
    if lengths is not None:
        num_bytes = lengths[targets.clamp(min=0)] * is_token
    is_text = num_bytes > 0
    columns = (nats * is_token, is_token, nats * is_text, num_bytes)
    return torch.stack([column.sum(-1).double() for column in columns], dim=-1)


class Evaluation:
    """Evaluates a model on the same windows of the validation data every time.

    The windows have `context_length` tokens and do not overlap. A trailing partial window is
    dropped. If `eval_windows` is not 0, an evaluation uses only that many windows, spread evenly
    over the data; the last evaluation of a run also uses the others.

    Args:
        config: Configuration of the run.
        tokens: Token ids of the validation data; see `Trainer`.
        tokenizer: Tokenizer that gives token lengths for bits per byte. None omits bits per byte.
        name: Argument of the caller that errors name.
        answers: Rule for instruction data; see `TokenWindows`.

    Attributes:
        chosen: Indices of the windows of every evaluation.
        others: Indices of the other windows.
    """

    def __init__(
        self,
        config: TrainConfig,
        tokens: TokenArray | CheckedTokens,
        tokenizer: Tokenizer | None,
        name: str = "valid_tokens",
        answers: AnswerRule | None = None,
    ) -> None:
        self.config = config
        size = config.model.vocab_size
        self.windows = TokenWindows(
            tokens, config.model.context_length, vocab_size=size, name=name, answers=answers
        )
        self.lengths = None if tokenizer is None else text_lengths(tokenizer, size)
        count = len(self.windows)
        number = min(count, config.eval_windows) or count
        self.chosen = np.arange(number) * count // number
        self.others = np.setdiff1d(np.arange(count), self.chosen)
        if answers is not None and not self._counts_any():
            raise InputError(
                f"must have answers in the {counted(number, 'evaluated window')}, but no token of "
                "them is part of one",
                argument=name,
                remedy=("use more text or more ", Argument("eval_windows")),
            )

    def _counts_any(self) -> bool:
        """Return whether a target in the windows of every evaluation is counted."""
        parts = np.array_split(self.chosen, -(-len(self.chosen) // 64))
        return any(bool((self.windows.batch(part)[1] >= 0).any()) for part in parts)

    @property
    def num_windows(self) -> int:
        """Number of windows of the validation data."""
        return len(self.windows)

    @property
    def has_others(self) -> bool:
        """Whether an evaluation leaves out windows."""
        return len(self.others) > 0

    def run(
        self,
        indices: npt.NDArray[np.int64],
        model: TransformerLM,
        loss_of: Callable[..., Tensor],
        device: torch.device,
        world: World,
        before_batch: Callable[[], None],
    ) -> Score:
        """Return the score of the model on windows, summed over all processes.

        Args:
            indices: Indices of the windows, at least one.
            model: The model, put into evaluation mode during the call.
            loss_of: A `LanguageModelLoss`.
            device: Device of the batches.
            world: The processes that share the windows.
            before_batch: Called before each batch. It may raise an error to stop the evaluation.
        """
        sums = torch.zeros(len(Score._fields), dtype=torch.float64)
        with evaluation_mode(model), torch.no_grad():
            for share in self._shares(indices, world):
                before_batch()
                # A sharded model must run in all processes. A process without windows repeats one.
                inputs, targets = self.windows.batch(share if len(share) else indices[:1])
                losses = loss_of(inputs.to(device), targets.to(device), reduction="none")
                sums += window_sums(losses, targets, self.lengths)[: len(share)].sum(0)
        return Score(*world.sum(sums.tolist()))

    def _shares(
        self, indices: npt.NDArray[np.int64], world: World
    ) -> Iterator[npt.NDArray[np.int64]]:
        """Yield this process's share of each batch. The last share may be empty."""
        size = self.config.batch_size // self.config.accumulation // world.size
        for first in range(0, len(indices), size * world.size):
            mine = first + world.rank * size
            yield indices[mine : mine + size]


@contextlib.contextmanager
def evaluation_mode(model: TransformerLM) -> Iterator[None]:
    """Put a model into evaluation mode for the duration of a `with` block."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def uncompiled(config: TrainConfig) -> contextlib.AbstractContextManager[object]:
    """Context manager that runs compiled code as Python, so nothing is compiled again."""
    if not config.compile:
        return contextlib.nullcontext()
    eager: contextlib.AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return eager


def perplexity(loss: float) -> float:
    """Return the perplexity of a loss in nats, at most e^700, so that it does not overflow."""
    return math.exp(min(loss, 700.0))


def evaluation_row(
    step: int,
    tokens: int,
    score: Score | MixedScore,
    chosen: Score | MixedScore | None = None,
    answers_only: bool = False,
) -> tuple[dict[str, Any], str]:
    """Return the results of an evaluation as a row of metrics and as a line of text.

    Args:
        step: Step of the evaluation.
        tokens: Number of tokens trained on.
        score: The model's score.
        chosen: Score on the windows of every evaluation, if `score` covers more.
        answers_only: Whether the score counts only the answers of instruction data.
    """
    row: dict[str, Any] = {"step": step, "tokens": tokens, **score.figures()}
    if chosen is not None:
        row |= {subset_key(key): value for key, value in chosen.figures().items()}
    return row, f"step {step}: {'answers only: ' * answers_only}{score.described()}"


def check_samples(tokenizer: Tokenizer, config: TrainConfig) -> None:
    """Check that texts can be sampled with the tokenizer as configured.

    Raises:
        ValueError: If the prompt cannot be encoded or the tokenizer has no `<|endoftext|>`.
    """
    if config.sample_tokens == 0:
        return
    try:
        tokenizer.special_token_id(END_OF_TEXT)
        tokenizer.encode(config.sample_prompt)
        if config.data.has_turns:
            turn(config.sample_prompt)
    except InputError as error:
        raise InputError(
            f"{short_repr(config.sample_prompt)} cannot be used: {error}",
            argument="sample_prompt",
            remedy=("to sample no texts, set ", Argument("sample_tokens", 0)),
        ) from error


def sample_text(model: TransformerLM, tokenizer: Tokenizer, config: TrainConfig, step: int) -> str:
    """Return text sampled from the model. The same weights and step give the same text."""
    prompt = turn(config.sample_prompt) if config.data.has_turns else config.sample_prompt
    # Compiled blocks of a sharded model would be recompiled for each cache length.
    with evaluation_mode(model), uncompiled(config):
        texts = generate_text(
            model,
            tokenizer,
            prompt,
            config.sample_tokens,
            Sampling(temperature=config.sample_temperature, top_p=config.sample_top_p),
            generator=torch.Generator().manual_seed(step_seed(config.seed, step)),
        )
        return prompt + "".join(texts)
