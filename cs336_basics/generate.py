"""`python -m cs336_basics.generate`: text from a trained run, shown as it is written."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see train.py

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from cs336_basics.generation import generate
from cs336_basics.model import TransformerLM
from cs336_basics.tokenizer import StreamingDecoder, Tokenizer
from cs336_basics.training.checkpoint import load_checkpoint
from cs336_basics.training.config import load_config
from cs336_basics.training.run_dir import RunDirectory
from cs336_basics.training.trainer import END_OF_TEXT, choose_device


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 2 for what cannot be used, 130 for Ctrl-C."""
    options = build_parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a model may write what the terminal cannot show
    try:
        for piece in _stream(options):
            print(piece, end="", flush=True)
        print()
    except KeyboardInterrupt:
        print()
        return 130
    except BrokenPipeError:  # `generate ... | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m cs336_basics.generate",
        description="Let a trained model continue a text.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--run", type=Path, required=True, metavar="DIR", help="run directory of the training")
    add("--prompt", default="", help="how the text begins; empty: at the start of a document")
    add("--max-new-tokens", type=int, default=256, metavar="N", help="most tokens to write")
    add("--temperature", type=float, default=0.8, metavar="T", help="0 is greedy")
    add("--top-p", type=float, default=0.95, metavar="P", help="size of the nucleus; 1: everything")
    add("--seed", type=int, default=0, metavar="S", help="the same seed gives the same text")
    add("--checkpoint", type=Path, metavar="FILE", help="checkpoint; unset: the newest of the run")
    add("--device", default="auto", help="cpu, cuda, cuda:N, mps or auto")
    add("--num-workers", type=int, metavar="N", help="threads; unset: all cores")
    return parser


def _stream(options: argparse.Namespace) -> Iterator[str]:
    """Yield the prompt and then pieces of text, each of whole characters.

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

    eos_id = tokenizer.special_token_id(END_OF_TEXT)
    new_ids = generate(
        model,
        tokenizer.encode(options.prompt) or [eos_id],
        options.max_new_tokens,
        temperature=options.temperature,
        top_p=options.top_p,
        eos_id=eos_id,
        generator=torch.Generator().manual_seed(options.seed),
    )
    yield options.prompt
    decoder = StreamingDecoder(tokenizer)
    for token_id in new_ids:
        yield decoder.push(token_id)
    yield decoder.finish()


if __name__ == "__main__":
    sys.exit(main())
