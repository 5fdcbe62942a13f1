"""Token ids from a trained model: one token at a time, with or without a key-value cache.

Read `generate` first. `next_window` alone decides which tokens the model sees, with the cache and
without it, so the cache changes the speed and not the text.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.messages import short_repr
from cs336_basics.generation.sampling import Sampling
from cs336_basics.model.kv_cache import KVCache

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
) -> Iterator[int]:
    """Yield the ids of new tokens that continue a prompt, each as soon as it is drawn.

    The model sees at most `context_length` tokens. Of a longer prompt it sees the last ones; when
    a text has filled the context, the model continues from the last half of it, and the context
    fills up again. (A window that slid by one token would change the position of every token in
    it, and the predecessors: no entry of a cache would hold, and each token would cost as much as
    without a cache.)

    Args:
        model: a model in training or evaluation mode, which is kept.
        prompt_ids: at least one token id; a new document starts from the end-of-text token.
        max_new_tokens: the largest number of tokens to yield.
        sampling: how each token is drawn; None: from the whole distribution, `Sampling()`.
        eos_id: a token that ends the text; it is not yielded.
        allowed_ids: the ids that may be drawn, such as those that a tokenizer has where the model
            has more rows; None: all.
        generator: a CPU generator, for the same text on every device; None: torch's default.
        use_cache: keep the keys and values of earlier tokens. False computes them again for every
            token: the same text, up to ties within rounding, more slowly.

    Raises:
        TypeError: an id or `max_new_tokens` is not an int.
        ValueError: an argument is out of its bounds. Both at the call, not at the first token.
    """
    sampling = sampling or Sampling()
    max_new_tokens = checked_integer("max_new_tokens", max_new_tokens, 0)
    eos_id = _checked_eos_id(model, eos_id)
    allowed = _mask_of(model, allowed_ids)
    _check_prompt(model, prompt_ids)
    texts = _Texts(model, [prompt_ids], use_cache)

    def new_ids() -> Iterator[int]:
        for _ in range(max_new_tokens):
            logits = texts.next_logits()[0]
            token_id = sampling.draw(logits, texts.ids[0], generator, allowed=allowed)
            if token_id == eos_id:
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
) -> list[list[int]]:
    """Return the new ids that continue each prompt; the prompts may differ in length.

    Each text is what `generate` gives for its prompt and its generator, up to ties within
    rounding. One step computes the next token of all texts that have not ended.

    Args and errors are those of `generate`, except `generators`: one for each prompt, or None.
    """
    sampling = sampling or Sampling()
    max_new_tokens = checked_integer("max_new_tokens", max_new_tokens, 0)
    eos_id = _checked_eos_id(model, eos_id)
    allowed = _mask_of(model, allowed_ids)
    for prompt_ids in prompts:
        _check_prompt(model, prompt_ids)
    if generators is not None and len(generators) != len(prompts):
        raise ValueError(f"{len(generators)} generators for {len(prompts)} prompts: give one each")
    results: list[list[int]] = [[] for _ in prompts]
    running = list(range(len(prompts)))  # the text in each row of `texts`
    if not running:
        return results
    texts = _Texts(model, prompts, use_cache)
    for _ in range(max_new_tokens):
        drawn = []
        for row, logits in enumerate(texts.next_logits()):
            generator = None if generators is None else generators[running[row]]
            drawn.append(sampling.draw(logits, texts.ids[row], generator, allowed=allowed))
        kept = [row for row, token_id in enumerate(drawn) if token_id != eos_id]
        if not kept:
            break
        if len(kept) < len(drawn):
            texts.keep(kept)
            running = [running[row] for row in kept]
            drawn = [drawn[row] for row in kept]
        texts.append(drawn)
        for text, token_id in zip(running, drawn, strict=True):
            results[text].append(token_id)
    return results


def next_window(window: list[int], token_id: int, context_length: int) -> list[int]:
    """Return the token ids that the model sees once `token_id` follows those in `window`.

    These are the window and the token or, where they exceed `context_length`, the last
    `context_length // 2` of them (at least one).
    """
    longer = [*window, token_id]
    if len(longer) <= context_length:
        return longer
    return longer[-max(1, context_length // 2) :]


class _Texts:
    """A batch of growing texts, which computes the logits of the next token of each.

    Invariant of the cache: it holds all tokens of each window except the last, unless the window
    was cut to its last half. Then the whole window, except its last token, is computed again.
    """

    def __init__(
        self, model: TransformerLM, prompts: Sequence[Sequence[int]], use_cache: bool
    ) -> None:
        self.model = model
        self.ids = [[operator.index(token_id) for token_id in prompt] for prompt in prompts]
        self.context_length = model.config.context_length
        self.windows = [ids[-self.context_length :] for ids in self.ids]
        self.use_cache = use_cache
        self.cache: KVCache | None = None

    def append(self, token_ids: Sequence[int]) -> None:
        """Add one token to each text."""
        for row, token_id in enumerate(token_ids):
            self.ids[row].append(token_id)
            self.windows[row] = next_window(self.windows[row], token_id, self.context_length)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these texts, in this order."""
        self.ids = [self.ids[row] for row in rows]
        self.windows = [self.windows[row] for row in rows]
        if self.cache is not None:
            self.cache.select(rows)

    # Gradients are off for this call alone: a `with` around the `yield` in `generate` would also
    # switch them off in the code that consumes the tokens.
    @torch.no_grad()
    def next_logits(self) -> Tensor:
        """Return the logits (texts, vocab_size) of the token after each text."""
        was_training = self.model.training
        if was_training:  # eval() visits every module, which is too slow to do without need
            self.model.eval()
        try:
            return self._with_cache() if self.use_cache else self._without_cache()
        finally:
            if was_training:
                self.model.train()

    def _without_cache(self) -> Tensor:
        """The readable way: compute each window by itself, as a whole."""
        device = next(self.model.parameters()).device
        rows = [self.model(torch.tensor([window], device=device)) for window in self.windows]
        return torch.stack([logits[0, -1] for logits in rows])

    def _with_cache(self) -> Tensor:
        """Compute only the last token of each window, after those that the cache lacks."""
        if self.cache is None:
            self.cache = self._new_cache(len(self.windows))
        restarted = [
            row
            for row, window in enumerate(self.windows)
            if self.cache.lengths[row] != len(window) - 1
        ]
        if restarted:
            self.cache.replace(restarted, self._fill_cache([self.windows[r] for r in restarted]))
        last = torch.tensor([window[-1:] for window in self.windows], device=self._device)
        logits: Tensor = self.model(last, self.cache)  # (texts, 1, vocab_size)
        return logits[:, -1]

    def _fill_cache(self, windows: list[list[int]]) -> KVCache:
        """Return a new cache that holds all tokens of these windows except the last of each."""
        cache = self._new_cache(len(windows))
        lengths = [len(window) - 1 for window in windows]
        if max(lengths) > 0:
            # The padding is at the end: no token before it attends to it, and it is cut off.
            padded = torch.zeros(len(windows), max(lengths), dtype=torch.long)
            for row, window in enumerate(windows):
                padded[row, : lengths[row]] = torch.tensor(window[:-1], dtype=torch.long)
            self.model.hidden_states(padded.to(self._device), cache)
            cache.truncate(lengths)
        return cache

    def _new_cache(self, batch_size: int) -> KVCache:
        weight = next(self.model.parameters())
        return KVCache(self.model.config, batch_size, weight.device, weight.dtype)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


