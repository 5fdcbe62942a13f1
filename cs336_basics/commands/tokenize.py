"""`python -m cs336_basics tokenize`: show the tokens of a text in a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cs336_basics._support.errors import InputError, MissingFileError
from cs336_basics._support.messages import counted, short_repr
from cs336_basics._support.validation import Checked, option
from cs336_basics._support.visible import code_points
from cs336_basics.commands._cli import say, show
from cs336_basics.commands._inputs import STDIN
from cs336_basics.commands._options import TOKENIZER, Command, Several

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer

_BLOCK = 1 << 16  # bytes
_MOST_PARTS = 1_000_000
"""Maximum number of bytes of a file whose parts are printed."""
_RESET = "\x1b[0m"
# Light backgrounds, under characters that are black, gray (blanks) or dark red (bytes, codes).
_BACKGROUNDS = [f"\x1b[48;5;{color}m" for color in (153, 222, 157, 218, 189)]
_FOREGROUNDS = {"text": "\x1b[38;5;16m", "blank": "\x1b[38;5;240m"}
_OTHER_FOREGROUND = "\x1b[38;5;88m"
_SPECIAL = "\x1b[1;38;5;231;48;5;54m"


@dataclass(kw_only=True)
class Options(Checked):
    """Show the tokens of a text on alternating backgrounds.

    Spaces are shown as ·, tabs as →, line endings as ↵, bytes that are not a complete character as
    <e7>, and invisible characters as <U+200B>.
    """

    tokenizer: str = TOKENIZER
    file: Several = option(
        "text files, or - for standard input (the default)", (), metavar="FILE", positional=True
    )
    ids: bool = option("print the id and text of each token, one token per line", False)
    count: bool = option("count lines, words, bytes and tokens, in the style of wc", False)
    merges: str | None = option(
        "print the merges that produce the tokens of a word", None, metavar="WORD"
    )
    parts: bool = option("print what each part of the tokenizer does to the text, and where", False)
    color: Literal["auto", "always", "never"] = option(
        "auto: in a terminal, unless the NO_COLOR environment variable is set", "auto"
    )

    def __post_init__(self) -> None:
        """Check that at most one task was given."""
        super().__post_init__()
        if self.ids + self.count + self.parts + (self.merges is not None) > 1:
            raise InputError(
                "--ids, --count, --parts and --merges are mutually exclusive", remedy="pass one"
            )
        if self.merges is not None and self.file:
            raise InputError(
                f"takes no FILE, got {short_repr(self.file[0])}",
                argument="merges",
                remedy="quote the word",
            )


def tokenize(options: Options) -> None:
    """Print the tokens, the counts, the parts or the merges."""
    from cs336_basics.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_directory(options.tokenizer)
    files = options.file or (STDIN,)
    painter = _Painter(tokenizer, _has_colors(options.color))
    if options.merges is not None:
        _print_merges(painter, options.merges)
    elif options.count:
        _print_counts(tokenizer, files)
    elif options.parts:
        _print_parts(painter, files)
    elif options.ids:
        for ids in _encoded(tokenizer, files):
            lines = (f"{token_id:>7}  {painter.paint(token_id)}\n" for token_id in ids)
            show("".join(lines), is_safe=True)
    else:
        _print_text(painter, files)


def _has_colors(color: str) -> bool:
    if color == "auto":
        is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return sys.stdout.isatty() and not is_plain
    return color == "always"


def _blocks(name: str) -> Iterator[bytes]:
    if name == STDIN:
        stdin: Any = sys.stdin.buffer
        yield from iter(lambda: stdin.read1(_BLOCK), b"")
        return
    try:
        file = open(name, "rb", buffering=0)  # noqa: SIM115 -- closed below
    except FileNotFoundError:
        raise MissingFileError(
            f"{name} does not exist",
            remedy="to show the tokens of a text, pipe it into the command",
        ) from None
    with file:
        yield from iter(lambda: file.read(_BLOCK), b"")


def _whole(name: str, longest: int) -> bytes:
    """Return the content of a file of at most `longest` bytes."""
    data = b""
    for block in _blocks(name):
        data += block
        if len(data) > longest:
            raise InputError(
                f"must have at most {longest:,} bytes with --parts",
                place=name,
                remedy="pass a part of it, for example with head -c",
            )
    return data


def _encoded(tokenizer: Tokenizer, files: Sequence[str]) -> Iterator[list[int]]:
    """Yield the ids of the files as soon as later text can no longer change them."""
    from cs336_basics.tokenizer import IncrementalEncoder

    encoder = IncrementalEncoder(tokenizer, errors="bytes")
    for name in files:
        for block in _blocks(name):
            yield encoder.feed(block)
        yield encoder.finish()


class _Painter:
    """Paints tokens on alternating backgrounds."""

    def __init__(self, tokenizer: Tokenizer, has_colors: bool) -> None:
        self.tokenizer = tokenizer
        self.between = "" if has_colors else "|"
        self.ends_line = True
        """Whether the last painted token ends a line. Before the first token, it is true."""
        self._has_colors = has_colors
        self._special = tokenizer.definition.ids_of_special
        self._number = 0

    def paint(self, token_id: int, line_end: str = "") -> str:
        """Return a token as text for the terminal.

        Args:
            token_id: Id of the token.
            line_end: Text to add after each symbol for a line ending.
        """
        from cs336_basics.tokenizer import visible_parts

        background = _BACKGROUNDS[self._number % len(_BACKGROUNDS)]
        self._number += 1
        painted = []
        # The dict of all tokens would take longer to make than a few lines.
        token = self.tokenizer.decode_bytes([token_id])
        self.ends_line = token.endswith(b"\n")
        for text, kind in visible_parts(token):
            style, reset = background + _FOREGROUNDS.get(kind, _OTHER_FOREGROUND), _RESET
            if token_id in self._special:
                style = _SPECIAL
            if not self._has_colors:
                style = reset = ""
            if kind == "blank":
                text = text.replace("↵", f"↵{reset}{line_end}{style}")
            painted.append(f"{style}{text}{reset}")
        return "".join(painted)


def _print_text(painter: _Painter, files: Sequence[str]) -> None:
    for ids in _encoded(painter.tokenizer, files):
        written = []
        for token_id in ids:
            written.append("" if painter.ends_line else painter.between)
            written.append(painter.paint(token_id, "\n"))
        show("".join(written), is_safe=True)
    if not painter.ends_line:
        show("\n")


def _print_counts(tokenizer: Tokenizer, files: Sequence[str]) -> None:
    names = ["lines", "words", "bytes", "tokens"]
    say(" ".join(f"{name:>11}" for name in [*names, "bytes/token"]))
    total = [0] * len(names)
    for name in files:
        counts = _counts(tokenizer, name)
        total = [sum(pair) for pair in zip(total, counts, strict=True)]
        _print_row(counts, "" if name == STDIN else name)
    if len(files) > 1:
        _print_row(total, "total")


def _counts(tokenizer: Tokenizer, name: str) -> list[int]:
    """Return the numbers of lines, words and bytes in a file, as in `wc`, and of tokens."""
    from cs336_basics.tokenizer import IncrementalEncoder

    encoder = IncrementalEncoder(tokenizer, errors="bytes")
    lines = words = size = tokens = 0
    in_word = False  # at the end of the previous block
    for block in _blocks(name):
        lines += block.count(b"\n")
        words += len(block.split()) - (in_word and not block[:1].isspace())
        in_word = not block[-1:].isspace()
        size += len(block)
        tokens += len(encoder.feed(block))
    return [lines, words, size, tokens + len(encoder.finish())]


def _print_row(counts: Sequence[int], name: str) -> None:
    ratio = f"{counts[2] / counts[3]:.3f}" if counts[3] else "-"
    say(" ".join(f"{cell:>11}" for cell in [*counts, ratio]) + (f"  {name}" if name else ""))


def _print_parts(painter: _Painter, files: Sequence[str]) -> None:
    """Print the tokenizer, and for each file what its parts do to the text."""
    from cs336_basics.tokenizer import TextPart, parts_of
    from cs336_basics.tokenizer.description import shown_text
    from cs336_basics.tokenizer.text_input import replaced_utf8

    for number, name in enumerate(files):
        text = replaced_utf8(_whole(name, _MOST_PARTS), "replace").decode()
        if not number:
            say(str(painter.tokenizer))

        def described(part: TextPart, text: str = text) -> str:
            if part.part == "normalizer":
                before, after = text[part.start : part.stop], part.result
                codes = f"{code_points(before)} → {code_points(after)}"
                return f"{shown_text(before)} → {shown_text(after)}    ({codes})"
            tokens = painter.between.join(map(painter.paint, part.ids))
            notes = list(map(str, part.ids))
            if part.part == "split":
                notes.append("whole token" if part.is_whole else counted(part.num_merges, "merge"))
            return f"{tokens}    ({', '.join(notes)})"

        title = "" if name == STDIN else f"  {name}"
        say("")
        say(f"{'characters':>15}  {'part':<14}  text, ids and merges{title}")
        for part in parts_of(painter.tokenizer, text):
            span = f"{part.start:,}-{part.stop:,}"
            show(f"{span:>15}  {part.part:<14}  {described(part)}\n", is_safe=True)


def _print_merges(painter: _Painter, text: str) -> None:
    """Print the tokens of each pre-token before the first merge and after every merge."""
    from cs336_basics.bpe.reference import split_bytes
    from cs336_basics.tokenizer import merge_steps, visible

    def joined(tokens: Sequence[bytes]) -> str:
        return " ".join(map(visible, tokens))

    for word in merge_steps(painter.tokenizer, text):
        if word.kind == "merged":
            tokens: Sequence[bytes] = split_bytes(word.word)
            say(f"{'rank':>7}  {joined(tokens)}")
            for rank, index, merged in word.steps:
                left, right = tokens[index : index + 2]
                say(f"{rank:>7}  {joined(merged)}    ({visible(left)} + {visible(right)})")
                tokens = merged
        for token_id in word.ids:
            show(f"     id  {token_id}  {painter.paint(token_id)}\n", is_safe=True)


COMMAND = Command(
    "tokenize",
    Options,
    tokenize,
    "tokenize --tokenizer tokenizers/my my.txt",
    "tokenize --tokenizer tokenizers/my --count my.txt other.txt",
    "tokenize --tokenizer tokenizers/my --merges ' lowest'",
    "tokenize --tokenizer tokenizers/my --parts my.txt",
)
