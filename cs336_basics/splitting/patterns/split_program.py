"""Split patterns compiled into tables that match text in linear time.

`native/scanning/split_program.hpp` runs the tables.

A backtracking matcher tries one alternative after another. The table tries all of them at once. A
*state* lists all points in the pattern that can be reached with the characters read so far, in the
order a backtracking matcher would try them (Thompson 1968; for the order, Cox 2009,
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
from array import array
from bisect import bisect_right
from dataclasses import dataclass, replace

from cs336_basics.splitting.patterns.char_sets import NUM_CODE_POINTS, CharSet, named_set
from cs336_basics.splitting.patterns.composition import (
    DEAD,
    FIRST,
    MATCH,
    Level,
    SequenceReader,
    compose,
)
from cs336_basics.splitting.patterns.named_patterns import (
    FROM_THE_RIGHT,
    PATTERNS,
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
from cs336_basics.splitting.patterns.split_sequences import (
    BEHAVIORS,
    Split,
    is_sequence,
    splits_of,
)
from cs336_basics.splitting.patterns.superwords import pattern_of_superwords

BLOCK_SIZE = 64
"""Number of code points per block. Their UTF-8 encodings differ only in the last byte."""

MAX_INSTRUCTIONS = 2_000
MAX_COLUMNS = 250
MAX_STATES = 2_000
MAX_WORK = 1_000_000
"""Maximum number of instructions to visit when building a table, about a second of work."""


@dataclass(frozen=True, eq=False)
class SplitProgram:
    """A compiled split pattern.

    Attributes:
        expression: Regular expression.
        num_columns: Number of columns. The last two stand for the end of the text and for a line
            feed that is the last character of the text.
        transitions: Rows of `num_columns` uint16, one for each state. Next state, or 0 if no match
            can follow, plus MATCH if the pattern matches the text before the character. The first
            state is 1.
        block_of: (0x110000 / BLOCK_SIZE,) uint16. The index is a code point divided by BLOCK_SIZE;
            the value is the code point's block in `blocks`.
        blocks: Blocks of BLOCK_SIZE bytes: the columns of the code points in a block.
        safe_cuts: `num_columns` rows of `num_columns` bytes. The byte in row a, column b is 1 if a
            pre-token always ends between a character in column a and one in column b, and the text
            before this boundary is split in the same way if nothing follows it.
        matches_all_text: Whether the pattern matches every character of every text. Any other
            text becomes pre-tokens as it is.
        threes: `num_columns` bytes, for patterns with FROM_THE_RIGHT. The byte of a column with
            numbers is 1. A match that ends with a number is cut into groups of three digits from
            the right; the first pre-token contains the remaining digits and any text before them.
            If None, every match is one pre-token.
        reader: For a sequence of splits, the reader that finds the pre-tokens that the table cannot
            find (see composition.py). None if there are none.
    """

    expression: str
    num_columns: int
    transitions: array[int]
    block_of: array[int]
    blocks: bytes
    safe_cuts: bytes
    matches_all_text: bool
    threes: bytes | None = None
    reader: SequenceReader | None = None

    @property
    def num_states(self) -> int:
        """Number of states, including the state 0."""
        return len(self.transitions) // self.num_columns

    def column_of(self, character: str) -> int:
        """Return the column of a character that is not the last one in its text."""
        code = ord(character)
        return self.blocks[self.block_of[code // BLOCK_SIZE] * BLOCK_SIZE + code % BLOCK_SIZE]

    def ascii_before(self, after: int) -> list[int]:
        """Return the ASCII codes after which text can be cut before the code `after`."""
        safe = self.safe_cuts[self.column_of(chr(after)) :: self.num_columns]
        return [before for before in range(128) if safe[self.column_of(chr(before))]]

    def is_safe_cut(self, before: str, after: str) -> bool:
        """Return whether text can always be cut between two characters; see `safe_cuts`."""
        return bool(
            self.safe_cuts[self.column_of(before) * self.num_columns + self.column_of(after)]
        )


# Patterns whose matches that end with a number are cut into groups of three from the right.
_FROM_THE_RIGHT = {
    expression
    for pattern in PATTERNS.values()
    if FROM_THE_RIGHT in pattern
    for expression in (pattern, pattern_of_superwords(pattern))
}


@functools.lru_cache(maxsize=32)
def compile_program(expression: str) -> SplitProgram:
    """Compile a split pattern.

    Args:
        expression: Regular expression that `regex` accepts.

    Raises:
        UnsupportedPatternError: If the pattern is too large, can match the empty string, or has a
            part that cannot be compiled.
    """
    if expression in _FROM_THE_RIGHT:
        program = compile_program(expression.replace(FROM_THE_RIGHT, r"\p{N}+"))
        number = named_set("N")
        assert number is not None
        columns = {program.column_of(chr(code)) for code in number.bounds[::2]}
        threes = bytes(column in columns for column in range(program.num_columns))
        return replace(program, expression=expression, threes=threes)
    splits = splits_of(expression) if is_sequence(expression) else [Split(expression)]
    if any(split.behavior not in BEHAVIORS for split in splits):
        raise UnsupportedPatternError("it changes the text")
    parts = [_instructions_of(split.expression) for split in splits]
    sets = dict.fromkeys(
        instruction.members
        for part in parts
        for instruction in part
        if isinstance(instruction, (Chars, Next))
    )
    if is_sequence(expression):
        sets[CharSet.of("\n")] = None
    intervals = _Intervals(list(sets))
    tables = [_TableBuilder(part, intervals).build() for part in parts]
    line_feed = intervals.column_of(ord("\n"))
    block_of, blocks = intervals.blocks()
    rows, reader = tables[0], None
    starts_match = _starts_match(rows)
    if is_sequence(expression):
        levels = [
            Level(rows, split.behavior, split.invert)
            for rows, split in zip(tables, splits, strict=True)
        ]
        rows, new_columns, reader = compose(levels, line_feed)
        blocks = blocks.translate(bytes(new_columns).ljust(256, b"\0"))
        line_feed = new_columns[line_feed]
        starts_match = [True] * (len(rows[0]) - 1)
    return SplitProgram(
        expression,
        len(rows[0]),
        array("H", [transition for row in rows for transition in row]),
        block_of,
        blocks,
        _safe_cuts(rows, starts_match, line_feed),
        all(starts_match),
        reader=reader,
    )


def _instructions_of(expression: str) -> list[_Instruction]:
    assembler = _Assembler()
    assembler.add(parse(expression))
    return assembler.instructions


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


class _Intervals:
    """The intervals of code points that no set divides, and their columns.

    Intervals that belong to the same sets share a column.
    """

    def __init__(self, sets: list[CharSet]) -> None:
        changes = {0: 0, ord("\n"): 0, ord("\n") + 1: 0}
        for index, members in enumerate(sets):
            for bound in members.bounds:
                changes[bound] = changes.get(bound, 0) ^ (1 << index)
        changes.pop(NUM_CODE_POINTS, None)
        self.starts = sorted(changes)
        columns: dict[int, int] = {}  # bit mask of sets -> column
        self.columns = []
        mask = 0
        for start in self.starts:
            mask ^= changes[start]
            self.columns.append(columns.setdefault(mask, len(columns)))
        self.num_columns = len(columns)
        self.columns_of_set = {
            members: frozenset(c for mask, c in columns.items() if mask >> index & 1)
            for index, members in enumerate(sets)
        }

    def column_of(self, code: int) -> int:
        """Return the column of a code point."""
        return self.columns[bisect_right(self.starts, code) - 1]

    def blocks(self) -> tuple[array[int], bytes]:
        """Return a SplitProgram's `block_of` and `blocks`."""
        indices: dict[bytes, int] = {}
        block_of = array("H")
        block = b""  # the part of the current block that is known
        for start, end, column in zip(
            self.starts, [*self.starts[1:], NUM_CODE_POINTS], self.columns, strict=True
        ):
            length = end - start
            if block or length < BLOCK_SIZE:
                missing = min(length, BLOCK_SIZE - len(block))
                block += bytes([column]) * missing
                length -= missing
                if len(block) < BLOCK_SIZE:
                    continue
                block_of.append(indices.setdefault(block, len(indices)))
                block = b""
            if whole := length // BLOCK_SIZE:
                index = indices.setdefault(bytes([column]) * BLOCK_SIZE, len(indices))
                block_of.extend([index] * whole)
            block = bytes([column]) * (length % BLOCK_SIZE)
        return block_of, b"".join(indices)


