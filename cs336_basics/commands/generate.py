"""`python -m cs336_basics generate`: generate text with a trained model."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.paths import printable_path
from cs336_basics._support.validation import Amount, Checked, Count, option
from cs336_basics.commands._cli import complain, describe_error, say, show
from cs336_basics.commands._options import CHECKPOINT, DEVICE, NUM_WORKERS, Command, UsageError

if TYPE_CHECKING:
    from cs336_basics.generation.conversation import Conversation


@dataclass(kw_only=True)
class Options(Checked):
    """Generate text with a trained model, and print it as it is generated."""

    run: Path = option("run directory", metavar="DIR")
    prompt: str = option("start of the text (default: a new document)", "")
    chat: bool = option(
        "answer the prompt, with a model trained on prompts and answers; print only the answer",
        False,
    )
    max_new_tokens: Amount = option("maximum number of new tokens", 256)
    temperature: float = option("sampling temperature; 0 is greedy", 0.8)
    top_k: Count | None = option("sample from the N most likely tokens", None)
    top_p: float = option("total probability for nucleus sampling; 1 is off", 0.95)
    min_p: float = option(
        "drop tokens below X times the highest probability; 0 is off", 0.0, rare=True
    )
    repetition_penalty: float = option(
        "repetition penalty; above 1, tokens already in the text become less likely; 1 is off",
        1.0,
        rare=True,
    )
    stop: tuple[str, ...] = option("one or more texts to stop before", (), metavar="TEXT")
    seed: int = option("random seed; the same seed gives the same text", 0, ge=-(2**63), lt=2**64)
    interactive: bool = option(
        "read prompts from standard input, one per line, until Ctrl-D", False
    )
    checkpoint: str | None = CHECKPOINT
    no_cache: bool = option(
        "generate without the key-value cache, which is slower but gives the same text",
        False,
        rare=True,
    )
    precision: Literal["auto", "float32", "bfloat16", "int8"] = option(
        "number format of the matrices; fewer bits are faster on a CPU; auto: int8 if it is faster "
        "for this model on this machine, else float32",
        "auto",
    )
    device: str = DEVICE
    num_workers: int | None = NUM_WORKERS


def generate(options: Options) -> None:
    """Generate and print text."""
    if options.interactive and options.prompt:
        raise UsageError(
            "--interactive reads prompts from standard input", remedy="remove --prompt"
        )
    if options.chat and not (options.interactive or options.prompt):
        raise UsageError("--chat requires a prompt", remedy="add --prompt or --interactive")
    continuation, conversation = _load(options)
    if options.interactive:
        _read_prompts(continuation, conversation)
    else:
        prompt = _as_utf8(options.prompt)
        _print_text("" if options.chat else prompt, continuation(prompt))


def _load(options: Options) -> tuple[Callable[[str], Iterator[str]], Conversation | None]:
    """Load the model, and return a function that streams the continuation of a prompt.

    With `chat`, the function streams the answer to a prompt, after the earlier turns of the
    conversation, which is also returned.

    Raises:
        ValueError, OSError: If the run, the checkpoint or an option is invalid.
    """
    # These import torch, which help pages do not need.
    import torch

    from cs336_basics.generation import Sampling, stop_at
    from cs336_basics.generation.conversation import STOPS, Conversation
    from cs336_basics.training.data import AnswerRule
    from cs336_basics.training.load_run import load_run

    # Check the options before loading the model, which is slow.
    sampling = Sampling(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        repetition_penalty=options.repetition_penalty,
    )
    stop_at([], options.stop)
    if options.num_workers is not None:
        torch.set_num_threads(options.num_workers)
    run = load_run(options.run, checkpoint=options.checkpoint or "last", device=options.device)
    conversation = None
    stop = options.stop
    if options.chat:
        try:
            AnswerRule.of(run.tokenizer)
        except InputError as error:
            raise error.at(printable_path(options.run)) from None
        conversation = Conversation(
            run.tokenizer, run.model.config.context_length, options.max_new_tokens
        )
        stop = (*stop, *STOPS)
    # All prompts share one generator, so a repeated prompt gets a different answer.
    generator = torch.Generator().manual_seed(options.seed)

    def continuation(prompt: str) -> Iterator[str]:
        texts = run.stream(
            prompt if conversation is None else conversation.text_for(prompt),
            options.max_new_tokens,
            sampling,
            stop=stop,
            generator=generator,
            use_cache=not options.no_cache,
            precision=options.precision,
        )
        return texts if conversation is None else conversation.recorded(prompt, texts)

    return continuation, conversation


def _as_utf8(prompt: str) -> str:
    """Return a prompt in which Python has replaced bytes outside the locale's encoding.

    Raises:
        ValueError: If the bytes are not UTF-8.
    """
    try:
        return prompt.encode("utf-8", "surrogateescape").decode()
    except UnicodeError:
        raise InputError(f"the prompt must be valid UTF-8, got {short_repr(prompt)}") from None


def _print_text(prompt: str, continuation: Iterator[str]) -> None:
    """Print a prompt, then its continuation as it is generated."""
    show(prompt)
    for text in continuation:
        show(text)
    show("\n")


def _read_prompts(
    continuation: Callable[[str], Iterator[str]], conversation: Conversation | None
) -> None:
    """Read prompts and continue each one, until the end of the input.

    Ctrl-C stops the current text or, at the prompt, exits. An empty line starts a new conversation,
    if there is one.
    """
    with contextlib.suppress(ImportError):  # not on Windows
        import readline  # noqa: F401 -- adds line editing and history to `input`
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # invalid UTF-8 fails only one prompt
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if on_terminal:  # piped output contains only the texts
        new = "" if conversation is None else " An empty line starts a new conversation."
        say(f"Enter one prompt per line. Ctrl-C stops a text, and Ctrl-D exits.{new}")
    while True:
        try:
            line = input("> " if on_terminal else "")
        except EOFError:
            return
        if conversation is not None and not line:
            conversation.forget()
            continue
        try:
            prompt = _as_utf8(line)
            _print_text(prompt if conversation is None else "", continuation(prompt))
        except KeyboardInterrupt:
            show("\n")
        except InputError as error:  # the tokenizer rejects this prompt; the next may be fine
            complain(f"{COMMAND.program}: error: {describe_error(error, COMMAND.written)}")


COMMAND = Command(
    "generate",
    Options,
    generate,
    "generate --run runs/my --prompt 'The'",
    "generate --run runs/my --checkpoint best --temperature 0 --max-new-tokens 100",
    "generate --run runs/my --interactive",
    "generate --run runs/chat --chat --prompt 'write a story about a cat'",
    uses_torch=True,
)
