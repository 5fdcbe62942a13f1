"""Command-line parsing. A command has a dataclass of options and a function that receives them.

argparse splits the command line, and the dataclass converts and checks the values. Option names may
use - or _. A field named `from_` becomes the `--from` option.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from cs336_basics._support.arguments import MOST_THREADS
from cs336_basics._support.errors import Argument, InputError, Text
from cs336_basics._support.messages import nearest
from cs336_basics._support.text import END_OF_TEXT
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
from cs336_basics.commands import INVOCATION, PROGRAM, find_command
from cs336_basics.commands._cli import say
from cs336_basics.commands._inputs import STDIN, saved_stdin, say_directories

if TYPE_CHECKING:
    from cs336_basics.text import Corpus

_HELP = {"-h", "--help", "--help-all"}


_OTHER_COMMAND = {"document_starts": "encode"}
"""The command to run again with an argument that messages of other commands mention."""


class UsageError(InputError):
    """An invalid command line."""


Several = tuple[str, ...]
Format = Literal["text", "jsonl", "csv", "parquet", "arrow"]
TextErrors = Annotated[str, one_of(("replace", "strict"))]

TOKENIZER = option("tokenizer directory", metavar="DIR")
INPUT_HELP = (
    "text, JSON Lines (.jsonl) or CSV, optionally .gz or .zst, or Parquet or Arrow; a file, a "
    "directory, a glob such as 'data/*.txt', or - for standard input"
)
CORPORA_HELP = f"{INPUT_HELP}; each input is a corpus"
FIELD = option("JSON Lines field that contains the text", None, metavar="NAME")
COLUMN = option("CSV, Parquet or Arrow column that contains the text", None, metavar="NAME")
FORMAT = option(
    "text, jsonl, csv, parquet or arrow (default: detected from name and content)", None,
    metavar="NAME",
)  # fmt: skip
MAX_PIECE_BYTES = option(
    "maximum size in bytes of a row, or of text without a split point", 64 << 20, rare=True, ge=1
)
ERRORS = option(
    "how to handle invalid UTF-8: replace (with U+FFFD), strict (fail), or bytes (encode each "
    "invalid byte as its own token; only for commands that encode)",
    "replace",
    metavar="HOW",
    rare=True,
)
NUM_WORKERS = option(
    "number of threads or processes (default: all cores)", None, rare=True, ge=1, le=MOST_THREADS
)
CHECKPOINT = option(
    "checkpoint of the run to load: last, best (lowest validation loss), a step, or a path "
    "(default: last)",
    None,
    metavar="CHECKPOINT",
)
DATA_DIR = option("data directory (default: $CS336_DATA, or data)", None, metavar="DIR")
OVERWRITE = option("replace existing output", False)
DEVICE = option("device: cpu, cuda, cuda:N, mps or auto", "auto", metavar="NAME", rare=True)


@dataclass(kw_only=True)
class TextOptions(Checked):
    """Options for commands that read text."""

    input: Several = option(INPUT_HELP, argument="paths")
    field: str | None = FIELD
    column: str | None = COLUMN
    format: Format | None = FORMAT
    errors: TextErrors = ERRORS
    max_piece_bytes: int = MAX_PIECE_BYTES
    num_workers: int | None = NUM_WORKERS
    overwrite: bool = OVERWRITE

    def corpus(self, listed: bool = True) -> Corpus:
        """Open the input as a Corpus.

        Args:
            listed: Whether to print the files of input directories.
        """
        from cs336_basics.text import Corpus  # help pages do not need it

        corpus = Corpus(
            [saved_stdin() if name == STDIN else name for name in self.input],
            field=self.field,
            column=self.column,
            format=self.format,
            errors=self.errors,
            max_piece_bytes=self.max_piece_bytes,
        )
        if listed:
            say_directories(self.input, self.format, self.field)
        return corpus


@dataclass(kw_only=True)
class EncodingOptions(TextOptions):
    """Options for commands that encode text."""

    tokenizer: str = TOKENIZER
    errors: Annotated[str, one_of(("replace", "strict", "bytes"))] = ERRORS


TOKENIZERS_HELP = (
    "tokenizer directory, tiktoken encoding, or Hugging Face tokenizer (a tokenizer.json file, or "
    "the directory that contains it)"
)


@dataclass(kw_only=True)
class SeveralTexts(Checked):
    """Options for commands that read several texts, each on its own."""

    input: Several = option(CORPORA_HELP, argument="paths")
    field: str | None = FIELD
    column: str | None = COLUMN
    input_format: Format | None = option(
        "format of the input (default: detected from name and content)",
        None,
        argument="format",
        rare=True,
    )
    errors: TextErrors = ERRORS

    def corpora(
        self, listed: bool = True, names: Sequence[str] | None = None
    ) -> list[tuple[str, Corpus]]:
        """Return the name and the corpus of each input.

        Args:
            listed: Whether to print the files of input directories.
            names: The inputs, if not all are text.
        """
        names = self.input if names is None else names
        from cs336_basics.text import Corpus
        from cs336_basics.text.sources import check_options_are_used

        given: dict[str, Any] = {"field": self.field, "column": self.column}
        say_directories(names if listed else (), self.input_format, self.field)
        files = [saved_stdin() if name == STDIN else name for name in names]
        how: dict[str, Any] = {"errors": self.errors, "format": self.input_format, **given}
        corpora = [Corpus(file, allow_unused=True, **how) for file in files]
        sources = [source for corpus in corpora for source in corpus.sources]
        check_options_are_used(sources, **given)
        return list(zip(names, corpora, strict=True))


@dataclass(kw_only=True)
class CorporaOptions(SeveralTexts):
    """Options for commands that compare tokenizers on several corpora."""

    separator: str = option("separator between documents in plain text", END_OF_TEXT, rare=True)


class Command:
    """A command: its options, its help page, and the function that does the work.

    Args:
        name: Name on the command line, such as "train-bpe".
        options: Dataclass of the options. Its docstring is the description on the help page.
        work: Function that runs the command and returns an exit status, or None for success.
        examples: Example command lines, without `python -m cs336_basics`.
        uses_torch: Whether the function may import torch.
    """

    switch: Mapping[str, Any] = {"action": "store_const", "const": "true"}
    """Arguments of `add_argument` for Boolean options."""

    def __init__(
        self,
        name: str,
        options: type[Any],
        work: Callable[[Any], int | None],
        *examples: str,
        uses_torch: bool = False,
    ) -> None:
        self.name = name
        self.options = options
        self._work = work
        self._examples = examples
        self._uses_torch = uses_torch

    @property
    def program(self) -> str:
        """Start of the command's messages, such as "cs336 train-bpe"."""
        return f"{PROGRAM} {self.name}"

    def run(self, words: Sequence[str]) -> int:
        """Run a command line, or print the help page, and return the exit status.

        Raises:
            UsageError: If the command line is invalid.
        """
        if not _HELP.isdisjoint(words):
            say(self.help_page(words))
            return 0
        parsed = self.read(words)
        if self._uses_torch:
            # torch ignores Ctrl-C while it imports NumPy, and goes on with a part of NumPy.
            import numpy  # noqa: F401
        return self._work(parsed) or 0

    def read(self, words: Sequence[str]) -> Any:
        """Parse and check a command line.

        Raises:
            UsageError: If the command line is invalid. The message is one line.
        """
        given = self.given(words)
        try:
            return build(self.options, given)
        except InputError as error:
            raise self.usage_error(error.problem, error.argument, error.remedy) from None

    def given(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the unconverted words of each option on a command line, by dotted name.

        Raises:
            UsageError: If an option is unknown or its value is missing.
        """
        end = words.index("--") if "--" in words else len(words)  # options end at --
        written = [*map(_with_dashes, words[:end]), *words[end:]]
        try:
            found, rest = self.parser().parse_known_args(written)
        except argparse.ArgumentError as error:
            message = f"{error.argument_name} {error.message}"
            if f"{error.argument_name} -" in " ".join(written):
                message += f"; for a value that starts with -, write {error.argument_name}=VALUE"
            raise self.usage_error(message) from None
        if rest:
            word = next((word for word in rest if word.startswith("-")), None)
            if word is None:
                raise self.usage_error(
                    f"unexpected argument {rest[0]!r}; write the name of its option before it, "
                    "or quotes around a value with spaces"
                )
            name = word.partition("=")[0]
            raise self.usage_error(
                f"unknown option {name!r}{nearest(name, map(self.shown, self.fields()))}"
            )
        given: dict[str, Any] = {}
        for name, value in vars(found).items():
            if value in (None, []):
                continue
            metavar = self._settings(self.fields()[name]).get("metavar") or ""
            values = value if isinstance(value, list) else [value]
            # A tokenizer's NAME may be a path.
            if name == "tokenizer" or re.search("DIR|FILE|PATH|RUN|CHECKPOINT", metavar):
                values = self._checked_paths(name, values, is_directory=metavar.endswith("DIR"))
            words_given = [*map(Word, values)]
            given[name] = words_given if isinstance(value, list) else words_given[0]
        return given

    def _checked_paths(self, name: str, paths: list[str], *, is_directory: bool) -> list[str]:
        """Return the paths given for an option, with the home directory in place of `~`.

        Raises:
            UsageError: If a path is empty, or - where a directory is needed.
        """
        if "" in paths:  # it would be taken for the current directory
            raise self.usage_error("must be a path, got ''", name)
        if STDIN in paths and is_directory:
            raise self.usage_error("must be a directory, got '-'", name, "write ./-")
        # A shell expands `--output ~/a`, but not `--output=~/a`.
        return [os.path.expanduser(path) for path in paths]

    def usage_error(
        self, problem: Text, argument: str | None = None, remedy: Text = ""
    ) -> UsageError:
        """Return a UsageError that also refers to the help page."""
        page = f"see '{INVOCATION} {self.name} --help'"
        parts = (remedy,) if isinstance(remedy, str) else remedy
        return UsageError(
            problem, argument=argument, remedy=(*parts, "; ", page) if remedy else page
        )

    def fields(self) -> dict[str, Option]:
        """Return the options by dotted name, with required options first."""
        fields = dict(fields_of(self.options))
        return dict(sorted(fields.items(), key=lambda item: not item[1].is_required))

    def shown(self, name: str) -> str:
        """Return the name that messages show for an option, such as `--vocab-size` or DATASET."""
        field = self.fields().get(name)
        if field is not None and field.positional:
            return field.metavar
        return _flag(name)

    def written(self, argument: Argument) -> str:
        """Return an argument of the library as this command line writes it.

        `overwrite=True` becomes `--overwrite`, and `errors="replace"` becomes `--errors replace`.
        A value to pass to another command becomes, for example, `--document-starts of encode`.
        Other arguments stay as they are in Python.
        """
        if argument.value in (None, False):
            return str(argument)
        text = self._as_option(argument)
        if text is None and argument.value is not ... and argument.name in _OTHER_COMMAND:
            other = _OTHER_COMMAND[argument.name]
            text = f"{find_command(other)._as_option(argument)} of {other}"
        return str(argument) if text is None else text

    def _as_option(self, argument: Argument) -> str | None:
        """Return an argument as an option of this command, or None if no option sets it."""
        name, value = argument
        option = self._option_that_sets(name)
        if option is None or value is ... or value is True:
            return None if option is None else self.shown(option)
        values = value if isinstance(value, (list, tuple)) else [value]
        return shlex.join([self.shown(option), *map(str, values)])

    def _option_that_sets(self, argument: str) -> str | None:
        """Return the dotted name of the option that sets an argument of the library."""
        fields = self.fields()
        for names in (
            [name for name, field in fields.items() if field.argument == argument],
            [name for name in fields if name.rstrip("_") == argument.rstrip("_")],
            [name for name in fields if name.rpartition(".")[2] == argument],
        ):
            if len(names) == 1:
                return names[0]
        return None

    def help_page(self, words: Sequence[str]) -> str:
        """Return the help page for a command line."""
        return self.parser("--help-all" in words).format_help().rstrip()

    def parser(
        self, all_options: bool = True, values: Mapping[str, Any] | None = None
    ) -> argparse.ArgumentParser:
        """Return a parser that keeps all values as text.

        Args:
            all_options: Whether the help page shows the rare options and all examples.
            values: Defaults to show on the help page, by dotted name.
        """
        fields = self.fields()
        parser = argparse.ArgumentParser(
            prog=self.program,
            formatter_class=functools.partial(
                argparse.RawDescriptionHelpFormatter, max_help_position=28, width=80
            ),
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
            is_shown = all_options or not field.rare
            num_hidden += not is_shown
            default = (values or {}).get(name, field.default)
            groups[title].add_argument(
                *([] if field.positional else [_flag(name)]),
                dest=name,
                help=_help(field, default) if is_shown else argparse.SUPPRESS,
                **self._settings(field),
            )
        usage = [INVOCATION, self.name]
        for name, field in fields.items():
            if field.positional:
                usage.append(field.metavar if field.is_required else f"[{field.metavar}]")
            elif field.is_required:
                usage.append(f"{_flag(name)} {self._settings(field)['metavar']}")
        parser.usage = " ".join([*usage, "[options]"])
        examples = self._examples if all_options else self._examples[:1]
        # Without docstrings (python -OO), a dataclass documents itself with its signature.
        text = str(self.options.__doc__) if sys.flags.optimize < 2 else ""
        parser.description = "\n".join(
            [
                textwrap.fill(" ".join(text.split()), 80),
                "",
                *(f"  {INVOCATION} {example}" for example in examples),
            ]
        )
        if num_hidden:
            parser.epilog = f"{num_hidden} more options: {INVOCATION} {self.name} --help-all"
        return parser

    def _settings(self, field: Option) -> dict[str, Any]:
        """Return the arguments of `add_argument` for an option."""
        kind = [kind for kind in kinds_of(field.kind) if kind is not type(None)][-1]
        origin, args, metavar = get_origin(kind), get_args(kind), field.metavar
        if field.positional:  # `build` reports a missing value
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


def _flag(name: str) -> str:
    """Return the name that an option has on the command line if it is not positional."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def _with_dashes(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") else word


def _help(field: Option, default: Any) -> str:
    """Return the help text of an option, with its default."""
    text = str(field.help).replace("%", "%%")
    if field.is_required:
        return f"{text} (required)"
    if default is None or default is False or default in ("", ()):
        return text
    shown = " ".join(map(str, default)) if isinstance(default, (tuple, list)) else default
    return f"{text} (default: {'true' if default is True else shown})"
