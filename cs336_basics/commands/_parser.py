"""The options of a command: `Parser`, and the options that several commands share.

Unlike argparse's own parser, this one reports a misspelt option before anything else, with the
nearest name; raises errors instead of printing them; and has two help pages: `--help` shows
examples and the common options, `--help-all` all options. Names may be written with - or _.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import math
import os
import shlex
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cs336_basics._support.arguments import MOST_THREADS

if TYPE_CHECKING:
    from cs336_basics.pretokenization import Corpus

PROGRAM = "cs336"
"""The console script; error messages begin with it."""

INVOCATION = "python -m cs336_basics"
"""The form of a command that always works, installed or not; examples and advice use it."""

_WIDTH = 80
_HELP_COLUMN = 28
_HELP = ("-h", "--help")
_HELP_ALL = "--help-all"


class UsageError(ValueError):
    """A command line that cannot be used: a misspelt option, a missing or wrong value."""


@dataclass
class Option:
    """An option or positional argument, as the help pages and the checks need it."""

    action: argparse.Action
    name: str
    group: str
    common: bool
    required: bool
    output: bool
    takes_value: bool


class Parser:
    """The command line of one command.

    Args:
        command: its name, such as "train-bpe".
        description: what it does, in a sentence or two.
        examples: command lines, without `python -m cs336_basics`.
        interrupted: what Ctrl-C leaves behind, such as "nothing was written".
    """

    def __init__(
        self, command: str, description: str, examples: Sequence[str], interrupted: str = ""
    ) -> None:
        self.command = command
        self.name = f"{PROGRAM} {command}"
        self.interrupted = interrupted
        self.options: dict[str, Option] = {}
        self._description = description
        self._examples = examples
        self._outputs: list[str] = []
        self._argparse = argparse.ArgumentParser(
            prog=self.name, add_help=False, allow_abbrev=False, exit_on_error=False
        )

    def add(
        self,
        name: str,
        help: str,
        *,
        group: str = "options",
        common: bool = True,
        required: bool = False,
        output: bool = False,
        **settings: Any,
    ) -> None:
        """Add an option ("--vocab-size") or a positional argument ("dataset").

        Args:
            name: without "--" it is a positional argument.
            help: one line for the help page; the default is added to it.
            group: title of the section of the help page.
            common: whether `--help` shows it, too.
            required: whether the command cannot do without it.
            output: whether its value is a path that the command writes.
            settings: as `argparse.ArgumentParser.add_argument` takes them.
        """
        is_positional = not name.startswith("--")
        # Required arguments are checked here: argparse would report a missing one first, where a
        # misspelt one explains it.
        if is_positional:
            settings.setdefault("nargs", "?")
        if settings.get("type") is int:
            settings["type"] = integer()
        elif settings.get("type") is float:
            settings["type"] = number
        if "choices" in settings:
            settings["type"] = choice(settings.pop("choices"))
        action = self._argparse.add_argument(name, help=help, **settings)
        takes_value = action.nargs != 0 and not is_positional
        self.options[name] = Option(action, name, group, common, required, output, takes_value)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the options on a command line.

        Raises:
            UsageError: it cannot be used; the message is one line.
        """
        words = self._normalized(words)
        self._refuse_unknown(words)
        try:
            found, rest = self._argparse.parse_known_args(words)
        except argparse.ArgumentError as error:
            raise self.usage_error(f"{error.argument_name} {error.message}") from None
        if rest and rest[0] == "--":
            rest = rest[1:]
        if rest:
            near = f": did you mean --{rest[0]}?" if f"--{rest[0]}" in self.options else ""
            raise self.usage_error(f"unexpected argument {rest[0]!r}{near}")
        missing = [
            _shown(option)
            for option in self.options.values()
            if option.required and getattr(found, option.action.dest) in (None, [], "")
        ]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            raise self.usage_error(f"{_listed(missing, 'and')} {verb} required")
        outputs = (
            getattr(found, option.action.dest) for option in self.options.values() if option.output
        )
        self._outputs = [os.fspath(output) for output in outputs if output is not None]
        return found

    def usage_error(self, message: str) -> UsageError:
        """Return an error about the command line, which also says where help is."""
        return UsageError(f"{message} (see '{INVOCATION} {self.command} --help')")

    def _normalized(self, words: Sequence[str]) -> list[str]:
        """Return the words with - instead of _ in the names of options."""
        normal: list[str] = []
        for index, word in enumerate(words):
            if word == "--":
                return [*normal, *words[index:]]
            if word.startswith("--"):
                name, equals, value = word.partition("=")
                word = name.replace("_", "-") + equals + value
            normal.append(word)
        return normal

    def _refuse_unknown(self, words: Sequence[str]) -> None:
        """Refuse a word that looks like an option and is not one.

        Raises:
            UsageError: naming the nearest option.
        """
        before = ""
        for word in words:
            if word == "--":
                return
            name = word.partition("=")[0]
            if _looks_like_option(word) and name not in self.options:
                near = self._nearest(name)
                hint = f": did you mean {_listed(near, 'or')}?" if near else ""
                if not near and before in self.options and self.options[before].takes_value:
                    hint = f"; as the value of {before}, write {before}={shlex.quote(word)}"
                raise self.usage_error(f"unrecognized option {name}{hint}")
            before = word

    def _nearest(self, name: str) -> list[str]:
        """Return the options that a misspelt name may mean."""
        known = [option for option in self.options if option.startswith("--")]
        # The name is often given without its section (--d-model for --model.d-model), or in short
        # (--learning-rate for --schedule.max-learning-rate).
        asked = name.lstrip("-").split(".")[-1]
        last = {option: option.lstrip("-").split(".")[-1] for option in known}
        near = [option for option in known if last[option] == asked]
        if not near:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        if not near and len(asked) > 3:
            near = [option for option in known if asked in last[option]][:3]
        return near or difflib.get_close_matches(name, known, n=1)

    # Errors, in terms of the options.

    def output_at(self, path: str) -> str | None:
        """Return the output that a path is, is inside of, or is a parent of; else None."""
        whole = os.path.abspath(path)
        folder, name = os.path.split(whole)
        for output in self._outputs:
            inside = os.path.abspath(output)
            if os.path.commonpath([whole, inside]) in (whole, inside):
                return output
            # The temporary file that becomes the output.
            if folder == os.path.dirname(inside) and name.startswith(
                f".{os.path.basename(inside)}."
            ):
                return output
        return None

    def in_own_terms(self, message: str) -> str:
        """Return a message of the library with options instead of arguments.

        The library's messages begin with the argument that is wrong, `vocab_size is 100: ...`, and
        advise in keyword arguments, `errors="replace"`: --vocab-size and --errors replace.
        """
        by_argument = {
            option.action.dest: option
            for option in self.options.values()
            if option.name.startswith("--")
        }
        subject, _, rest = message.partition(" ")
        # A name of several words does not read as English; the others are subjects of "is".
        if subject in by_argument and (rest.startswith("is ") or not subject.isalnum()):
            message = f"{by_argument[subject].name} {rest}"
        words: list[str] = []
        for word in message.split(" "):
            core = word.strip("().,;:")
            if word == f"({core})" and words and core == words[-1]:
                continue  # of `overwrite=True (--overwrite)`
            name, equals, value = core.partition("=")
            if equals and name in by_argument:
                option = by_argument[name]
                word = word.replace(core, f"{option.name}{_option_value(option, value)}")
            words.append(word)
        return " ".join(words)

    # Help pages.

    def requested_help(self, words: Sequence[str]) -> str | None:
        """Return the help page that a command line asks for, or None."""
        if not asks_for_help(words):
            return None
        return self.format_help(all_options=_HELP_ALL in words)

    def format_help(self, all_options: bool = False) -> str:
        """Return a help page: usage, examples, and the common options or all of them."""
        shown = [option for option in self.options.values() if option.common or all_options]
        lines = [*self._usage(), "", *textwrap.wrap(self._description, _WIDTH), "", "examples:"]
        for example in self._examples:
            lines += _wrap_command(example)
        groups = dict.fromkeys(option.group for option in shown)
        for group in groups:
            lines += ["", f"{group}:"]
            for option in shown:
                if option.group == group:
                    lines += _row(_shown(option), self.help_of(option))
        hidden = len(self.options) - len(shown)
        if hidden:
            more = "1 more option" if hidden == 1 else f"{hidden} more options"
            lines += ["", f"{more}: {INVOCATION} {self.command} {_HELP_ALL}"]
        return "\n".join(lines)

    def _usage(self) -> list[str]:
        words = [_shown(option) for option in self.options.values() if option.required]
        # A no-break space keeps an option and its value on one line.
        together = [word.replace(" ", "\xa0") for word in [*words, "[options]"]]
        text = f"usage: {INVOCATION} {self.command} {' '.join(together)}"
        lines = textwrap.wrap(text, _WIDTH, subsequent_indent="    ")
        return [line.replace("\xa0", " ") for line in lines]

    def help_of(self, option: Option) -> str:
        """Return the line of an option, with its default."""
        text = option.action.help or ""
        default = option.action.default
        if option.required:
            return f"{text} (required)"
        if default is None or default is False or default in ("", []):
            return text
        return f"{text} (default: {default})"


