"""Text from a model as it comes: whole characters, up to a stop string."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cs336_basics._support.messages import short_repr
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.generation.generate import generate
from cs336_basics.tokenizer import StreamingDecoder

if TYPE_CHECKING:
    import torch

    from cs336_basics.generation.sampling import Sampling
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer


def generate_text(
    model: TransformerLM,
    tokenizer: Tokenizer,
    prompt: str,
    max_new_tokens: int,
    sampling: Sampling | None = None,
    *,
    stop: Sequence[str] = (),
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> Iterator[str]:
    """Yield the text that continues a prompt, in strings of whole characters, as it is generated.

    The text ends before `<|endoftext|>`, before the first string of `stop`, or after
    `max_new_tokens` tokens. Ids that the tokenizer does not have, as where a model has more rows,
    are never drawn.

    Args:
        model, max_new_tokens, sampling, generator, use_cache: see `generate`.
        tokenizer: that of the model, with `<|endoftext|>` as a special token.
        prompt: how the text begins; it is not yielded. An empty one begins a new document.
        stop: strings that end the text; see `stop_at`.

    Raises:
        ValueError: an argument is out of its bounds, or the tokenizer lacks `<|endoftext|>` or a
            byte of the prompt; at the call, not at the first string.
    """
    eos_id = tokenizer.special_token_id(END_OF_TEXT)
    vocab_size = model.config.vocab_size
    known_ids = [token_id for token_id in tokenizer.vocab if token_id < vocab_size]
    new_ids = generate(
        model,
        tokenizer.encode(prompt) or [eos_id],
        max_new_tokens,
        sampling,
        eos_id=eos_id,
        allowed_ids=None if len(known_ids) == vocab_size else known_ids,
        generator=generator,
        use_cache=use_cache,
    )
    return stop_at(stream_text(tokenizer, new_ids), stop)


def stream_text(tokenizer: Tokenizer, token_ids: Iterable[int]) -> Iterator[str]:
    """Yield the text of tokens as they come, in strings of whole characters."""
    decoder = StreamingDecoder(tokenizer)
    for token_id in token_ids:
        yield decoder.push(token_id)
    yield decoder.finish()


def stop_at(texts: Iterable[str], stop: Sequence[str]) -> Iterator[str]:
    """Yield the text that arrives in `texts` up to the first string of `stop`, without it.

    A stop string may arrive in any number of steps: characters with which one could begin are held
    back until it is clear. The text ends where the first stop string to be complete begins, or the
    longest where several end at the same character. Nothing after that is read from `texts`.

    Raises:
        TypeError: `stop` is one string.
        ValueError: a stop string is empty. Both at the call.
    """
    if isinstance(stop, str):
        raise TypeError(f"stop is {short_repr(stop)}: pass a list of strings, such as [{stop!r}]")
    if "" in stop:
        raise ValueError("a stop string is empty: it would stop the text before it begins")

    def until_stop() -> Iterator[str]:
        held = ""
        for text in texts:
            held += text
            found = [(held.find(string) + len(string), string) for string in stop if string in held]
            if found:
                end = min(end for end, _ in found)
                length = max(len(string) for at, string in found if at == end)
                yield held[: end - length]
                return
            possible = _possible_beginning(held, stop)
            yield held[: len(held) - possible]
            held = held[len(held) - possible :]
        yield held

    return until_stop()


def _possible_beginning(text: str, stop: Sequence[str]) -> int:
    """Return how many characters at the end of `text` could be the beginning of a stop string."""
    longest = max(map(len, stop), default=1) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(string.startswith(text[-size:]) for string in stop):
            return size
    return 0
