"""Streaming generated text in complete characters, up to a stop string."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cs336_basics._support.arguments import check_is_iterable
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.generation.generate import generate
from cs336_basics.tokenizer import StreamingDecoder

if TYPE_CHECKING:
    import torch

    from cs336_basics.generation.precision import Precision
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
    stop: Iterable[str] = (),
    generator: torch.Generator | None = None,
    use_cache: bool = True,
    precision: Precision = "float32",
) -> Iterator[str]:
    """Yield the continuation of a prompt as it is generated, in strings of complete characters.

    The text ends before `<|endoftext|>`, before the first occurrence of a stop string, or after
    `max_new_tokens` tokens. If the model has more ids than the tokenizer, the extra ids are never
    drawn.

    Args:
        model, max_new_tokens, sampling, generator, use_cache, precision: See `generate`.
        tokenizer: The model's tokenizer, with `<|endoftext|>` as a special token.
        prompt: Start of the text. It is not yielded. An empty prompt starts a new document.
        stop: Strings that end the text; see `stop_at`.

    Raises:
        ValueError: If an argument is out of range, or `<|endoftext|>` or a byte of the prompt is
            missing from the tokenizer's vocabulary. The error is raised by the call itself, not
            when the first string is requested.

    Example:
        >>> from cs336_basics import load_run
        >>> from cs336_basics.generation import generate_text
        >>> run = load_run("runs/stories")
        >>> text = "".join(generate_text(run.model, run.tokenizer, "Once upon a time", 20))
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
        precision=precision,
    )
    return stop_at(stream_text(tokenizer, new_ids), stop)


def stream_text(tokenizer: Tokenizer, token_ids: Iterable[int]) -> Iterator[str]:
    """Yield the text of tokens as they arrive, in strings of complete characters.

    Args:
        tokenizer: Tokenizer that decodes the ids.
        token_ids: Ids, read one at a time. Each gives one string, which is empty if it completes
            no character.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.generation import stream_text
        >>> tokenizer = Tokenizer({i: bytes([i]) for i in range(256)}, [])
        >>> list(stream_text(tokenizer, tokenizer.encode("aé")))
        ['a', '', 'é', '']
    """
    decoder = StreamingDecoder(tokenizer)
    for token_id in token_ids:
        yield decoder.push(token_id)
    yield decoder.finish()


def stop_at(texts: Iterable[str], stop: Iterable[str]) -> Iterator[str]:
    """Yield the text in `texts` up to, but not including, the first stop string.

    A stop string may be split over any number of `texts`, so characters that could start a stop
    string are held back until the following characters show whether they do. The first stop string
    to be completed ends the text, and nothing more is read from `texts`. If the same character
    completes several stop strings, the longest one is removed.

    Raises:
        TypeError: If `stop` is a single string, or contains something else.
        ValueError: If a stop string is empty.

    Errors are raised by the call itself, not when the first string is requested.

    Example:
        >>> from cs336_basics.generation import stop_at
        >>> "".join(stop_at(["The end", " of it. EN", "D and more"], ["END"]))
        'The end of it. '
    """
    if isinstance(stop, str):
        raise InputTypeError(
            f"must be a list of strings, such as ['.'], got {short_repr(stop)}", argument="stop"
        )
    check_is_iterable("stop", stop, "strings")
    strings = list(stop)  # which may be an iterator
    for string in strings:
        if not isinstance(string, str):
            raise InputTypeError(
                f"must contain only str, got {short_repr(string)}", argument="stop"
            )
        if not string:
            raise InputError(
                f"must not contain an empty string, got {short_repr(strings)}", argument="stop"
            )

    def until_stop() -> Iterator[str]:
        held = ""
        for text in texts:
            held += text
            found = [
                (held.find(string) + len(string), string) for string in strings if string in held
            ]
            if found:
                end = min(end for end, _ in found)
                length = max(len(string) for at, string in found if at == end)
                yield held[: end - length]
                return
            pending = _pending_characters(held, strings)
            yield held[: len(held) - pending]
            held = held[len(held) - pending :]
        yield held

    return until_stop()


def _pending_characters(text: str, stop: Sequence[str]) -> int:
    """Return the number of characters at the end of `text` that could start a stop string."""
    longest = max(map(len, stop), default=1) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(string.startswith(text[-size:]) for string in stop):
            return size
    return 0
