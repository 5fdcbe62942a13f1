"""Compile a split pattern into a table, which a small matcher runs in linear time.

The matcher is `native/scanning/split_program.hpp`.

A backtracking matcher tries alternatives one after the other. The table tries all of them at once:
a *state* is the list of all points of the pattern that may be reached after the same characters, in
the order in which a backtracking matcher would try them (Thompson 1968; Cox 2009, "Regular
Expression Matching: the Virtual Machine Approach", for the order). Where one of them is the end of
the pattern, those after it are cut off, since the matcher would not have tried them. So the result
is that of the `regex` module.

Two things keep the table small and make it exact. Characters that no set of the pattern tells apart
share a *column*. And a transition is taken with the next character already known: it says first
whether the pattern matches up to before this character, and then which state follows. Lookahead by
one character is therefore decided where it is asked for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cs336_basics.pretokenization.patterns.char_sets import NUM_CODE_POINTS, CharSet, named_set
from cs336_basics.pretokenization.patterns.named_patterns import (
    GPT2,
    GPT2_DIGITS3_RIGHT,
    resolve_pattern,
)
from cs336_basics.pretokenization.patterns.pattern_syntax import (
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
"""Code points of a block of columns: those whose UTF-8 differs in the last byte only."""

MATCH = 1 << 15
"""Set in a transition: the pattern matches up to before this character."""

MAX_INSTRUCTIONS = 2_000
MAX_COLUMNS = 250
MAX_STATES = 2_000
MAX_WORK = 1_000_000
"""Instructions visited while the table is made: about a second."""

_DEAD = 0
_START = 1


@dataclass(frozen=True, eq=False)
class SplitProgram:
    """A compiled split pattern.

    Attributes:
        expression: the regular expression.
        transitions: (number of states, number of columns) uint16. The next state, 0 if no match can
            follow, plus MATCH. The first state is 1. The last two columns are those of the end of
            the text, and of a line feed that is the last character of the text.
        block_of: (0x110000 / BLOCK_SIZE,) uint16, the block of a code point divided by BLOCK_SIZE.
        blocks: (number of blocks, BLOCK_SIZE) uint8, the columns of the code points of a block.
        safe_cuts: (number of columns, number of columns) bool: [a, b] tells that between any
            character of column a and one of column b a pre-token ends, and that what is before this
            cut is split the same if the text ends there.
        complete: whether the pattern matches all of every text.
        threes: (number of columns,) bool, for GPT2_DIGITS3_RIGHT: which columns are those of
            numbers. Of a match that ends with a number, the first pre-token is what comes before it
            and as many of its digits as leave a multiple of three; each further pre-token is three
            digits. None: every match is one pre-token.
    """

    expression: str
    transitions: npt.NDArray[np.uint16]
    block_of: npt.NDArray[np.uint16]
    blocks: npt.NDArray[np.uint8]
    safe_cuts: npt.NDArray[np.bool_]
    complete: bool
    threes: npt.NDArray[np.bool_] | None = None

    def column_of(self, character: str) -> int:
        """Return the column of a character that is not the last of the text."""
        code = ord(character)
        return int(self.blocks[self.block_of[code // BLOCK_SIZE], code % BLOCK_SIZE])


@functools.lru_cache(maxsize=32)
def compile_program(expression: str) -> SplitProgram:
    """Compile a split pattern.

    Args:
        expression: a regular expression that `regex` accepts.

    Raises:
        UnsupportedPatternError: the pattern has a part that cannot be compiled, is too large, or
            may match the empty string; the message says which.
    """
    if expression == GPT2_DIGITS3_RIGHT:
        program = compile_program(GPT2)
        number = named_set("N")
        assert number is not None
        columns = [program.column_of(chr(code)) for code in number.bounds[::2]]
        threes = np.isin(np.arange(program.transitions.shape[1]), columns)
        return replace(program, expression=expression, threes=threes)
    instructions = _Assembler().assemble(parse(expression))
    sets = list(dict.fromkeys(i.members for i in instructions if isinstance(i, (_Char, _Look))))
    starts = _interval_starts(sets)
    builder = _TableBuilder(instructions, sets, starts)
    transitions = builder.build()
    block_of, blocks = _column_blocks(starts, builder.column_of_interval)
    return SplitProgram(
        expression,
        transitions,
        block_of,
        blocks,
        _safe_cuts(transitions, builder.line_feed),
        _is_complete(transitions),
    )


@functools.lru_cache(maxsize=32)
def find_program(pattern: str) -> SplitProgram | None:
    """Return the program of a split pattern, or None if it cannot be compiled.

    Args:
        pattern: a name in PATTERNS or a regular expression.

    Raises:
        ValueError, TypeError: see `resolve_pattern`.
    """
    try:
        return compile_program(resolve_pattern(pattern))
    except UnsupportedPatternError:
        return None


def complete_program(pattern: str) -> SplitProgram | None:
    """Return the program of a split pattern, or None if it has none or may leave out text."""
    program = find_program(pattern)
    return program if program is not None and program.complete else None


# ---------------------------------------------------------------- pattern -> instructions


@dataclass(frozen=True)
class _Char:
    """Consume a character of a set and go on after this instruction."""

    members: CharSet


@dataclass(frozen=True)
class _Look:
    """Go on after this instruction if the next character allows it (see `Next`)."""

    members: CharSet
    end: bool
    last_line_feed: bool


@dataclass(frozen=True)
class _Goto:
    """Go on at each of the targets, the first one first."""

    targets: tuple[int, ...]


_Instruction = _Char | _Look | _Goto
# The index after the last instruction is the end of the pattern.


class _Assembler:
    """Translates the tree of a pattern."""

    def __init__(self) -> None:
        self.instructions: list[_Instruction] = []

    def assemble(self, node: Node) -> list[_Instruction]:
        self.add(node)
        return self.instructions

    def emit(self, instruction: _Instruction) -> int:
        if len(self.instructions) == MAX_INSTRUCTIONS:
            raise UnsupportedPatternError(
                f"it has more than {MAX_INSTRUCTIONS:,} parts with all repetitions written out"
            )
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def add(self, node: Node) -> None:
        if isinstance(node, Chars):
            self.emit(_Char(node.members))
        elif isinstance(node, Next):
            self.emit(_Look(node.members, node.end, node.last_line_feed))
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
            # `regex` ends such a loop by rules of its own.
            raise UnsupportedPatternError("it repeats what may match the empty string")
        for _ in range(node.least):
            self.add(node.item)
        if node.most is None:
            fork = self.emit(_Goto(()))
            self.add(node.item)
            self.emit(_Goto((fork,)))
            self.instructions[fork] = self.fork(fork + 1, len(self.instructions), node.greedy)
            return
        forks = []
        for _ in range(node.most - node.least):
            forks.append(self.emit(_Goto(())))
            self.add(node.item)
        for fork in forks:
            self.instructions[fork] = self.fork(fork + 1, len(self.instructions), node.greedy)

    def fork(self, again: int, leave: int, greedy: bool) -> _Goto:
        return _Goto((again, leave) if greedy else (leave, again))


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
    """Return the first code points of the intervals that no set divides."""
    bounds = {0, ord("\n"), ord("\n") + 1}
    bounds.update(bound for members in sets for bound in members.bounds)
    return sorted(bounds - {NUM_CODE_POINTS})


class _TableBuilder:
    """Makes the states that can be reached, one after the other."""

    def __init__(
        self, instructions: list[_Instruction], sets: list[CharSet], starts: list[int]
    ) -> None:
        self.instructions = instructions
        # Intervals whose code points belong to the same sets share a column.
        columns: dict[tuple[bool, ...], int] = {}
        self.column_of_interval = [
            columns.setdefault(tuple(start in members for members in sets), len(columns))
            for start in starts
        ]
        self.line_feed = self.column_of_interval[starts.index(ord("\n"))]
        self.end = len(columns)
        if self.end > MAX_COLUMNS:
            raise UnsupportedPatternError(
                f"it tells more than {MAX_COLUMNS} kinds of characters apart"
            )
        self.columns_of_set = {
            members: frozenset(c for key, c in columns.items() if key[index])
            for index, members in enumerate(sets)
        }
        self.work = 0

    def build(self) -> npt.NDArray[np.uint16]:
        """Return the transitions."""
        states: dict[tuple[int, ...], int] = {(): _DEAD, (0,): _START}
        rows: list[list[int]] = []
        points: list[tuple[int, ...]] = [(), (0,)]
        while len(rows) < len(points):
            state = len(rows)
            row = []
            for column in range(self.end + 2):
                matched, following = self.step(points[state], column)
                if matched and state == _START:
                    raise UnsupportedPatternError("it may match the empty string")
                if following not in states:
                    states[following] = len(points)
                    points.append(following)
                row.append(states[following] | (MATCH if matched else 0))
            rows.append(row)
            if len(points) > MAX_STATES:
                raise UnsupportedPatternError(f"its table has more than {MAX_STATES:,} states")
        return np.array(rows, np.uint16)

    def step(self, points: tuple[int, ...], column: int) -> tuple[bool, tuple[int, ...]]:
        """Return whether the pattern matches before a character, and the points after it."""
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
                raise UnsupportedPatternError("its table takes too long to make")
            if point == len(self.instructions):
                return True, tuple(following)
            instruction = self.instructions[point]
            if isinstance(instruction, _Goto):
                todo += reversed(instruction.targets)
            elif isinstance(instruction, _Char):
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
    """Return `block_of` and `blocks` of a SplitProgram."""
    lengths = np.diff([*starts, NUM_CODE_POINTS])
    column_of = np.repeat(np.array(columns, np.uint8), lengths).reshape(-1, BLOCK_SIZE)
    indices: dict[bytes, int] = {}
    block_of = [indices.setdefault(block.tobytes(), len(indices)) for block in column_of]
    blocks = np.frombuffer(b"".join(indices), np.uint8).reshape(-1, BLOCK_SIZE)
    return np.array(block_of, np.uint16), blocks


def _safe_cuts(transitions: npt.NDArray[np.uint16], line_feed: int) -> npt.NDArray[np.bool_]:
    """Return `safe_cuts` of a SplitProgram.

    No match may go on over the cut, from whatever state it reaches it: so a pre-token ends there.
    And the character after the cut must do what the end of the text does, so that the text before
    the cut can be split alone. There is no lookbehind, so the text after the cut always can.
    """
    num_columns = transitions.shape[1]
    end = num_columns - 2
    safe = np.zeros((num_columns, num_columns), bool)
    for before in range(end):
        reached = np.unique(transitions[1:, before] & ~np.uint16(MATCH))
        rows = transitions[reached[reached != _DEAD]]
        dies = ((rows & ~np.uint16(MATCH)) == _DEAD).all(axis=0)
        same = ((rows & MATCH) == (rows[:, end : end + 1] & MATCH)).all(axis=0)
        safe[before] = dies & same
        # As the last character of the text, a line feed is another one.
        safe[before, line_feed] &= safe[before, end + 1]
        if before == line_feed and not np.array_equal(
            transitions[:, before], transitions[:, end + 1]
        ):
            safe[before] = False
    safe[:, end:] = False
    return safe


def _is_complete(transitions: npt.NDArray[np.uint16]) -> bool:
    """Return whether a match follows from the first state, whatever the text."""
    end = transitions.shape[1] - 2
    seen, todo = {_START}, [_START]
    while todo:
        state = todo.pop()
        for column, transition in enumerate(transitions[state].tolist()):
            if transition & MATCH or (state == _START and column == end):
                continue
            if transition == _DEAD:
                return False
            if transition not in seen:
                seen.add(transition)
                todo.append(transition)
    return True
