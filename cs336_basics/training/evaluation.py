"""What a run measures of its model: the validation loss, bits per byte, and a sampled text."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cs336_basics._support.messages import short_repr
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.generation import Sampling, generate_text
from cs336_basics.model import TransformerLM
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.data import TokenArray, TokenWindows
from cs336_basics.training.distributed import World

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer


class Evaluation:
    """The validation data of a run, which gives the same windows every time.

    The windows are `context_length` tokens long and do not overlap: all of them, or `eval_batches`
    batches spread evenly over the data. A trailing partial window is dropped.

    Args:
        config: the configuration of the run.
        tokens: token ids, one-dimensional, an array or a memory map.
        tokenizer: knows how many bytes of text each token has, for bits per byte; None: without.
    """

    def __init__(
        self, config: TrainConfig, tokens: TokenArray, tokenizer: Tokenizer | None
    ) -> None:
        self.config = config
        self.windows = TokenWindows(
            tokens,
            config.model.context_length,
            vocab_size=config.model.vocab_size,
            name="the validation data",
        )
        self.token_bytes = None if tokenizer is None else bytes_of_tokens(tokenizer, config)
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
        """Return the mean loss in nats per token, and the bits per byte of the text.

        Bits per byte do not depend on the tokenizer, so they compare models with different ones:
        the loss of all predicted tokens, over the bytes of text of exactly these tokens (of a
        special token: those of its name). None without a tokenizer.

        Args:
            model: is in evaluation mode meanwhile.
            loss_of: the mean loss of a batch of inputs and targets.
            device: where the batches go.
            world: the processes that share the windows.
            before_batch: is called before each batch, and may raise to stop the evaluation.
        """
        total = count = num_bytes = 0.0
        was_training = model.training
        model.eval()
        with torch.no_grad():
            for indices in self._batches(world):
                before_batch()
                # A process without windows computes one: a sharded model needs all processes.
                mine = indices if len(indices) else self.indices[:1]
                inputs, targets = self.windows.batch(mine)
                loss = loss_of(inputs.to(device), targets.to(device))
                predicted = targets[: len(indices)]
                total += float(loss) * predicted.numel()
                count += predicted.numel()
                if self.token_bytes is not None:
                    num_bytes += int(self.token_bytes[predicted].sum())
        model.train(was_training)
        total, count, num_bytes = world.sum([total, count, num_bytes])
        return total / count, total / math.log(2) / num_bytes if num_bytes else None

    def _batches(self, world: World) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the indices of this process's batches; a last one may be empty."""
        size = self.config.batch_size // self.config.accumulation // world.size
        for first in range(0, len(self.indices), size * world.size):
            mine = first + world.rank * size
            yield self.indices[mine : mine + size]


def evaluation_row(
    step: int, tokens: int, val_loss: float, bits_per_byte: float | None
) -> tuple[dict[str, Any], str]:
    """Return the row of metrics of an evaluation, and the line to show for it."""
    row: dict[str, Any] = {
        "step": step,
        "tokens": tokens,
        "val_loss": val_loss,
        "val_perplexity": math.exp(min(val_loss, 700.0)),  # a float holds no larger one
    }
    line = f"step {step}: validation loss {val_loss:.4f}, perplexity {row['val_perplexity']:.2f}"
    if bits_per_byte is not None:
        row["val_bits_per_byte"] = bits_per_byte
        line += f", {bits_per_byte:.4f} bits per byte"
    return row, line


def bytes_of_tokens(tokenizer: Tokenizer, config: TrainConfig) -> Tensor:
    """Return how many bytes of text each id of the model's vocabulary has: int64, (vocab_size,).

    An id that the tokenizer does not have has none.
    """
    tokens = (tokenizer.vocab.get(token_id, b"") for token_id in range(config.model.vocab_size))
    return torch.tensor([len(token) for token in tokens])


def check_samples(tokenizer: Tokenizer, config: TrainConfig) -> None:
    """Check that texts can be sampled as the configuration asks, before any training.

    Raises:
        ValueError: the prompt cannot be encoded, or the tokenizer has no `<|endoftext|>`.
    """
    if config.sample_tokens == 0:
        return
    try:
        tokenizer.special_token_id(END_OF_TEXT)
        tokenizer.encode(config.sample_prompt)
    except ValueError as error:
        raise ValueError(
            f"texts cannot be sampled with sample_prompt {short_repr(config.sample_prompt)}: "
            f"{error} (sample_tokens 0: no texts)"
        ) from error


def sample_text(model: TransformerLM, tokenizer: Tokenizer, config: TrainConfig, step: int) -> str:
    """Return a text sampled from the model: the same one for the same weights and step."""
    seed = np.random.SeedSequence([config.seed, step]).generate_state(1, np.uint64)
    # A sharded model's blocks are compiled, and would be again for each length of the cache.
    stance = torch.compiler.set_stance if config.compile else contextlib.nullcontext
    with stance("force_eager"):
        texts = generate_text(
            model,
            tokenizer,
            config.sample_prompt,
            config.sample_tokens,
            Sampling(temperature=config.sample_temperature, top_p=config.sample_top_p),
            generator=torch.Generator().manual_seed(int(seed[0])),
        )
        return config.sample_prompt + "".join(texts)