def add_tokenizer(parser: Parser) -> None:
    """Add --tokenizer, a directory."""
    parser.add("--tokenizer", "directory that train-bpe wrote", required=True, metavar="DIR")


def add_input(parser: Parser, **settings: Any) -> None:
    """Add --input, files of text; repeated, it names further ones."""
    parser.add(
        "--input",
        "text or JSON lines (.jsonl), also .gz and .zst, or .parquet, .arrow; a glob such as "
        "'data/*.txt' names several",
        nargs="+",
        action="extend",
        metavar="FILE",
        **settings,
    )


def corpus_of(options: argparse.Namespace) -> Corpus:
    """Return the corpus that --input and the options of `add_text_options` name."""
    from cs336_basics.pretokenization import Corpus  # help pages do not need it

    return Corpus(options.input, field=options.field, column=options.column, errors=options.errors)


def add_text_options(
    parser: Parser, group: str = "options", errors: Sequence[str] = ("replace", "strict")
) -> None:
    """Add what says which text the input files hold: --field, --column, --errors.

    `errors` has the values of --errors.
    """
    exactly = ", or keep them as the tokens of these bytes" if "bytes" in errors else ""
    parser.add("--field", "field of JSON lines that holds the text", group=group, metavar="NAME")
    parser.add(
        "--column",
        "column of Parquet and Arrow files that holds the text",
        group=group,
        metavar="NAME",
    )
    parser.add(
        "--errors",
        "replace bytes that are not UTF-8 with U+FFFD, or refuse them"
        f"{exactly}: {', '.join(errors)}",
        group=group,
        choices=errors,
        default="replace",
        metavar="HOW",
    )