def _check_prompt(model: TransformerLM, prompt_ids: Sequence[int]) -> None:
    if len(prompt_ids) == 0:
        raise ValueError("prompt_ids is empty: start with at least one token (the end-of-text id)")
    for token_id in prompt_ids:
        _check_id(model, token_id)


def _check_id(model: TransformerLM, token_id: int) -> int:
    """Return a token id as an int, if it is one of the model's."""
    number = checked_integer("a token id", token_id, -(2**63))
    if not 0 <= number < model.config.vocab_size:
        raise ValueError(
            f"token id {short_repr(number)} is not in the model's vocabulary "
            f"[0, {model.config.vocab_size})"
        )
    return number


def _checked_eos_id(model: TransformerLM, eos_id: int | None) -> int | None:
    return None if eos_id is None else _check_id(model, eos_id)


def _mask_of(model: TransformerLM, allowed_ids: Collection[int] | None) -> Tensor | None:
    """Return which ids may be drawn, bool of shape (vocab_size,); None: all."""
    if allowed_ids is None:
        return None
    if len(allowed_ids) == 0:
        raise ValueError("allowed_ids is empty: allow at least one id, or pass None (all)")
    mask = torch.zeros(model.config.vocab_size, dtype=torch.bool)
    mask[torch.tensor([_check_id(model, token_id) for token_id in allowed_ids])] = True
    return mask
