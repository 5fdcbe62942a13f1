"""`python -m cs336_basics generate`: generate text with a trained model."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.files import printable_path
from cs336_basics._support.text import ASSISTANT, USER, turn
from cs336_basics._support.validation import Amount, Checked, Count, option
from cs336_basics.commands._cli import complain, describe_error, say, show
from cs336_basics.commands._options import CHECKPOINT, DEVICE, NUM_WORKERS, Command, UsageError

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer


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
    continuation = _load(options)
    if options.interactive:
        _converse(continuation, shows_prompts=not options.chat)
    else:
        _print_text("" if options.chat else options.prompt, continuation(options.prompt))


def _load(options: Options) -> Callable[[str], Iterator[str]]:
    """Load the model, and return a function that streams the continuation of a prompt.

    Raises:
        ValueError, OSError: If the run, the checkpoint or an option is invalid.
    """
    # These import torch, which help pages do not need.
    import torch

    from cs336_basics.generation import Sampling, stop_at
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
    if options.chat:
        _check_chats(run.tokenizer, options.run)
    # All prompts share one generator, so a repeated prompt gets a different answer.
    generator = torch.Generator().manual_seed(options.seed)

    def continuation(prompt: str) -> Iterator[str]:
        return run.stream(
            turn(prompt) if options.chat else prompt,
            options.max_new_tokens,
            sampling,
            stop=options.stop,
            generator=generator,
            use_cache=not options.no_cache,
        )

    return continuation


def _check_chats(tokenizer: Tokenizer, run: Path) -> None:
    for token in (USER, ASSISTANT):
        if token not in tokenizer.special_tokens:
            raise InputError(
                f"the tokenizer has no special token {token}, so the run was not trained on "
                "prompts and answers",
                place=printable_path(run),
                remedy=(
                    "train with ",
                    Argument("data.prompt_field"),
                    " and ",
                    Argument("data.answer_field"),
                    ", or generate without chat",
                ),
            )


def _print_text(prompt: str, continuation: Iterator[str]) -> None:
    """Print a prompt, then its continuation as it is generated."""
    show(prompt)
    for text in continuation:
        show(text)
    show("\n")


def _converse(continuation: Callable[[str], Iterator[str]], shows_prompts: bool) -> None:
    """Read prompts and continue each one, until the end of the input.

    Ctrl-C stops the current text or, at the prompt, exits.
    """
    with contextlib.suppress(ImportError):  # not on Windows
        import readline  # noqa: F401 -- adds line editing and history to `input`
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # invalid UTF-8 fails only one prompt
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if on_terminal:  # piped output contains only the texts
        say("Enter one prompt per line. Ctrl-C stops a text, and Ctrl-D exits.")
    while True:
        try:
            prompt = input("> " if on_terminal else "")
        except EOFError:
            return
        try:
            _print_text(prompt if shows_prompts else "", continuation(prompt))
        except KeyboardInterrupt:
            show("\n")
        except InputError as error:  # the tokenizer rejects this prompt; the next may be fine
            complain(f"cs336 generate: error: {describe_error(error, COMMAND.written)}")


COMMAND = Command(
    "generate",
    Options,
    generate,
    "generate --run runs/my --prompt 'The'",
    "generate --run runs/my --checkpoint best --temperature 0 --max-new-tokens 100",
    "generate --run runs/my --interactive",
    "generate --run runs/chat --chat --prompt 'write a story about a cat'",
)
