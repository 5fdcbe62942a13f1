r"""A parser for the subset of the `regex` syntax that `split_program.py` can compile.

The subset includes alternatives, groups, sets of characters (`\p{...}`, `\s`, `\d`, `\w`, ranges,
negations), repetitions (greedy, lazy, possessive), lookahead by one character or to the end of the
text, `$`, `(?m:$)`, `\Z`, and `(?i:...)` around ASCII. It excludes syntax that depends on the text
before a match, or on more than one character after it. Patterns outside the subset are run by
`regex`.

The parser assumes that `regex` accepts the pattern, so it does not report other errors.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, replace

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.splitting.patterns.char_sets import (
    EVERYTHING,
    CharSet,
    intersection,
    named_set,
    union,
)
from cs336_basics.splitting.patterns.pattern_limits import MAX_REPEAT

MAX_POSSESSIVE = 50
"""Maximum difference between the two numbers in the braces of a possessive repetition."""


class UnsupportedPatternError(InputError):
    """Raised if a pattern cannot be compiled. The message gives the reason."""


@dataclass(frozen=True)
class Chars:
    """One character from a set."""

    members: CharSet


@dataclass(frozen=True)
class Sequence:
    """Nodes that match one after another."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """Alternatives. The first one that leads to a match wins."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """A node repeated `least` to `most` times, or without limit if `most` is None."""

    item: Node
    least: int
    most: int | None
    greedy: bool


@dataclass(frozen=True)
class Next:
    """A lookahead: the next character must be in a set.

    If `end` is true, the end of the text also satisfies the lookahead. If `last_line_feed` is true,
    so does a line feed that is the last character of the text.
    """

    members: CharSet
    end: bool
    last_line_feed: bool = False


Node = Chars | Sequence | Choice | Repeat | Next

_NOTHING = CharSet()
_LITERAL_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_HEX_LENGTH = {"x": 2, "u": 4, "U": 8}
_QUANTIFIER = re.compile(r"([?*+]|\{(\d*)(,?)(\d*)\})([?+]?)")
_GROUP = re.compile(r"\(\?(?:P?<(?![=!])[^>]*>|([ims]*)(?:-([ims]+))?:|([=!]))")
_LEADING_FLAGS = re.compile(r"\(\?([ims]+)\)")
_SET_OPERATION = re.compile(r"\[:|&&|\|\||~~|--")
_PROPERTY = re.compile(r"([pP])(?:\{(\^?)([^}]*)\}|([A-Z]))")
# Non-ASCII characters that `regex` matches with an ASCII letter if case is ignored.
_FOLDED = {"i": "\u0130", "I": "\u0131", "k": "\u212a", "K": "\u212a", "s": "\u017f", "S": "\u017f"}
_LINE_FEED = CharSet.of("\n")
_DIGITS = "Nd"


@dataclass(frozen=True)
class _Flags:
    ignore_case: bool = False
    dot_all: bool = False
    multi_line: bool = False


def parse(expression: str) -> Node:
    """Parse a split pattern and return its syntax tree.

    Args:
        expression: Regular expression that `regex` accepts.

    Raises:
        UnsupportedPatternError: If part of the expression is outside the subset.
    """
    parser = _Parser(expression)
    flags = _Flags()
    if found := _LEADING_FLAGS.match(expression):
        flags = parser.changed(flags, found.group(1), None)
        parser.index = found.end()
    node = parser.choice(flags)
    if parser.index < len(expression):
        raise parser.unsupported(")", 1)
    return node


class _Parser:
    """A recursive-descent parser. `index` is the next position to read."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.index = 0

    def unsupported(self, what: str, length: int = 0) -> UnsupportedPatternError:
        """Return an error for a part that starts `length` characters before the index."""
        return UnsupportedPatternError(
            f"{short_repr(what)} at index {self.index - length} cannot be compiled"
        )

    def peek(self) -> str:
        return self.expression[self.index : self.index + 1]

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern at the index and, if it matches, move past the matched text."""
        found = pattern.match(self.expression, self.index)
        if found:
            self.index = found.end()
        return found

    def changed(self, flags: _Flags, on: str | None, off: str | None) -> _Flags:
        for letters, value in ((on, True), (off, False)):
            if "i" in (letters or ""):
                flags = replace(flags, ignore_case=value)
            if "s" in (letters or ""):
                flags = replace(flags, dot_all=value)
            if "m" in (letters or ""):
                flags = replace(flags, multi_line=value)
        return flags

    def choice(self, flags: _Flags) -> Node:
        options = [self.sequence(flags)]
        while self.peek() == "|":
            self.index += 1
            options.append(self.sequence(flags))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self, flags: _Flags) -> Node:
        items: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            item = self.repeated(self.item(flags))
            before = items[-1] if items else None
            # `(?=A)B` matches one character that is in both sets. `$` is excluded, because a line
            # feed may follow it.
            if isinstance(before, Next) and isinstance(item, Chars) and not before.last_line_feed:
                item = Chars(intersection([before.members, item.members]))
                items.pop()
            items.append(item)
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def repeated(self, item: Node) -> Node:
        """Read the quantifier after an item, if any, and return the repeated item."""
        if self.peek() not in ("?", "*", "+", "{"):
            return item
        found = self.take(_QUANTIFIER)
        if found is None or found.group(1) in ("{}", "{,}"):
            raise self.unsupported(self.expression[self.index :][:10])
        symbol, least, comma, most, suffix = found.groups()
        length = len(found.group())
        if symbol[0] == "{":
            if max(len(least), len(most)) > 4 or max(int(least or 0), int(most or 0)) > MAX_REPEAT:
                raise self.unsupported(found.group(), length)
            low = int(least or 0)
            high = (int(most) if most else None) if comma else low
        else:
            low, high = {"?": (0, 1), "*": (0, None), "+": (1, None)}[symbol]
        if isinstance(item, Next):
            raise self.unsupported(found.group(), length)
        if suffix != "+":
            return Repeat(item, low, high, suffix != "?")
        # A possessive repetition becomes one alternative for each number of repetitions.
        if not isinstance(item, Chars) or (high or 0) - low > MAX_POSSESSIVE:
            raise self.unsupported(found.group(), length)
        return _possessive(item, low, high)

    def item(self, flags: _Flags) -> Node:
        """Read the next character, set, group or assertion, without its quantifier."""
        character = self.peek()
        if character == "(":
            return self.group(flags)
        if character == "[":
            return Chars(self.char_class(flags))
        self.index += 1
        if character == ".":
            return Chars(EVERYTHING if flags.dot_all else _LINE_FEED.complement())
        if character == "$" and flags.multi_line:
            return Next(_LINE_FEED, end=True)
        if character == "$":
            return Next(_NOTHING, end=True, last_line_feed=True)
        if character == "\\":
            if self.peek() == "Z":
                self.index += 1
                return Next(_NOTHING, end=True)
            return Chars(self.escape(flags, in_class=False)[0])
        if character in "^{":
            raise self.unsupported(character, 1)
        return Chars(self.cases(character, flags))

    def group(self, flags: _Flags) -> Node:
        if self.expression.startswith("(?", self.index):
            found = self.take(_GROUP)
            if found is None:
                raise self.unsupported(self.expression[self.index :][:4])
            on, off, look_ahead = found.groups()
            node = self.choice(self.changed(flags, on, off))
            if look_ahead:
                node = self.next_character(node, look_ahead == "!")
        else:
            self.index += 1
            node = self.choice(flags)
        self.index += 1  # the closing parenthesis
        return node

    def next_character(self, node: Node, negated: bool) -> Next:
        """Convert a node to a positive or negative lookahead."""
        found = _as_next(node)
        if found is None or (negated and found.last_line_feed):
            raise self.unsupported("(?=...)" if not negated else "(?!...)")
        return Next(found.members.complement(), not found.end) if negated else found

    def cases(self, character: str, flags: _Flags) -> CharSet:
        """Return a set with a character and, if case is ignored, its case variants."""
        if not flags.ignore_case:
            return CharSet.of(character)
        if not character.isascii():
            raise self.unsupported(f"(?i) with {character}", 1)
        both = {character.lower(), character.upper()}
        return CharSet.of(both | set(_FOLDED.get(character, "")))

    def escape(self, flags: _Flags, *, in_class: bool) -> tuple[CharSet, str | None]:
        """Read an escape after its backslash. Return its set and character (None for a class)."""
        letter = self.peek()
        if letter in _HEX_LENGTH:
            length = _HEX_LENGTH[letter]
            digits = self.expression[self.index + 1 : self.index + 1 + length]
            if len(digits) < length or not set(digits) <= set(string.hexdigits):
                raise self.unsupported("\\" + letter)
            self.index += 1 + length
            character = chr(int(digits, 16))
            return self.cases(character, flags), character
        if letter in "pP":
            return self.unicode_property(flags), None
        self.index += 1
        if letter in "sSdDwW":
            name = {"s": "space", "d": _DIGITS, "w": "word"}[letter.lower()]
            members = named_set(name)
            assert members is not None
            return members if letter.islower() else members.complement(), None
        if letter in _LITERAL_ESCAPES or (letter == "b" and in_class):
            character = _LITERAL_ESCAPES.get(letter, "\b")
            return CharSet.of(character), character
        if letter.isalnum() or not letter:
            raise self.unsupported("\\" + letter, 2)
        return self.cases(letter, flags), letter

    def unicode_property(self, flags: _Flags) -> CharSet:
        found = self.take(_PROPERTY)
        if found is None:
            raise self.unsupported("\\p")
        letter, caret, name, short = found.groups()
        members = named_set((short or name).removeprefix("Script=").removeprefix("sc="))
        # If case is ignored, \p{Lu} also matches lowercase letters in `regex`.
        if members is None or (flags.ignore_case and name not in ("L", "N", "Nd", "P", "M")):
            raise self.unsupported("\\" + found.group(), len(found.group()))
        return members.complement() if (letter == "P") != (caret == "^") else members

    def char_class(self, flags: _Flags) -> CharSet:
        """Read a set in brackets."""
        start = self.index
        self.index += 1
        negated = self.peek() == "^"
        self.index += negated
        members: list[CharSet] = []
        first = self.index
        while self.peek() != "]" or self.index == first:
            if _SET_OPERATION.match(self.expression, self.index):
                raise self.unsupported(self.expression[self.index :][:2])
            members.append(self.class_member(flags))
        self.index += 1
        if negated and flags.ignore_case:
            raise self.unsupported(self.expression[start : self.index], self.index - start)
        result = union(members)
        if negated and result == EVERYTHING:  # in `regex`, an empty set matches anything
            raise self.unsupported(self.expression[start : self.index], self.index - start)
        return result.complement() if negated else result

    def class_member(self, flags: _Flags) -> CharSet:
        """Read a character, a range or a set within brackets."""
        members, low = self.class_character(flags)
        ahead = self.expression[self.index : self.index + 2]
        if low is None or ahead[:1] != "-" or ahead == "-]":
            return members
        self.index += 1
        _, high = self.class_character(flags)
        if high is None:
            raise self.unsupported("-")
        if not flags.ignore_case:
            return CharSet.between(low, high)
        if not (low + high).isascii():
            raise self.unsupported(f"(?i) with {low}-{high}", 3)
        codes = range(ord(low), ord(high) + 1)
        return union(self.cases(chr(code), flags) for code in codes)

    def class_character(self, flags: _Flags) -> tuple[CharSet, str | None]:
        character = self.peek()
        self.index += 1
        if character == "\\":
            return self.escape(flags, in_class=True)
        return self.cases(character, flags), character


def _possessive(item: Chars, least: int, most: int | None) -> Node:
    """Express a possessive repetition of a set with lookaheads.

    The repetition stops early only before a character outside the set. `C*+` is therefore `C*`
    before a character outside C, and `C{1,2}+` is `CC`, or `C` before such a character.
    """
    stop = Next(item.members.complement(), end=True)
    if most is None:
        return Sequence((Repeat(item, least, None, True), stop))
    options = [Sequence((Repeat(item, most, most, True),))]
    options += [
        Sequence((Repeat(item, count, count, True), stop))
        for count in range(most - 1, least - 1, -1)
    ]
    return Choice(tuple(options))


def _as_next(node: Node) -> Next | None:
    """Convert a node to a lookahead by one character, or return None if that is impossible."""
    if isinstance(node, Chars):
        return Next(node.members, end=False)
    if isinstance(node, Next):
        return node
    if isinstance(node, Sequence) and len(node.items) == 1:
        return _as_next(node.items[0])
    if isinstance(node, Repeat) and node.least == 1:
        return _as_next(node.item)  # one repetition is enough
    if isinstance(node, Choice):
        found = [_as_next(option) for option in node.options]
        if all(found):
            known = [option for option in found if option is not None]
            return Next(
                union(option.members for option in known),
                any(option.end for option in known),
                any(option.last_line_feed for option in known),
            )
    return None
