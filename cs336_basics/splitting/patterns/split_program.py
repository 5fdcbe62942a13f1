"""Split patterns compiled into tables that match text in linear time.

`native/scanning/split_program.hpp` runs the tables.

A backtracking matcher tries one alternative after another. The table tries all of them at once. A
*state* lists all points in the pattern that can be reached with the characters read so far, in the
order in which a backtracking matcher would try them (Thompson 1968; for the order, Cox 2009,
"Regular Expression Matching: the Virtual Machine Approach"). If one of the points is the end of the
pattern, the points after it are dropped, because a backtracking matcher would not try them. The
table therefore finds the same matches as the `regex` module.

Characters that no set in the pattern distinguishes share a *column*, which keeps the table small. A
transition is chosen when the next character is known. It records whether the pattern matches the
text before that character, and which state follows. Transitions thus include lookahead by one
character.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from cs336_basics._support.lazy import np, npt
from cs336_basics.splitting.patterns.char_sets import NUM_CODE_POINTS, CharSet, named_set
from cs336_basics.splitting.patterns.named_patterns import (
    GPT2,
    GPT2_DIGITS3_RIGHT,
    resolve_pattern,
)
from cs336_basics.splitting.patterns.pattern_syntax import (
    Chars,
    Choice,
    Next,
    Node,
    Repeat,
    Sequence,
    UnsupportedPatternError,
    parse,
)

BLOCK_SIZE = 64
"""Number of code points per block. Their UTF-8 encodings differ only in the last byte."""

MATCH = 1 << 15
"""Bit of a transition that is set if the pattern matches the text before the next character."""

MAX_INSTRUCTIONS = 2_000
MAX_COLUMNS = 250
MAX_STATES = 2_000
MAX_WORK = 1_000_000
"""Maximum number of instructions to visit when building a table, about a second of work."""

_DEAD = 0
_START = 1


@dataclass(frozen=True, eq=False)
class SplitProgram:
    """A compiled split pattern.

    Attributes:
        expression: Regular expression.
        transitions: (number of states, number of columns) uint16. Next state, or 0 if no match can
            follow, plus MATCH if the pattern matches the text before the character. The first state
            is 1. The last two columns stand for the end of the text and for a line feed that is the
            last character of the text.
        block_of: (0x110000 / BLOCK_SIZE,) uint16. The index is a code point divided by BLOCK_SIZE;
            the value is the code point's row in `blocks`.
        blocks: (number of blocks, BLOCK_SIZE) uint8. Columns of the code points in each block.
        safe_cuts: (number of columns, number of columns) bool. [a, b] is true if a pre-token always
            ends between a character in column a and one in column b, and the text before this
            boundary is split in the same way if nothing follows it.
        matches_all_text: Whether the pattern matches every character of every text. Any other
            text becomes pre-tokens as it is.
        threes: (number of columns,) bool, for GPT2_DIGITS3_RIGHT. Whether a column contains
            numbers. A match that ends with a number is cut into groups of three digits from the
            right; the first pre-token contains the remaining digits and any text before them. If
            None, every match is one pre-token.
    """

    expression: str
    transitions: npt.NDArray[np.uint16]
    block_of: npt.NDArray[np.uint16]
    blocks: npt.NDArray[np.uint8]
    safe_cuts: npt.NDArray[np.bool_]
    matches_all_text: bool
    threes: npt.NDArray[np.bool_] | None = None

    def column_of(self, character: str) -> int:
        """Return the column of a character that is not the last one in its text."""
        code = ord(character)
        return int(self.blocks[self.block_of[code // BLOCK_SIZE], code % BLOCK_SIZE])


@functools.lru_cache(maxsize=32)
def compile_program(expression: str) -> SplitProgram:
    """Compile a split pattern.

    Args:
        expression: Regular expression that `regex` accepts.

    Raises:
        UnsupportedPatternError: If the pattern is too large, can match the empty string, or has a
            part that cannot be compiled.
    """
    if expression == GPT2_DIGITS3_RIGHT:
        program = compile_program(GPT2)
        number = named_set("N")
        assert number is not None
        columns = [program.column_of(chr(code)) for code in number.bounds[::2]]
        threes = np.isin(np.arange(program.transitions.shape[1]), columns)
        return replace(program, expression=expression, threes=threes)
    assembler = _Assembler()
    assembler.add(parse(expression))
    instructions = assembler.instructions
    sets = list(dict.fromkeys(i.members for i in instructions if isinstance(i, (Chars, Next))))
    starts = _interval_starts(sets)
    builder = _TableBuilder(instructions, sets, starts)
    transitions = builder.build()
    block_of, blocks = _column_blocks(starts, builder.column_of_interval)
    starts_match = _starts_match(transitions)
    return SplitProgram(
        expression,
        transitions,
        block_of,
        blocks,
        _safe_cuts(transitions, starts_match, builder.line_feed),
        bool(starts_match.all()),
    )


@functools.lru_cache(maxsize=32)
def find_program(pattern: str) -> SplitProgram | None:
    """Return the program for a split pattern, or None if the pattern cannot be compiled.

    Args:
        pattern: Name in PATTERNS, or regular expression.

    Raises:
        ValueError, TypeError: If `resolve_pattern` rejects the pattern.
    """
    try:
        return compile_program(resolve_pattern(pattern))
    except UnsupportedPatternError:
        return None


# ---------------------------------------------------------------- pattern -> instructions


@dataclass(frozen=True)
class _Goto:
    """Continue at each of the targets, in order of preference."""

    targets: tuple[int, ...]


# Chars consumes a character from its set; Next continues if the lookahead succeeds. Both continue
# with the next instruction. The end of the pattern is the index after the last instruction.
_Instruction = Chars | Next | _Goto


class _Assembler:
    """Translates a pattern's syntax tree into instructions."""

    def __init__(self) -> None:
        self.instructions: list[_Instruction] = []

    def emit(self, instruction: _Instruction) -> int:
        if len(self.instructions) == MAX_INSTRUCTIONS:
            raise UnsupportedPatternError(
                f"it has more than {MAX_INSTRUCTIONS:,} parts when repetitions are written out"
            )
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def add(self, node: Node) -> None:
        if isinstance(node, (Chars, Next)):
            self.emit(node)
        elif isinstance(node, Sequence):
            for item in node.items:
                self.add(item)
        elif isinstance(node, Choice):
            self.add_choice(node)
        else:
            self.add_repeat(node)

    def add_choice(self, node: Choice) -> None:
        fork = self.emit(_Goto(()))
        starts, ends = [], []
        for option in node.options:
            starts.append(len(self.instructions))
            self.add(option)
            ends.append(self.emit(_Goto(())))
        self.instructions[fork] = _Goto(tuple(starts))
        for end in ends:
            self.instructions[end] = _Goto((len(self.instructions),))

    def add_repeat(self, node: Repeat) -> None:
        if node.most != 1 and _may_be_empty(node.item):
            # `regex` has special rules for ending loops whose body can be empty.
            raise UnsupportedPatternError("it repeats a part that can match the empty string")
        for _ in range(node.least):
            self.add(node.item)
        if node.most is None:
            fork = self.emit(_Goto(()))
            self.add(node.item)
            self.emit(_Goto((fork,)))
            forks = [fork]
        else:
            forks = []
            for _ in range(node.most - node.least):
                forks.append(self.emit(_Goto(())))
                self.add(node.item)
        for fork in forks:
            targets = (fork + 1, len(self.instructions))
            self.instructions[fork] = _Goto(targets if node.greedy else targets[::-1])


