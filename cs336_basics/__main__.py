"""Run `python -m cs336_basics COMMAND` or `cs336 COMMAND`. Without COMMAND, list all commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cs336_basics import __version__
from cs336_basics._support.errors import InputError
from cs336_basics.commands import COMMANDS, INVOCATION, PROGRAM, find_command
from cs336_basics.commands._cli import guarded, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    Args:
        arguments: The command and its options. Defaults to `sys.argv[1:]`.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    command = words[0].replace("_", "-") if words else "--help"
    if command in COMMANDS:
        return guarded(
            f"{PROGRAM} {command}",
            lambda: find_command(command).run(words[1:]),
            lambda argument: find_command(command).written(argument),
        )
    return guarded(PROGRAM, lambda: _answer(command))


def _answer(word: str) -> int:
    """Handle a command line whose first word is not a command.

    Raises:
        ValueError: If the word is not a known option either.
    """
    if word in ("-h", "--help"):
        say(list_of_commands())
    elif word == "--version":
        say(f"{PROGRAM} {__version__} ({_build()})")
    else:
        from cs336_basics._support.messages import nearest

        raise InputError(f"unknown command {word!r}{nearest(word, COMMANDS)}")
    return 0


def _build() -> str:
    """Describe the build for `--version`. Without the extensions, everything works, but slowly."""
    from cs336_basics.bpe import TRAINERS

    if all(trainer.is_built for trainer in TRAINERS.values()):
        return "compiled"
    return "pure Python: the extensions are not built, so training and encoding are slow"


def list_of_commands() -> str:
    """Return the help page that lists all commands."""
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            f"usage: {INVOCATION} COMMAND [options]",
            "",
            "Raw text in, a trained language model out. The commands, in order of use:",
            "",
            *(f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()),
            "",
            f"Options of a command: {INVOCATION} help COMMAND, or COMMAND --help",
            f"Version: {INVOCATION} --version",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