def add_num_workers(parser: Parser, what: str = "threads or processes", **settings: Any) -> None:
    """Add --num-workers."""
    parser.add(
        "--num-workers",
        f"number of {what} (default: all cores)",
        type=integer(at_least=1, at_most=MOST_THREADS),
        metavar="N",
        **settings,
    )


def add_overwrite(parser: Parser, what: str, **settings: Any) -> None:
    """Add --overwrite."""
    parser.add("--overwrite", f"replace {what}", action="store_true", **settings)


def add_format(parser: Parser) -> None:
    """Add --format, of what a command prints."""
    parser.add(
        "--format", "table or json", choices=("table", "json"), default="table", metavar="NAME"
    )


def add_device(parser: Parser, **settings: Any) -> None:
    """Add --device."""
    parser.add(
        "--device", "cpu, cuda, cuda:N, mps or auto", default="auto", metavar="NAME", **settings
    )


# Types of values. Their messages follow the name of the option.


def integer(at_least: int | None = None, at_most: int | None = None) -> Callable[[str], int]:
    """Return the function that reads an integer between two limits."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"is {text!r}: it must be an integer") from None
        if at_least is not None and value < at_least:
            raise argparse.ArgumentTypeError(f"is {value}: it must be at least {at_least}")
        if at_most is not None and value > at_most:
            raise argparse.ArgumentTypeError(f"is {value}: it must be at most {at_most}")
        return value

    return read


def number(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"is {text!r}: it must be a number") from None


def positive(text: str) -> float:
    """Read a finite number above 0."""
    value = number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"is {value}: it must be a finite number above 0")
    return value


def choice(names: Iterable[str]) -> Callable[[str], str]:
    """Return the function that reads one of some names."""
    known = list(names)

    def read(text: str) -> str:
        if text in known:
            return text
        near = difflib.get_close_matches(text, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it must be {_listed(known, 'or')}"
        raise argparse.ArgumentTypeError(f"is {text!r}: {hint}")

    return read


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether a command line asks for a help page."""
    return not {*_HELP, _HELP_ALL}.isdisjoint(words)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `: did you mean NAME?` with the known name that is nearest, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {near[0]}?" if near else ""


def _looks_like_option(word: str) -> bool:
    """Return whether argparse takes a word for an option rather than a value."""
    if len(word) < 2 or word[0] != "-" or " " in word.partition("=")[0]:
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False


def _option_value(option: Option, text: str) -> str:
    """Return the value of a keyword argument as it follows an option."""
    if not option.takes_value:
        return ""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return f" {text}"
    return f" {option.action.metavar or 'VALUE'}" if value is ... else f" {shlex.quote(str(value))}"


def _shown(option: Option) -> str:
    """Return an option with what it takes: `--input FILE ...`."""
    metavar = option.action.metavar
    if not option.takes_value and option.name.startswith("--"):
        return option.name
    value = str(metavar or option.action.dest.upper())
    if option.action.nargs in ("+", "*"):
        value += " ..."
    return f"{option.name} {value}" if option.name.startswith("--") else value


def _listed(words: Sequence[str], conjunction: str) -> str:
    """Return `a, b and c`."""
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def _row(left: str, text: str) -> list[str]:
    """Return an option and its help as lines of a help page."""
    lines = textwrap.wrap(text, _WIDTH - _HELP_COLUMN) or [""]
    indent = " " * _HELP_COLUMN
    if len(left) + 4 > _HELP_COLUMN:
        return [f"  {left}", *(indent + line for line in lines)]
    first = f"  {left}".ljust(_HELP_COLUMN) + lines[0]
    return [first.rstrip(), *(indent + line for line in lines[1:])]


def _wrap_command(example: str) -> list[str]:
    """Return a command line as lines that a shell takes, broken before options."""
    first, *options = example.split(" --")
    lines = [f"  {INVOCATION} {first}"]
    for option in options:
        if len(lines[-1]) + len(option) + 5 > _WIDTH:
            lines[-1] += " \\"
            lines.append(f"      --{option}")
        else:
            lines[-1] += f" --{option}"
    return lines