class _TableBuilder:
    """Builds the transitions of all reachable states."""

    def __init__(self, instructions: list[_Instruction], intervals: _Intervals) -> None:
        self.instructions = instructions
        self.line_feed = intervals.column_of(ord("\n"))
        self.end = intervals.num_columns
        if self.end > MAX_COLUMNS:
            raise UnsupportedPatternError(
                f"it distinguishes more than {MAX_COLUMNS} kinds of characters"
            )
        self.columns_of = [  # by instruction
            frozenset[int]()
            if isinstance(instruction, _Goto)
            else intervals.columns_of_set[instruction.members]
            for instruction in instructions
        ]
        self.work = 0

    def build(self) -> list[list[int]]:
        """Return the rows of a SplitProgram's `transitions`."""
        states: dict[tuple[int, ...], int] = {(): DEAD, (0,): FIRST}
        rows: list[list[int]] = []
        points: list[tuple[int, ...]] = [(), (0,)]
        while len(rows) < len(points):
            state = len(rows)
            row = []
            for column in range(self.end + 2):
                matched, following = self.step(points[state], column)
                if matched and state == FIRST:
                    raise UnsupportedPatternError("it can match the empty string")
                if following not in states:
                    states[following] = len(points)
                    points.append(following)
                row.append(states[following] | (MATCH if matched else 0))
            rows.append(row)
            if len(points) > MAX_STATES:
                raise UnsupportedPatternError(f"its table has more than {MAX_STATES:,} states")
        return rows

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
                if not at_end and plain in self.columns_of[point]:
                    following[point + 1] = None
            elif (
                (at_end and instruction.end)
                or (last_line_feed and instruction.last_line_feed)
                or (not at_end and plain in self.columns_of[point])
            ):
                todo.append(point + 1)
        return False, tuple(following)


