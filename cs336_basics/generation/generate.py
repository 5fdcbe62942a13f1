"""Generating token ids one at a time, with or without a key-value cache.

Read `generate` first. Whether or not there is a cache, `next_window` decides which tokens the model
sees, so the cache changes only the speed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics.generation.engines import choose_engine
from cs336_basics.generation.precision import Precision
from cs336_basics.generation.sampling import Sampling

if TYPE_CHECKING:
    from cs336_basics.model import TransformerLM


def generate(
    model: TransformerLM,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    sampling: Sampling | None = None,
    *,
    eos_id: int | None = None,
    allowed_ids: Collection[int] | None = None,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
    precision: Precision = "float32",
) -> Iterator[int]:
    """Yield the ids of tokens that continue a prompt, each as soon as it is drawn.

    The model sees at most the last `context_length` tokens. When a text has filled the context, the
    model continues from the last half of the context, which then fills up again. Sliding the
    window by one token instead would change the position of every token in it and invalidate the
    whole cache.

    Args:
        model: The model. It is not modified.
        prompt_ids: At least one token id. To start a new document, pass the end-of-text token.
        max_new_tokens: Maximum number of tokens to yield.
        sampling: How to draw each token. Defaults to the model's distribution, `Sampling()`.
        eos_id: Token that ends the text. It is not yielded.
        allowed_ids: Ids that may be drawn, such as the tokenizer's ids if the model has more.
            Defaults to all ids.
        generator: A CPU generator, so that the text is the same on every device. Defaults to
            torch's global generator.
        use_cache: Whether to keep the keys and values of earlier tokens. False recomputes them for
            each token, which is slower but gives the same text, except where rounding breaks a tie.
        precision: Number format to which the matrices are rounded first. "float32" rounds nothing;
            a model in another dtype is computed in that dtype. "bfloat16" and "int8" generate
            faster on a CPU, where they halve and quarter the memory that each token reads; see
            `rounded` in `generation/precision.py` for the errors. "auto" is "int8" if this makes
            generation faster: for a model in float32 on a CPU, with at least two million weights,
            if the compiled code is installed. Otherwise, it is "float32". The choice depends on
            nothing else, so it does not change between two calls.

    Raises:
        TypeError: If an id or `max_new_tokens` is not an int, or `sampling` is not a Sampling.
        ValueError: If an argument is out of range.

    Errors are raised by the call itself, not when the first token is requested.

    Example:
        >>> from cs336_basics import ModelConfig, TransformerLM
        >>> from cs336_basics.generation import generate
        >>> model = TransformerLM(ModelConfig(vocab_size=50, d_model=16, num_layers=1, num_heads=2))
        >>> ids = list(generate(model, [1, 2, 3], max_new_tokens=4))
        >>> len(ids), all(0 <= token_id < 50 for token_id in ids)
        (4, True)
    """
    max_new_tokens = checked_integer("max_new_tokens", max_new_tokens, 0)
    texts = _Texts(model, [prompt_ids], sampling, eos_id, allowed_ids, use_cache, precision)

    def new_ids() -> Iterator[int]:
        for _ in range(max_new_tokens):
            (token_id,) = texts.draw([generator])
            if token_id == texts.eos_id:
                return
            yield token_id
            texts.append([token_id])

    return new_ids()


def generate_batch(
    model: TransformerLM,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    sampling: Sampling | None = None,
    *,
    eos_id: int | None = None,
    allowed_ids: Collection[int] | None = None,
    generators: Sequence[torch.Generator] | None = None,
    use_cache: bool = True,
    precision: Precision = "float32",
) -> list[list[int]]:
    """Return the ids of tokens that continue each prompt. Prompts may differ in length.

    Each result equals the result of `generate` for the same prompt and generator, except where
    rounding breaks a tie. Each step computes the next token of all unfinished texts in one batch.

    Args:
        model, max_new_tokens, sampling, eos_id, allowed_ids, use_cache, precision: See `generate`.
        prompts: Ids of each prompt, at least one.
        generators: One CPU generator per prompt. Defaults to torch's global generator.

    Raises:
        TypeError, ValueError: See `generate`.

    Example:
        >>> from cs336_basics import ModelConfig, TransformerLM
        >>> from cs336_basics.generation import generate_batch
        >>> model = TransformerLM(ModelConfig(vocab_size=50, d_model=16, num_layers=1, num_heads=2))
        >>> [len(ids) for ids in generate_batch(model, [[1], [2, 3]], max_new_tokens=4)]
        [4, 4]
    """
    max_new_tokens = checked_integer("max_new_tokens", max_new_tokens, 0)
    texts = _Texts(model, prompts, sampling, eos_id, allowed_ids, use_cache, precision)
    if generators is not None and len(generators) != len(prompts):
        raise InputError(
            f"must have length {len(prompts)}, got {len(generators)}", argument="generators"
        )
    results: list[list[int]] = [[] for _ in prompts]
    running = list(range(len(prompts)))  # index of the prompt in each row of `texts`
    for _ in range(max_new_tokens):
        if not running:
            break
        drawn = texts.draw([None if generators is None else generators[text] for text in running])
        kept = [row for row, token_id in enumerate(drawn) if token_id != texts.eos_id]
        if len(kept) < len(drawn):
            texts.keep(kept)
            running = [running[row] for row in kept]
            drawn = [drawn[row] for row in kept]
        texts.append(drawn)
        for text, token_id in zip(running, drawn, strict=True):
            results[text].append(token_id)
    return results


def next_window(window: list[int], token_id: int, context_length: int) -> list[int]:
    """Return the token ids that the model sees after `token_id` is added to `window`.

    If the result would exceed `context_length`, only its last `context_length // 2` ids (at least
    one) are kept.
    """
    longer = [*window, token_id]
    if len(longer) <= context_length:
        return longer
    return longer[-max(1, context_length // 2) :]


class _Texts:
    """A batch of growing texts, and the state for drawing their next tokens."""

    def __init__(
        self,
        model: TransformerLM,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling | None,
        eos_id: int | None,
        allowed_ids: Collection[int] | None,
        use_cache: bool,
        precision: Precision,
    ) -> None:
        size, self.context_length = model.config.vocab_size, model.config.context_length
        self.ids = [
            [checked_id("prompt_ids", token_id, size) for token_id in prompt] for prompt in prompts
        ]
        if [] in self.ids:
            raise InputError(
                "must not be empty",
                argument="prompt_ids",
                remedy="to start a new document, pass the end-of-text id",
            )
        self.eos_id = None if eos_id is None else checked_id("eos_id", eos_id, size)
        self.allowed: Tensor | None = None
        if allowed_ids is not None:
            if len(allowed_ids) == 0:
                raise InputError(
                    "must not be empty",
                    argument="allowed_ids",
                    remedy="to allow all ids, pass None",
                )
            self.allowed = torch.zeros(size, dtype=torch.bool)
            self.allowed[
                [checked_id("allowed_ids", token_id, size) for token_id in allowed_ids]
            ] = True
        if not isinstance(sampling, Sampling | None):  # a temperature, perhaps
            raise InputTypeError(
                f"must be a Sampling, got {short_repr(sampling)}", argument="sampling"
            )
        self.sampling = Sampling() if sampling is None else sampling
        self.windows = [ids[-self.context_length :] for ids in self.ids]
        self.engine = choose_engine(model, len(prompts), use_cache, precision)

    def draw(self, generators: Sequence[torch.Generator | None]) -> list[int]:
        """Draw the next token of each text."""
        # Gradients are turned off here because a `with` around the `yield` in `generate` would also
        # turn them off in the code that consumes the tokens.
        with torch.no_grad():
            logits = self.engine.next_logits(self.windows)
        return self.sampling.draw_rows(logits, self.ids, generators, allowed=self.allowed)

    def append(self, token_ids: Sequence[int]) -> None:
        """Add one token to each text."""
        for row, token_id in enumerate(token_ids):
            self.ids[row].append(token_id)
            self.windows[row] = next_window(self.windows[row], token_id, self.context_length)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only the texts in the given rows."""
        self.ids = [self.ids[row] for row in rows]
        self.windows = [self.windows[row] for row in rows]
        if rows:
            self.engine.keep(rows)


def checked_id(name: str, token_id: int, vocab_size: int) -> int:
    """Return `token_id` as an int, or raise an error if it is not in the model's vocabulary.

    Args:
        name: Name of the argument that holds the id.
        token_id: The id.
        vocab_size: Vocabulary size of the model.
    """
    return checked_integer(name, token_id, 0, vocab_size - 1, " (the model's vocabulary)")
