"""`python -m cs336_basics generate`: text from a trained run, printed as it is generated."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cs336_basics.commands._cli import complain, describe_error, run_command, say, show
from cs336_basics.commands._parser import Parser, add_device, add_num_workers, integer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = build_parser()

    def work(options: argparse.Namespace) -> None:
        if options.interactive and options.prompt:
            raise parser.usage_error("--interactive reads its prompts: leave --prompt out")
        continuation = _load(options)
        if options.interactive:
            _converse(parser, continuation)
        else:
            _print_text(options.prompt, continuation(options.prompt))

    return run_command(parser, work, arguments)


def build_parser() -> Parser:
    """Return the options of the command."""
    parser = Parser(
        "generate",
        "Generate text with a trained model, printed as it is generated.",
        examples=[
            "generate --run runs/my --prompt 'Once upon a time'",
            "generate --run runs/my --temperature 0 --max-new-tokens 100",
            "generate --run runs/my --interactive",
        ],
    )
    add = parser.add
    add("--run", "run directory of the training", type=Path, required=True, metavar="DIR")
    add("--prompt", "how the text begins; empty: a new document", default="", metavar="TEXT")
    add("--max-new-tokens", "limit of the length", type=integer(at_least=0), default=256,
        metavar="N")  # fmt: skip
    add("--temperature", "0 is greedy", type=float, default=0.8, metavar="T")
    add("--top-k", "sample from the K most likely tokens", type=int, metavar="K")
    add("--top-p", "nucleus sampling; 1 is off", type=float, default=0.95, metavar="P")
    add(
        "--min-p",
        "omit tokens below P times the highest probability; 0 is off",
        type=float,
        default=0.0,
        metavar="P",
        common=False,
    )
    add(
        "--repetition-penalty",
        "above 1, tokens of the text become less likely; 1 is off",
        type=float,
        default=1.0,
        metavar="R",
        common=False,
    )
    add(
        "--stop",
        "end before this text; repeatable",
        action="append",
        default=[],
        metavar="TEXT",
    )
    add("--seed", "the same seed gives the same text", type=integer(-(2**63), 2**64 - 1),
        default=0, metavar="S")  # fmt: skip
    add(
        "--interactive",
        "read prompts from standard input, one per line, until Ctrl-D",
        action="store_true",
    )
    add("--checkpoint", "checkpoint to load (default: the newest of the run)", type=Path,
        metavar="DIR", common=False)  # fmt: skip
    add(
        "--no-cache",
        "compute without the key-value cache: the same text, slower",
        action="store_true",
        common=False,
    )
    add_device(parser, common=False)
    add_num_workers(parser, "threads", common=False)
    return parser


def _load(options: argparse.Namespace) -> Callable[[str], Iterator[str]]:
    """Load the model of a run; return the function from a prompt to the text that continues it.

    Raises:
        ValueError, OSError: the run, the checkpoint or an option cannot be used.
    """
    # Imported here: all of it needs torch, and help pages do without.
    import torch

    from cs336_basics.generation import Sampling, generate_text, stop_at
    from cs336_basics.training.load_run import load_run

    # Checked before the model is loaded, and once for all prompts.
    if options.top_k is not None and options.top_k < 1:
        raise ValueError(f"--top-k is {options.top_k}: it must be at least 1")
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
    run = load_run(options.run, checkpoint=options.checkpoint, device=options.device)
    # One generator for all prompts of a session: a repeated prompt gets another answer.
    generator = torch.Generator().manual_seed(options.seed)

    def continuation(prompt: str) -> Iterator[str]:
        return generate_text(
            run.model,
            run.tokenizer,
            prompt,
            options.max_new_tokens,
            sampling,
            stop=options.stop,
            generator=generator,
            use_cache=not options.no_cache,
        )

    return continuation


def _print_text(prompt: str, continuation: Iterator[str]) -> None:
    """Print a prompt and then its continuation, each string as soon as it is there."""
    show(prompt)
    for text in continuation:
        show(text)
    show("\n")


def _converse(parser: Parser, continuation: Callable[[str], Iterator[str]]) -> None:
    """Read prompts and continue each, until the end of the input.

    Ctrl-C ends a text that is being generated, and the program between texts.
    """
    with contextlib.suppress(ImportError):  # not on Windows
        import readline  # noqa: F401 -- gives `input` line editing and a history
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # a bad byte spoils one prompt only
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if on_terminal:  # elsewhere the output has the texts alone
        say("One prompt per line; Ctrl-C stops a text, Ctrl-D ends.")
    while True:
        try:
            prompt = input("> " if on_terminal else "")
        except EOFError:
            return
        try:
            _print_text(prompt, continuation(prompt))
        except KeyboardInterrupt:
            show("\n")
        except ValueError as error:  # the tokenizer cannot take this prompt, but perhaps the next
            complain(f"{parser.name}: error: {describe_error(error, parser)}")


if __name__ == "__main__":
    sys.exit(main())