def _starts_match(rows: list[list[int]]) -> list[bool]:
    """Return, for each column of characters, whether every text that starts with it has a match.

    The match must start at the start of the text. The column of the end of the text is not
    included, so the result has one item less than there are columns, and the last one is the
    column of a line feed that is the last character.
    """
    may_fail = {DEAD}
    # A state may fail if one of its transitions, without a match, leads to such a state.
    following = [{transition for transition in row if transition < MATCH} for row in rows]
    while found := {
        state
        for state, states in enumerate(following)
        if state not in may_fail and not may_fail.isdisjoint(states)
    }:
        may_fail |= found
    first = rows[FIRST]
    return [transition not in may_fail for transition in (*first[:-2], first[-1])]


def _safe_cuts(rows: list[list[int]], starts_match: list[bool], line_feed: int) -> bytes:
    """Return a SplitProgram's `safe_cuts`.

    A cut is safe if, from any state, no match continues across it, and if the character after the
    cut has the same effect as the end of the text, so that the text before the cut can be split on
    its own. The text after the cut can always be split on its own, because there is no lookbehind.
    Text without a match must not continue across the cut either, so a match must start after the
    cut or end before it, whatever the text.
    """
    num_columns = len(rows[0])
    end = num_columns - 2
    # For each state, a bit mask of the columns after which a cut before them would be safe.
    safe_after = []
    for row in rows:
        at_end = row[end] & MATCH
        dies = (column for column in range(num_columns) if row[column] == at_end)
        safe_after.append(sum(1 << column for column in dies))
    always = sum(1 << column for column, starts in enumerate(starts_match[:-1]) if starts)
    last_line_feed_starts = starts_match[-1]
    reached = [rows[state] for state in _reached_inside(rows)]
    safe = bytearray(num_columns * num_columns)
    for before in range(end):
        mask = (1 << end + 2) - 1
        for state in {row[before] & ~MATCH for row in reached} - {DEAD}:
            mask &= safe_after[state]
        # The character before the cut, if no earlier match contains it, is a match.
        alone = sum(
            1 << column
            for column, transition in enumerate(rows[rows[FIRST][before] & ~MATCH])
            if transition & MATCH
        )
        starts = always | last_line_feed_starts << end + 1
        mask &= starts | alone
        if not mask >> end + 1 & 1:
            mask &= ~(1 << line_feed)
        # A line feed at the end of the text may have another effect than in its middle. Other
        # characters of its column do not.
        if before == line_feed and any(row[before] != row[end + 1] for row in reached):
            mask &= sum(
                1 << after
                for after in range(end)
                if after != line_feed
                and starts_match[after]
                and _is_safe_after_line_feed(rows, reached, line_feed, after)
            )
        for after in range(end):
            safe[before * num_columns + after] = mask >> after & 1
    return bytes(safe)


def _reached_inside(rows: list[list[int]]) -> set[int]:
    """Return the states that are reached before the last character of a text."""
    found, waiting = {FIRST}, [FIRST]
    while waiting:
        following = {transition & ~MATCH for transition in rows[waiting.pop()][:-2]}
        waiting += following - found - {DEAD}
        found |= following - {DEAD}
    return found


def _is_safe_after_line_feed(
    rows: list[list[int]], reached: list[list[int]], line_feed: int, after: int
) -> bool:
    """Return whether a cut between a line feed and a character is safe; see `_safe_cuts`.

    From every state in `reached`, the last match in the text up to the line feed must be the same
    whether the text ends there or the character follows. Then the rest of the text, which is
    searched from the end of this match, ends in the same way.
    """
    end = len(rows[0]) - 2
    for row in reached:
        last, inner = row[end + 1], row[line_feed]
        following = rows[inner & ~MATCH][after]
        matches = bool(rows[last & ~MATCH][end] & MATCH)
        if following & ~MATCH or matches != bool(following & MATCH):
            return False
        if not matches and (last ^ inner) & MATCH:
            return False
    return True
