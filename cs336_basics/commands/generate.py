"""`python -m cs336_basics generate`: text from a trained run, shown as it is written.

python -m cs336_basics generate --run runs/sample-... --prompt 'Once upon a time'
python -m cs336_basics generate --run runs/sample-... --interactive
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see train.py

import argparse
import contextlib
import functools
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from cs336_basics._text import END_OF_TEXT
from cs336_basics.commands._cli import complain_of, show_what_can_be_shown, silence
from cs336_basics.generation import Sampling, generate, stop_at, stream_text
from cs336_basics.model import TransformerLM
from cs336_basics.runs.checkpoint import load_checkpoint
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.training.config_files import load_config
from cs336_basics.training.devices import choose_device


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 2 for what cannot be used, 130 for Ctrl-C."""
    options = build_parser().parse_args(arguments)
    show_what_can_be_shown()
    try:
        continuation = _load(options)
        if options.interactive:
            return _converse(continuation)
        _show(options.prompt, continuation(options.prompt))
    except KeyboardInterrupt:
        print()
        return 130
    except BrokenPipeError:  # `generate ... | head`: the reader has seen enough
        silence(sys.stdout)
        return 0
    except (ValueError, OSError) as error:
        complain_of(error)
        return 2
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m cs336_basics generate",
        description="Let a trained model continue a text.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--run", type=Path, required=True, metavar="DIR", help="run directory of the training")
    add("--prompt", default="", help="how the text begins; empty: at the start of a document")
    add("--max-new-tokens", type=int, default=256, metavar="N", help="most tokens to write")
    add("--temperature", type=float, default=0.8, metavar="T", help="0 is greedy")
    add("--top-k", type=int, metavar="K", help="draw from the K likeliest tokens; unset: all")
    add("--top-p", type=float, default=0.95, metavar="P", help="size of the nucleus; 1: everything")
    add("--min-p", type=float, default=0.0, metavar="P", help="least share of the likeliest token")
    add(
        "--repetition-penalty",
        type=float,
        default=1.0,
        metavar="R",
        help="above 1, tokens that the text has already become less likely",
    )
    add(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="end before this text; may be given several times",
    )
    add("--seed", type=int, default=0, metavar="S", help="the same seed gives the same text")
    add(
        "--interactive",
        action="store_true",
        help="ask for prompts, one per line, until the end of input (Ctrl-D)",
    )
    add("--no-cache", action="store_true", help="compute every token anew: the same text, slowly")
    add("--checkpoint", type=Path, metavar="FILE", help="checkpoint; unset: the newest of the run")
    add("--device", default="auto", help="cpu, cuda, cuda:N, mps or auto")
    add("--num-workers", type=int, metavar="N", help="threads; unset: all cores")
    return parser


def _load(options: argparse.Namespace) -> Callable[[str], Iterator[str]]:
    """Load the model of a run; return the function from a prompt to the pieces that continue it.

    Raises:
        ValueError, OSError: the run, the checkpoint or an option cannot be used.
    """
    if options.num_workers is not None:
        if options.num_workers < 1:
            raise ValueError(f"--num-workers is {options.num_workers}: it must be at least 1")
        torch.set_num_threads(options.num_workers)
    if not -(2**63) <= options.seed < 2**64:
        raise ValueError(f"--seed is {options.seed}: it must fit into 64 bits")
    run = RunDirectory(options.run)
    if not run.config.is_file():
        raise FileNotFoundError(f"--run: {run.path} is not a run directory (no {run.config.name})")
    checkpoint = options.checkpoint or run.newest_checkpoint()
    if checkpoint is None:
        raise FileNotFoundError(f"--run: there is no checkpoint in {run.checkpoints} yet")
    tokenizer = Tokenizer.from_directory(run.tokenizer)
    model = TransformerLM(load_config(run.config).model)
    try:
        load_checkpoint(checkpoint, model, None)
    except RuntimeError as error:
        raise ValueError(f"{checkpoint} does not fit the run {run.path}: {error}") from error
    model.to(choose_device(options.device))
    # One for all prompts of a session: a prompt that is asked again gets another answer.
    generator = torch.Generator().manual_seed(options.seed)
    return functools.partial(_continuation, options, tokenizer, model, generator)


def _continuation(
    options: argparse.Namespace,
    tokenizer: Tokenizer,
    model: TransformerLM,
    generator: torch.Generator,
    prompt: str,
) -> Iterator[str]:
    """Return the pieces of text that continue a prompt, each of whole characters.

    Raises:
        ValueError: the prompt or an option cannot be used; at the call.
    """
    eos_id = tokenizer.special_token_id(END_OF_TEXT)
    new_ids = generate(
        model,
        tokenizer.encode(prompt) or [eos_id],
        options.max_new_tokens,
        Sampling(
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            min_p=options.min_p,
            repetition_penalty=options.repetition_penalty,
        ),
        eos_id=eos_id,
        generator=generator,
        use_cache=not options.no_cache,
    )
    return stop_at(stream_text(tokenizer, new_ids), options.stop)


def _show(prompt: str, continuation: Iterator[str]) -> None:
    """Print a prompt and then the pieces of text, each as soon as it is there."""
    print(prompt, end="", flush=True)
    for piece in continuation:
        print(piece, end="", flush=True)
    print(flush=True)


def _converse(continuation: Callable[[str], Iterator[str]]) -> int:
    """Ask for prompts and continue each; return the exit status at the end of input.

    Ctrl-C ends a text that is being written, and the program where none is.
    """
    with contextlib.suppress(ImportError):  # Windows has none
        import readline  # noqa: F401 -- gives `input` line editing and a history
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # so that a bad byte spoils its prompt only
    if sys.stdin is None:  # closed by whoever started this
        return 0
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if on_terminal:  # elsewhere the output has the texts alone
        print("A prompt per line; Ctrl-C stops a text, Ctrl-D ends.")
    while True:
        try:
            prompt = input("> " if on_terminal else "")
        except EOFError:
            return 0
        try:
            _show(prompt, continuation(prompt))
        except KeyboardInterrupt:
            print()
        except ValueError as error:  # a prompt that the tokenizer cannot take; the next one may do
            complain_of(error)


if __name__ == "__main__":
    sys.exit(main())