def _may_be_empty(node: Node) -> bool:
    if isinstance(node, Chars):
        return False
    if isinstance(node, Sequence):
        return all(map(_may_be_empty, node.items))
    if isinstance(node, Choice):
        return any(map(_may_be_empty, node.options))
    if isinstance(node, Repeat):
        return node.least == 0 or _may_be_empty(node.item)
    return True


# ---------------------------------------------------------------- instructions -> table


def _interval_starts(sets: list[CharSet]) -> list[int]:
    """Return the starts of the code point intervals that the sets do not divide any further."""
    bounds = {0, ord("\n"), ord("\n") + 1}
    bounds.update(bound for members in sets for bound in members.bounds)
    return sorted(bounds - {NUM_CODE_POINTS})


class _TableBuilder:
    """Builds the transitions of all reachable states."""

    def __init__(
        self, instructions: list[_Instruction], sets: list[CharSet], starts: list[int]
    ) -> None:
        self.instructions = instructions
        # Intervals that belong to the same sets share a column.
        columns: dict[tuple[bool, ...], int] = {}
        self.column_of_interval = [
            columns.setdefault(tuple(start in members for members in sets), len(columns))
            for start in starts
        ]
        self.line_feed = self.column_of_interval[starts.index(ord("\n"))]
        self.end = len(columns)
        if self.end > MAX_COLUMNS:
            raise UnsupportedPatternError(
                f"it distinguishes more than {MAX_COLUMNS} kinds of characters"
            )
        self.columns_of_set = {
            members: frozenset(c for key, c in columns.items() if key[index])
            for index, members in enumerate(sets)
        }
        self.work = 0

    def build(self) -> npt.NDArray[np.uint16]:
        """Return a SplitProgram's `transitions`."""
        states: dict[tuple[int, ...], int] = {(): _DEAD, (0,): _START}
        rows: list[list[int]] = []
        points: list[tuple[int, ...]] = [(), (0,)]
        while len(rows) < len(points):
            state = len(rows)
            row = []
            for column in range(self.end + 2):
                matched, following = self.step(points[state], column)
                if matched and state == _START:
                    raise UnsupportedPatternError("it can match the empty string")
                if following not in states:
                    states[following] = len(points)
                    points.append(following)
                row.append(states[following] | (MATCH if matched else 0))
            rows.append(row)
            if len(points) > MAX_STATES:
                raise UnsupportedPatternError(f"its table has more than {MAX_STATES:,} states")
        return np.array(rows, np.uint16)

    def step(self, points: tuple[int, ...], column: int) -> tuple[bool, tuple[int, ...]]:
        """Read a character. Return whether the pattern matches before it, and the next points."""
        at_end = column == self.end
        last_line_feed = column == self.end + 1
        plain = self.line_feed if last_line_feed else column
        seen: set[int] = set()
        following: dict[int, None] = {}
        todo = list(reversed(points))
        while todo:
            point = todo.pop()
            if point in seen:
                continue
            seen.add(point)
            self.work += 1
            if self.work > MAX_WORK:
                raise UnsupportedPatternError("its table takes too long to build")
            if point == len(self.instructions):
                return True, tuple(following)
            instruction = self.instructions[point]
            if isinstance(instruction, _Goto):
                todo += reversed(instruction.targets)
            elif isinstance(instruction, Chars):
                if not at_end and plain in self.columns_of_set[instruction.members]:
                    following[point + 1] = None
            elif (
                (at_end and instruction.end)
                or (last_line_feed and instruction.last_line_feed)
                or (not at_end and plain in self.columns_of_set[instruction.members])
            ):
                todo.append(point + 1)
        return False, tuple(following)


