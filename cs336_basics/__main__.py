"""`python -m cs336_basics COMMAND`, or `cs336 COMMAND`; alone, it lists the commands."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from cs336_basics import __version__
from cs336_basics.commands import COMMANDS
from cs336_basics.commands._cli import complain, guarded, say
from cs336_basics.commands._parser import INVOCATION, PROGRAM, suggest


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(PROGRAM, lambda: _dispatch(words))


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        say(list_of_commands())
        return 0
    if words[0] == "--version":
        say(f"{PROGRAM} {__version__} ({_build()})")
        return 0
    name = words[0].replace("_", "-")
    if name not in COMMANDS:
        kind = "option" if name.startswith("-") else "command"
        hint = suggest(name, COMMANDS) or f" (see '{INVOCATION} --help')"
        complain(f"{PROGRAM}: error: unrecognized {kind} {words[0]!r}{hint}")
        return 2
    module = importlib.import_module(f"cs336_basics.commands.{name.replace('-', '_')}")
    return int(module.main(words[1:]))


def _build() -> str:
    """Return whether the extensions are built; without them everything works, but slowly."""
    from cs336_basics.bpe import TRAINERS
    from cs336_basics.bpe.unbuilt import is_built

    if all(map(is_built, TRAINERS.values())):
        return "compiled"
    return "pure Python: the extensions are not built, and training and encoding are slow"


def list_of_commands() -> str:
    """Return the commands, each with a line that says what it does."""
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            f"usage: {INVOCATION} COMMAND [options]",
            "",
            "Raw text in, a trained language model out. The commands, in the order of use:",
            "",
            *(f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()),
            "",
            f"Options of a command: {INVOCATION} COMMAND --help",
            f"Version: {INVOCATION} --version",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
