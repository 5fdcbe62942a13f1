"""Text from a trained model: one token at a time, with or without a key-value cache.

Read `generate` first. What the model sees is decided in one place for both ways, `next_window`, so
that the cache changes the speed and not the text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cs336_basics.model.attention import softmax
from cs336_basics.model.kv_cache import KVCache
from cs336_basics.tokenizer import StreamingDecoder

if TYPE_CHECKING:
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer


def generate(
    model: TransformerLM,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    eos_id: int | None = None,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> Iterator[int]:
    """Yield the ids of new tokens that continue a prompt, each as soon as it is drawn.

    The model sees at most `context_length` tokens. Of a longer prompt it sees the last ones; when
    a text has filled the context, the model goes on from the last half of it, and the context
    fills up again. (A window that slid by one token would give every token in it a new position,
    and other predecessors: nothing in a cache would hold, and each token would cost as much as
    without one.)

    Args:
        model: gives the logits. Whether it is in training mode is left as it was.
        prompt_ids: at least one token id; a fresh document starts from the end-of-text token.
        max_new_tokens: how many tokens to yield at most.
        temperature: the logits are divided by it. 0 is greedy: always the likeliest token.
        top_k: sample from this many of the likeliest tokens; None is all of them.
        top_p: sample from the smallest set of likeliest tokens whose probabilities add up to at
            least this; 1 is the whole distribution.
        min_p: sample from tokens at least this times as likely as the likeliest; 0 is all of them.
        repetition_penalty: above 1, tokens that the text has already become less likely.
        eos_id: a token that ends the text. It is not yielded.
        generator: a CPU generator, for repeatable text on every device; None is torch's own.
        use_cache: keep the keys and values of the tokens before. False computes them again for
            every token: the same text, up to ties within rounding, more slowly.

    Raises:
        ValueError: an argument is out of its range; at the call, not at the first token.
    """
    sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
    _check_prompt(model, prompt_ids, max_new_tokens, eos_id)
    texts = _Texts(model, [prompt_ids], use_cache)

    def new_ids() -> Iterator[int]:
        for _ in range(max_new_tokens):
            logits = texts.next_logits()[0]
            token_id = sampling.draw(logits, texts.ids[0], generator)
            if token_id == eos_id:
                return
            yield token_id
            texts.append([token_id])

    return new_ids()


def generate_batch(
    model: TransformerLM,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    eos_id: int | None = None,
    generators: Sequence[torch.Generator] | None = None,
    use_cache: bool = True,
) -> list[list[int]]:
    """Return the new ids that continue each prompt; the prompts may differ in length.

    Each text is what `generate` would give for its prompt and its generator, up to ties within
    rounding. One step computes the next token of all texts that have not ended.

    Args and errors are those of `generate`, but for `generators`: one for each prompt, or None.
    """
    sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
    for prompt_ids in prompts:
        _check_prompt(model, prompt_ids, max_new_tokens, eos_id)
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
            drawn.append(sampling.draw(logits, texts.ids[row], generator))
        going_on = [row for row, token_id in enumerate(drawn) if token_id != eos_id]
        if not going_on:
            break
        if len(going_on) < len(drawn):
            texts.keep(going_on)
            running = [running[row] for row in going_on]
            drawn = [drawn[row] for row in going_on]
        texts.append(drawn)
        for text, token_id in zip(running, drawn, strict=True):
            results[text].append(token_id)
    return results


# What the model sees, and what it answers.


def next_window(window: list[int], token_id: int, context_length: int) -> list[int]:
    """Return what the model sees after a token is added to `window`, what it saw before.

    That is the window and the token, or where that is too long, the last half of a context.
    """
    longer = [*window, token_id]
    if len(longer) <= context_length:
        return longer
    return longer[-max(1, context_length // 2) :]


class _Texts:
    """A batch of growing texts, and the logits of each one's next token.

    With a cache, the invariant is: the cache holds all tokens of each window but the last, unless
    the window was begun anew. Such a window is computed as a whole, but for its last token.
    """

    def __init__(
        self, model: TransformerLM, prompts: Sequence[Sequence[int]], use_cache: bool
    ) -> None:
        self.model = model
        self.ids = [list(prompt) for prompt in prompts]
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

    # No gradients are kept for this call only: a `with` around a `yield` would also switch them
    # off in the code that consumes the tokens.
    @torch.no_grad()
    def next_logits(self) -> Tensor:
        """Return the logits (texts, vocab_size) of the token after each text."""
        was_training = self.model.training
        if was_training:  # it visits every module, too slow to do it for nothing
            self.model.eval()
        try:
            return self._with_cache() if self.use_cache else self._without_cache()
        finally:
            if was_training:
                self.model.train()

    def _without_cache(self) -> Tensor:
        """The plain way, which says what is meant: each window by itself, as a whole."""
        device = next(self.model.parameters()).device
        rows = [self.model(torch.tensor([window], device=device)) for window in self.windows]
        return torch.stack([logits[0, -1] for logits in rows])

    def _with_cache(self) -> Tensor:
        """Compute the last token of each window only, and first those that are not in the cache."""
        if self.cache is None:
            self.cache = self._new_cache(len(self.windows))
        begun_anew = [
            row
            for row, window in enumerate(self.windows)
            if self.cache.lengths[row] != len(window) - 1
        ]
        if begun_anew:
            self.cache.replace(begun_anew, self._computed([self.windows[r] for r in begun_anew]))
        last = torch.tensor([window[-1:] for window in self.windows], device=self._device)
        logits: Tensor = self.model(last, self.cache)  # (texts, 1, vocab_size)
        return logits[:, -1]

    def _computed(self, windows: list[list[int]]) -> KVCache:
        """Return a cache that holds all tokens of these windows but the last of each."""
        cache = self._new_cache(len(windows))
        lengths = [len(window) - 1 for window in windows]
        if max(lengths) > 0:
            # Padded at the end, where no token before can see it, and then forgotten.
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


def _check_prompt(
    model: TransformerLM, prompt_ids: Sequence[int], max_new_tokens: int, eos_id: int | None
) -> None:
    vocab_size = model.config.vocab_size
    if len(prompt_ids) == 0:
        raise ValueError("prompt_ids is empty: start with at least one token (the end-of-text id)")
    for token_id in [*prompt_ids, *([] if eos_id is None else [eos_id])]:
        if not 0 <= token_id < vocab_size:
            raise ValueError(
                f"token id {token_id} is not in the model's vocabulary [0, {vocab_size})"
            )
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens is {max_new_tokens}: it must be 0 or more")


# From logits to a token.


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn from logits: the arguments of `generate`, checked.

    They apply in the order of the fields, `repetition_penalty` before all, and each filter sees
    the distribution that those before it leave, scaled to 1.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(
                f"temperature is {self.temperature}: it must be 0 (greedy) or more, and finite"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}: it must be at least 1")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}: it must be above 0 and at most 1")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p is {self.min_p}: it must be between 0 and 1")
        if not 0 < self.repetition_penalty < math.inf:
            raise ValueError(
                f"repetition_penalty is {self.repetition_penalty}: it must be above 0, and finite"
            )

    def draw(
        self,
        logits: Tensor,
        previous_ids: Sequence[int] = (),
        generator: torch.Generator | None = None,
    ) -> int:
        """Draw one token id from logits (vocab_size,); `previous_ids` are the text so far.

        Raises:
            ValueError: the logits are not finite.
        """
        logits = logits.double().cpu()  # in float32 a tiny temperature would be zero
        if not torch.isfinite(logits).all():
            raise ValueError("the model's logits are not finite: its weights are damaged")
        if self.repetition_penalty != 1:
            logits = penalize_repetition(logits, previous_ids, self.repetition_penalty)
        if self.temperature == 0:
            return int(logits.argmax())
        # The maximum goes first: a tiny temperature would otherwise make infinities of differences.
        probabilities = softmax((logits - logits.max()) / self.temperature, dim=-1)
        if self.top_k is not None:
            probabilities = keep_top_k(probabilities, self.top_k)
            probabilities = probabilities / probabilities.sum()
        # The next one only compares probabilities with each other, so it needs no scaling.
        probabilities = keep_nucleus(probabilities, self.top_p)
        probabilities = keep_likely(probabilities, self.min_p)
        return int(torch.multinomial(probabilities, 1, generator=generator))


def sample_token(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    previous_ids: Sequence[int] = (),
    generator: torch.Generator | None = None,
) -> int:
    """Draw one token id from logits of shape (vocab_size,).

    Raises:
        ValueError: an argument is out of its range, or the logits are not finite.
    """
    sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
    return sampling.draw(logits, previous_ids, generator)


def penalize_repetition(logits: Tensor, previous_ids: Sequence[int], penalty: float) -> Tensor:
    """Return logits (vocab_size,) in which tokens of the text so far are less likely (penalty > 1).

    Positive logits are divided by the penalty and negative ones multiplied, once, however often
    the token occurred. (Keskar et al. 2019, "CTRL", section 4.1; for negative logits the rule of
    its code, since a division would favour them.)
    """
    ids = torch.tensor(sorted(set(previous_ids)), dtype=torch.long)
    seen = logits[ids]
    result = logits.clone()
    result[ids] = torch.where(seen > 0, seen / penalty, seen * penalty)
    return result


def keep_top_k(probabilities: Tensor, top_k: int) -> Tensor:
    """Return a distribution (vocab_size,) with all but its `top_k` likeliest tokens set to 0.

    Of equally likely tokens the lower ids come first. What stays is not scaled up to 1. (Fan et
    al. 2018, "Hierarchical Neural Story Generation", section 5.4.)
    """
    if top_k >= len(probabilities):
        return probabilities
    ids = torch.sort(probabilities, descending=True, stable=True).indices[:top_k]
    return torch.zeros_like(probabilities).scatter(-1, ids, probabilities[ids])


def keep_nucleus(probabilities: Tensor, top_p: float) -> Tensor:
    """Return a distribution (vocab_size,) with all but its likeliest tokens set to 0.

    What stays is the smallest set of likeliest tokens whose probabilities add up to at least
    `top_p`, hence always one token at least; of equally likely tokens the lower ids come first.
    The rest is not scaled up to 1. (Holtzman et al. 2020, "The Curious Case of Neural Text
    Degeneration", section 3.1.)
    """
    if top_p == 1:  # rounding in the sum below could drop the unlikeliest tokens
        return probabilities
    ordered, ids = torch.sort(probabilities, descending=True, stable=True)
    # How much probability lies before each token, in float64: sums of thousands stay accurate.
    likelier = ordered.double().cumsum(-1).roll(1)
    likelier[0] = 0.0
    kept = torch.where(likelier < top_p, ordered, 0.0)
    return torch.zeros_like(probabilities).scatter(-1, ids, kept)


def keep_likely(probabilities: Tensor, min_p: float) -> Tensor:
    """Return a distribution (vocab_size,) without tokens less than `min_p` times the likeliest.

    What stays is not scaled up to 1. (Nguyen et al. 2024, "Turning Up the Heat: Min-p Sampling",
    section 3.)
    """
    return torch.where(probabilities >= min_p * probabilities.max(), probabilities, 0.0)


# From tokens to text.


def stream_text(tokenizer: Tokenizer, token_ids: Iterable[int]) -> Iterator[str]:
    """Yield the text of tokens piece by piece, as they come; each piece is whole characters."""
    decoder = StreamingDecoder(tokenizer)
    for token_id in token_ids:
        yield decoder.push(token_id)
    yield decoder.finish()


def stop_at(pieces: Iterable[str], stop: Sequence[str]) -> Iterator[str]:
    """Pass pieces of text on until a string of `stop` is complete; neither it nor more is passed.

    The strings may lie across pieces in any way: what could be the beginning of one is held back
    until it is clear. The text ends where the first of them to be complete begins, the longest if
    several end at the same place; no piece after that is asked for.

    Raises:
        ValueError: a stop string is empty; at the call.
    """
    if "" in stop:
        raise ValueError("a stop string is empty: it would stop the text before it begins")

    def passed_on() -> Iterator[str]:
        held = ""
        for piece in pieces:
            held += piece
            found = [(held.find(string) + len(string), string) for string in stop if string in held]
            if found:
                end = min(end for end, _ in found)
                length = max(len(string) for at, string in found if at == end)
                yield held[: end - length]
                return
            possible = _longest_beginning_at_the_end(held, stop)
            yield held[: len(held) - possible]
            held = held[len(held) - possible :]
        yield held

    return passed_on()


def _longest_beginning_at_the_end(text: str, stop: Sequence[str]) -> int:
    """Return the most characters at the end of `text` with which a string of `stop` begins."""
    longest = max(map(len, stop), default=1) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(string.startswith(text[-size:]) for string in stop):
            return size
    return 0