def _column_blocks(
    starts: list[int], columns: list[int]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8]]:
    """Return a SplitProgram's `block_of` and `blocks`."""
    lengths = np.diff([*starts, NUM_CODE_POINTS])
    column_of = np.repeat(np.array(columns, np.uint8), lengths).reshape(-1, BLOCK_SIZE)
    indices: dict[bytes, int] = {}
    block_of = [indices.setdefault(block.tobytes(), len(indices)) for block in column_of]
    blocks = np.frombuffer(b"".join(indices), np.uint8).reshape(-1, BLOCK_SIZE)
    return np.array(block_of, np.uint16), blocks


def _starts_match(transitions: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    """Return, for each column of characters, whether every text that starts with it has a match.

    The match must start at the start of the text. The column of the end of the text is not
    included, so the result has one item less than there are columns, and the last one is the
    column of a line feed that is the last character.
    """
    following = transitions & ~np.uint16(MATCH)
    may_fail = np.zeros(len(transitions), bool)
    may_fail[_DEAD] = True
    while (
        True
    ):  # a state may fail if one of its transitions, without a match, leads to such a state
        found = may_fail | (may_fail[following] & (transitions < MATCH)).any(axis=1)
        if np.array_equal(found, may_fail):
            break
        may_fail = found
    starts: npt.NDArray[np.bool_] = ~may_fail[np.delete(following[_START], -2)]
    return starts


def _safe_cuts(
    transitions: npt.NDArray[np.uint16], starts_match: npt.NDArray[np.bool_], line_feed: int
) -> npt.NDArray[np.bool_]:
    """Return a SplitProgram's `safe_cuts`.

    A cut is safe if, from any state, no match continues across it, and if the character after the
    cut has the same effect as the end of the text, so that the text before the cut can be split on
    its own. The text after the cut can always be split on its own, because there is no lookbehind.
    Text without a match must not continue across the cut either, so a match must start after the
    cut or end before it, whatever the text.
    """
    num_columns = transitions.shape[1]
    end = num_columns - 2
    safe = np.zeros((num_columns, num_columns), bool)
    starts = np.insert(starts_match, end, False)
    for before in range(end):
        reached = np.unique(transitions[1:, before] & ~np.uint16(MATCH))
        rows = transitions[reached[reached != _DEAD]]
        dies = ((rows & ~np.uint16(MATCH)) == _DEAD).all(axis=0)
        same = ((rows & MATCH) == (rows[:, end : end + 1] & MATCH)).all(axis=0)
        # The character before the cut, if no earlier match contains it, is a match.
        alone = transitions[transitions[_START, before] & ~np.uint16(MATCH)] >= MATCH
        safe[before] = dies & same & (starts | alone)
        # A line feed at the end of the text has a different column.
        safe[before, line_feed] &= safe[before, end + 1]
        if before == line_feed and not np.array_equal(
            transitions[:, before], transitions[:, end + 1]
        ):
            safe[before] = False
    safe[:, end:] = False
    return safe
