"""Evaluating a run's model: validation loss, bits per byte and sampled text."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.data.checked_tokens import CheckedTokens
from cs336_basics.generation import Sampling, generate_text
from cs336_basics.model import TransformerLM
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.data import TokenArray, TokenWindows, step_seed
from cs336_basics.training.distributed import World

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer


class Evaluation:
    """Evaluates a model on the same windows of the validation data every time.

    The windows have `context_length` tokens and do not overlap. If `eval_batches` is not 0, only
    that many batches are used, spread evenly over the data. A trailing partial window is dropped.

    Args:
        config: Configuration of the run.
        tokens: Token ids of the validation data; see `Trainer`.
        tokenizer: Tokenizer that gives token lengths for bits per byte. None omits bits per byte.
    """

    def __init__(
        self,
        config: TrainConfig,
        tokens: TokenArray | CheckedTokens,
        tokenizer: Tokenizer | None,
    ) -> None:
        self.config = config
        self.windows = TokenWindows(
            tokens,
            config.model.context_length,
            vocab_size=config.model.vocab_size,
            name="valid_tokens",
        )
        self.token_bytes: Tensor | None = None
        if tokenizer is not None:  # 0 for an id that the tokenizer does not have
            ids = range(config.model.vocab_size)
            self.token_bytes = torch.tensor([len(tokenizer.vocab.get(i, b"")) for i in ids])
        count = len(self.windows)
        chosen = min(count, config.eval_batches * config.batch_size) or count
        self.indices = np.arange(chosen) * count // chosen

    def run(
        self,
        model: TransformerLM,
        loss_of: Callable[[Tensor, Tensor], Tensor],
        device: torch.device,
        world: World,
        before_batch: Callable[[], None],
    ) -> tuple[float, float | None]:
        """Return the mean loss in nats per token, and the bits per byte (None without a tokenizer).

        Bits per byte are the total loss of the predicted tokens in bits, divided by the number of
        bytes in these tokens. A special token has as many bytes as its name. Bits per byte let you
        compare models with different tokenizers.

        Args:
            model: The model, put into evaluation mode during the call.
            loss_of: Function that returns the mean loss for inputs and targets.
            device: Device of the batches.
            world: The processes that share the windows.
            before_batch: Called before each batch. It may raise an error to stop the evaluation.
        """
        total = count = num_bytes = 0.0
        with evaluation_mode(model), torch.no_grad():
            for indices in self._batches(world):
                before_batch()
                # A sharded model must run in all processes. A process without windows repeats one.
                mine = indices if len(indices) else self.indices[:1]
                inputs, targets = self.windows.batch(mine)
                loss = loss_of(inputs.to(device), targets.to(device))
                predicted = targets[: len(indices)]
                total += float(loss) * predicted.numel()
                count += predicted.numel()
                if self.token_bytes is not None:
                    num_bytes += int(self.token_bytes[predicted].sum())
        total, count, num_bytes = world.sum([total, count, num_bytes])
        return total / count, total / math.log(2) / num_bytes if num_bytes else None

    def _batches(self, world: World) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the indices of this process's batches. The last batch may be empty."""
        size = self.config.batch_size // self.config.accumulation // world.size
        for first in range(0, len(self.indices), size * world.size):
            mine = first + world.rank * size
            yield self.indices[mine : mine + size]


@contextlib.contextmanager
def evaluation_mode(model: TransformerLM) -> Iterator[None]:
    """Put a model into evaluation mode for the duration of a `with` block."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def perplexity(loss: float) -> float:
    """Return the perplexity of a loss in nats, at most e^700, so that it does not overflow."""
    return math.exp(min(loss, 700.0))


def evaluation_row(
    step: int, tokens: int, val_loss: float, bits_per_byte: float | None
) -> tuple[dict[str, Any], str]:
    """Return the results of an evaluation as a row of metrics and as a line of text."""
    row: dict[str, Any] = {
        "step": step,
        "tokens": tokens,
        "val_loss": val_loss,
        "val_perplexity": perplexity(val_loss),
    }
    line = f"step {step}: validation loss {val_loss:.4f}, perplexity {row['val_perplexity']:.2f}"
    if bits_per_byte is not None:
        row["val_bits_per_byte"] = bits_per_byte
        line += f", {bits_per_byte:.4f} bits per byte"
    return row, line


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
    except InputError as error:
        raise InputError(
            f"{short_repr(config.sample_prompt)} cannot be used: {error}",
            argument="sample_prompt",
            remedy=("to sample no texts, set ", Argument("sample_tokens", 0)),
        ) from error


def sample_text(model: TransformerLM, tokenizer: Tokenizer, config: TrainConfig, step: int) -> str:
    """Return text sampled from the model. The same weights and step give the same text."""
    # Compiled blocks of a sharded model would be recompiled for each cache length.
    stance = torch.compiler.set_stance if config.compile else contextlib.nullcontext
    with evaluation_mode(model), stance("force_eager"):
        texts = generate_text(
            model,
            tokenizer,
            config.sample_prompt,
            config.sample_tokens,
            Sampling(temperature=config.sample_temperature, top_p=config.sample_top_p),
            generator=torch.Generator().manual_seed(step_seed(config.seed, step)),
        )
        return config.sample_prompt + "".join(texts)
