"""`python -m cs336_basics completion`: print a shell completion script, made by shtab."""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass
from typing import Literal

from cs336_basics._support.validation import Checked, option
from cs336_basics.commands import COMMANDS, PROGRAM
from cs336_basics.commands._cli import show
from cs336_basics.commands._options import Command


@dataclass(kw_only=True)
class Options(Checked):
    """Print a shell script that completes the commands and options of cs336."""

    shell: Literal["bash", "zsh", "tcsh"] = option(
        "bash, zsh or tcsh", metavar="SHELL", positional=True
    )


def complete(options: Options) -> None:
    """Print the script."""
    import shtab

    whole = argparse.ArgumentParser(prog=PROGRAM, add_help=False)
    commands = whole.add_subparsers()
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"cs336_basics.commands.{name.replace('-', '_')}")
        parser = module.COMMAND.parser()
        commands.add_parser(name, help=summary, add_help=False, parents=[parser])
    asked = commands.add_parser("help", help="show the options of a command", add_help=False)
    asked.add_argument("command", nargs="?", choices=list(COMMANDS))
    show(shtab.complete(whole, options.shell))


COMMAND = Command("completion", Options, complete, "completion bash > ~/.cs336-completion")
