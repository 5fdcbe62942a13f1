"""A command: a dataclass with its options, and the function that does its work.

argparse divides the words of a command line among the options; the dataclass converts and checks
them. Names may be written with - or _. A field `from_` is the option `--from`.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from cs336_basics._support.arguments import MOST_THREADS
from cs336_basics._support.messages import nearest
from cs336_basics._support.validation import (
    Checked,
    Option,
    Word,
    build,
    fields_of,
    kinds_of,
    one_of,
    option,
)
from cs336_basics.commands import INVOCATION, PROGRAM
from cs336_basics.commands._cli import say
from cs336_basics.commands._inputs import STDIN, saved_stdin, say_directories

if TYPE_CHECKING:
    from cs336_basics.pretokenization import Corpus

_HELP = {"-h", "--help", "--help-all"}


class UsageError(ValueError):
    """A command line that cannot be used."""


Several = tuple[str, ...]
Format = Literal["text", "jsonl", "csv", "parquet", "arrow"]
TextErrors = Annotated[str, one_of(("replace", "strict"))]

TOKENIZER = option("directory that train-bpe wrote", metavar="DIR")
INPUT_HELP = (
    "text, JSON lines (.jsonl) or .csv, also .gz and .zst, or .parquet, .arrow; a directory or a "
    "glob such as 'data/*.txt' names several, - is standard input"
)
FIELD = option("field of JSON lines that holds the text", None, metavar="NAME")
COLUMN = option("column of CSV, Parquet, Arrow that holds the text", None, metavar="NAME")
FORMAT = option(
    "text, jsonl, csv, parquet or arrow: read the input so, whatever its name and content", None,
    metavar="NAME",
)  # fmt: skip
MAX_PIECE_BYTES = option(
    "most bytes of a row, and of text without a place to cut it", 64 << 20, rare=True, ge=1
)
ERRORS = option(
    "what to do with bytes that are not UTF-8: replace them with U+FFFD, refuse them (strict), or "
    "keep them as the tokens of these bytes (bytes, for commands that encode)",
    "replace",
    metavar="HOW",
    rare=True,
)
NUM_WORKERS = option(
    "number of threads or processes (default: all cores)", None, rare=True, ge=1, le=MOST_THREADS
)
DEVICE = option("cpu, cuda, cuda:N, mps or auto", "auto", metavar="NAME", rare=True)


@dataclass(kw_only=True)
class TextOptions(Checked):
    """Options of the commands that read text."""

    input: Several = option(INPUT_HELP)
    field: str | None = FIELD
    column: str | None = COLUMN
    format: Format | None = FORMAT
    errors: TextErrors = ERRORS
    max_piece_bytes: int = MAX_PIECE_BYTES
    num_workers: int | None = NUM_WORKERS
    overwrite: bool = option("replace outputs that exist", False)

    def corpus(self, listed: bool = True) -> Corpus:
        """Return the text that the options name, after printing what directories hold.

        Args:
            listed: whether that is printed.
        """
        from cs336_basics.pretokenization import Corpus  # help pages do not need it

        corpus = Corpus(
            [saved_stdin() if name == STDIN else name for name in self.input],
            field=self.field,
            column=self.column,
            format=self.format,
            errors=self.errors,
            max_piece_bytes=self.max_piece_bytes,
        )
        if listed:
            say_directories(self.input)
        return corpus


@dataclass(kw_only=True)
class EncodingOptions(TextOptions):
    """Options of the commands that encode text with a tokenizer."""

    tokenizer: str = TOKENIZER
    errors: Annotated[str, one_of(("replace", "strict", "bytes"))] = ERRORS


class Command:
    """A command of the package.

    Args:
        name: such as "train-bpe".
        options: the dataclass with its options; the docstring says what the command does.
        work: what it does with them; returns an exit status, or None for success.
        examples: command lines, without `python -m cs336_basics`.
    """

    switch: Mapping[str, Any] = {"action": "store_const", "const": "true"}
    """How argparse takes an option that is true or false."""

    def __init__(
        self, name: str, options: type[Any], work: Callable[[Any], int | None], *examples: str
    ) -> None:
        self.name = name
        self.options = options
        self._work = work
        self._examples = examples

    def run(self, words: Sequence[str]) -> int:
        """Do the work that a command line asks for, or print its help; return the exit status.

        Raises:
            UsageError: the command line cannot be used.
        """
        if not _HELP.isdisjoint(words):
            say(self.help_page(words))
            return 0
        return self._work(self.read(words)) or 0

    def read(self, words: Sequence[str]) -> Any:
        """Return the options on a command line.

        Raises:
            UsageError: it cannot be used; the message is one line.
        """
        given = self.given(words)
        try:
            return build(self.options, given, self.shown)
        except ValueError as error:
            raise self.usage_error(str(error)) from None

    def given(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the words of each value that a command line gives, by dotted name.

        Raises:
            UsageError: an unknown option, or one without its value.
        """
        end = words.index("--") if "--" in words else len(words)  # after it no word is an option
        written = [*map(_with_dashes, words[:end]), *words[end:]]
        try:
            found, rest = self.parser().parse_known_args(written)
        except argparse.ArgumentError as error:
            raise self.usage_error(f"{error.argument_name} {error.message}") from None
        if rest:
            word = next((word for word in rest if word.startswith("-")), rest[0])
            name = word.partition("=")[0]
            raise self.usage_error(
                f"{name} is not an option{nearest(name, map(self.shown, self.fields()))}"
            )
        return {
            name: [*map(Word, value)] if isinstance(value, list) else Word(value)
            for name, value in vars(found).items()
            if value not in (None, [])
        }

    def usage_error(self, message: str) -> UsageError:
        """Return an error about the command line, which also says where help is."""
        return UsageError(f"{message} (see '{INVOCATION} {self.name} --help')")

    def fields(self) -> dict[str, Option]:
        """Return what the command line can set, by dotted name."""
        fields = dict(fields_of(self.options))
        return dict(sorted(fields.items(), key=lambda item: not item[1].is_required))

    def shown(self, name: str) -> str:
        """Return how messages call a value: `--vocab-size`, or DATASET."""
        field = self.fields().get(name)
        if field is not None and field.positional:
            return field.metavar
        return f"--{name.rstrip('_').replace('_', '-')}"

    def is_common(self, name: str) -> bool:
        """Return whether `--help` shows an option."""
        return not self.fields()[name].rare

    def help_page(self, words: Sequence[str]) -> str:
        """Return the help page that a command line asks for."""
        return self.parser("--help-all" in words).format_help().rstrip()

    def parser(
        self, all_options: bool = True, values: Mapping[str, Any] | None = None
    ) -> argparse.ArgumentParser:
        """Return argparse's parser, which leaves all values text.

        Args:
            all_options: whether its help page shows the rare options and further examples.
            values: shown on the help page as defaults, by dotted name.
        """
        fields = self.fields()
        parser = argparse.ArgumentParser(
            prog=f"{PROGRAM} {self.name}",
            formatter_class=_Formatter,
            add_help=False,
            allow_abbrev=False,
            exit_on_error=False,
            argument_default=argparse.SUPPRESS,
        )
        groups: dict[str, Any] = {}
        num_hidden = 0
        for name, field in fields.items():
            title = name.rpartition(".")[0] or "options"
            if title not in groups:
                groups[title] = parser.add_argument_group(title)
            is_shown = all_options or self.is_common(name)
            num_hidden += not is_shown
            default = (values or {}).get(name, field.default)
            groups[title].add_argument(
                *([] if field.positional else [self.shown(name)]),
                dest=name,
                help=_help(field, default) if is_shown else argparse.SUPPRESS,
                **self._settings(field),
            )
        required = [
            " ".join([self.shown(name), self._settings(field)["metavar"]])
            for name, field in fields.items()
            if field.is_required and not field.positional
        ]
        required += [self.shown(n) for n, field in fields.items() if field.positional]
        parser.usage = " ".join([INVOCATION, self.name, *required, "[options]"])
        examples = self._examples if all_options else self._examples[:1]
        parser.description = "\n".join(
            [
                textwrap.fill(" ".join(str(self.options.__doc__).split()), 80),
                "",
                *(f"  {INVOCATION} {example}" for example in examples),
            ]
        )
        if num_hidden:
            parser.epilog = f"{num_hidden} more options: {INVOCATION} {self.name} --help-all"
        return parser

    def _settings(self, field: Option) -> dict[str, Any]:
        """Return how argparse takes the words of an option."""
        kind = [kind for kind in kinds_of(field.kind) if kind is not type(None)][-1]
        origin, args, metavar = get_origin(kind), get_args(kind), field.metavar
        if field.positional:  # that it is missing, `build` says
            return {"nargs": "*" if origin is tuple else "?", "metavar": metavar}
        if kind is bool:
            return dict(self.switch)
        if origin is Literal:
            return {"metavar": metavar or "|".join(args)}
        if origin is tuple and args[-1] is ...:
            return {"nargs": "+", "action": "extend", "metavar": metavar or "FILE"}
        if origin is tuple:
            return {"nargs": len(args), "metavar": "X"}
        return {"metavar": metavar or {int: "N", float: "X"}.get(kind, "TEXT")}


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=80)


def _with_dashes(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") else word


def _help(field: Option, default: Any) -> str:
    """Return the line of an option, with its default."""
    text = str(field.help).replace("%", "%%")
    if field.is_required:
        return f"{text} (required)"
    if default is None or default is False or default in ("", ()):
        return text
    shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
    return f"{text} (default: {'true' if default is True else shown})"
