"""One table for a sequence of splits, so that sequences run as fast as other compiled patterns.

The parts of a text that a split produces are its *matches* and, between them, *gaps*. A reader of
one split reads a text from left to right and guesses, before each character, whether a part ends
there. Its state checks the guesses later: it contains the state of the current match, and the
*forbidden* states, where a longer match or an earlier match would prove a guess wrong. Exactly
one series of guesses is right for each text. (Such a reader is an unambiguous automaton.)

The reader of a sequence is one reader for each split. At a boundary of the first split, the text of
the second one ends, so its reader must accept the end of a text there, and starts again.

The table is the deterministic version of this reader (Rabin and Scott 1959): each state is the set
of all states that are still possible within the first pre-token. The matcher of a table takes the
last possible end of a pre-token. Where an earlier end is still possible, too, the table leads to a
state called *trouble*, and the reader itself finds the next ends: it follows all guesses until only
one is left, which takes longer. If a text is not always split in the same way after a pre-token as
at its start, the reader does all the work, because a table starts again after each pre-token.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from cs336_basics.splitting.patterns.pattern_syntax import UnsupportedPatternError

MATCH = 1 << 15
"""Bit of a transition that is set if the pattern matches the text before the next character."""

DEAD = 0
"""Index of the row from which there is no match."""

FIRST = 1
"""Index of the row where the search for a match starts."""

ENDS = 1 << 15
"""Bit of a move of a reader that is set if a pre-token ends before the character."""

_TROUBLE = MATCH - 1  # until the row has a number

MAX_WORK = 600_000
"""Maximum number of transitions to compute, about a second of work."""

MAX_STATES = 2_000
"""Maximum number of states of a table or a reader."""

Rows = list[list[int]]
"""The table of a split: see `SplitProgram.transitions`."""

_Moves = list[list[list[tuple[bool, int]]]]
"""By state and column: whether a part ends before the character, and the next state."""

# What the reader guesses about a line feed, if the split distinguishes the last one of a text.
_ANY, _IS_LAST, _IS_NOT_LAST = range(3)


class Level(NamedTuple):
    """One split of a sequence, as a table."""

    rows: Rows
    behavior: str
    """See `split_sequences.Split`."""
    invert: bool


class _Work:
    """Counts transitions, and stops the computation if there are too many."""

    def __init__(self) -> None:
        self._left = MAX_WORK

    def add(self, number: int = 1) -> None:
        self._left -= number
        if self._left < 0:
            raise UnsupportedPatternError("the splits take too long to combine")


class _Reader(NamedTuple):
    """The reader of one split, or of a sequence. The first state is 0."""

    moves: _Moves
    accepts: list[bool]
    """Whether a text may end in each state."""


class SequenceReader(NamedTuple):
    """The reader of a sequence, for texts that the table cannot split."""

    trouble: int
    """The state of the table that asks for the reader."""
    move_ends: array[int]
    """The end of the moves from each state in each column, shape (num_states, num_columns - 1),
    uint32. The columns are the columns of the table, without the end of the text."""
    moves: array[int]
    """The next state of each move, uint16, plus ENDS if a pre-token ends before the character."""
    accepts: bytes
    """Whether a text may end in each state: 0 or 1."""
    starts_again: bool
    """Whether a text is always split in the same way after a pre-token as at its start."""


class Composition(NamedTuple):
    """A sequence of splits as one split."""

    rows: Rows
    new_columns: list[int]
    """The column of the table for each column of the splits."""
    reader: SequenceReader | None
    """None if the table splits all texts."""


def compose(levels: Sequence[Level], line_feed: int) -> Composition:
    """Return the table, and the reader if it is needed, of a sequence of splits.

    Args:
        levels: The splits, with the same columns.
        line_feed: Column of the line feed, which contains no other character.

    Raises:
        UnsupportedPatternError: If the table is too large.
    """
    work = _Work()
    readers = [
        _reader_of_level(level, line_feed, work, guesses=index > 0)
        for index, level in enumerate(levels)
    ]
    reader = _trimmed(_combined(readers, work))
    rows, restarts = _determinized(reader, work)
    starts_again = _starts_again(reader, restarts, work)
    if not starts_again:
        width = len(rows[0])
        rows = [[0] * width, [_TROUBLE] * width]
    rows, trouble = _minimized(rows)
    if not trouble:
        rows, new_columns = _without_equal_columns(rows, rows)
        return Composition(rows, new_columns, None)
    moves = [
        [tuple(found) for found in (*of_state[:-1], [], of_state[-1])] for of_state in reader.moves
    ]
    rows, new_columns = _without_equal_columns(rows, [*rows, *moves])
    return Composition(rows, new_columns, _packed(reader, new_columns, trouble, starts_again))


def _packed(
    reader: _Reader, new_columns: list[int], trouble: int, starts_again: bool
) -> SequenceReader:
    old_columns = {new: old for old, new in enumerate(new_columns)}
    kept = [*(old_columns[new] for new in range(len(old_columns))), len(new_columns)]
    move_ends, moves = array("I"), array("H")
    for of_state in reader.moves:
        for column in kept:
            moves.extend(state | (ENDS if ends else 0) for ends, state in of_state[column])
            move_ends.append(len(moves))
    return SequenceReader(trouble, move_ends, moves, bytes(reader.accepts), starts_again)


# ------------------------------------------------------------------ one split


def _reader_of_level(level: Level, line_feed: int, work: _Work, *, guesses: bool) -> _Reader:
    """Return the reader of one split.

    Args:
        level: The split.
        line_feed: Column of the line feed.
        work: Counter.
        guesses: Whether the text of the split may end after any line feed.
    """
    rows = level.rows
    end = len(rows[0]) - 2
    last_line_feed = end + 1
    line_feeds_differ = any(row[line_feed] != row[last_line_feed] for row in rows)
    # A state: the match's state (DEAD in a gap), the forbidden states, and a guess on a line feed.
    # At the start, there is no part before the first one.
    start = (-1, frozenset[int](), _ANY)
    numbers = {start: 0}
    states = [start]
    moves: _Moves = []
    accepts = []

    def options(column: int) -> list[tuple[int, int]]:
        """Return the columns to read a character in, each with the guess that it implies."""
        if not line_feeds_differ or column not in (line_feed, last_line_feed):
            return [(column, _ANY)]
        if column == last_line_feed:
            return [(column, _IS_LAST)]
        if not guesses:
            return [(column, _ANY)]
        return [(column, _IS_NOT_LAST), (last_line_feed, _IS_LAST)]

    while len(moves) < len(states):
        current, forbidden, guess = states[len(moves)]
        of_state: list[list[tuple[bool, int]]] = []
        for column in (*range(end), last_line_feed):
            found: list[tuple[bool, int]] = []
            for read, next_guess in () if guess == _IS_LAST else options(column):
                work.add(1 + len(forbidden))
                later = set()
                for row in forbidden:
                    if rows[row][read] & MATCH:
                        break
                    later.add(rows[row][read])
                else:
                    for ends, state, more in _steps(rows, current, read, level):
                        key = (state, frozenset((later | more) - {DEAD}), next_guess)
                        number = numbers.setdefault(key, len(states))
                        if number == len(states):
                            states.append(key)
                        found.append((ends, number))
            of_state.append(found)
        moves.append(of_state)
        accepts.append(
            current != -1
            and guess != _IS_NOT_LAST
            and (current == DEAD or bool(rows[current][end] & MATCH))
            and not any(rows[row][end] & MATCH for row in forbidden)
        )
    return _trimmed(_Reader(moves, accepts))


def _steps(
    rows: Rows, current: int, column: int, level: Level
) -> Iterable[tuple[bool, int, set[int]]]:
    """Yield what may happen when a character is read.

    Yields whether a part ends before it, the state of the match, and the states that are forbidden
    from now on.
    """
    first = rows[FIRST][column]  # of a match that starts here
    if current == DEAD:
        yield False, DEAD, {first}
    elif current == -1:
        yield True, DEAD, {first}
    elif rows[current][column] & ~MATCH:  # the match goes on
        yield False, rows[current][column] & ~MATCH, set()
    if current in (DEAD, -1):
        if first:
            yield current == -1 or _is_boundary(level, False, True), first, set()
    elif rows[current][column] & MATCH:
        longer = rows[current][column] & ~MATCH
        if first:
            yield _is_boundary(level, True, True), first, {longer}
        yield _is_boundary(level, True, False), DEAD, {longer, first}


def _is_boundary(level: Level, before: bool, after: bool) -> bool:
    """Return whether two adjacent parts, matches or gaps, are different pieces."""
    if level.invert:
        before, after = not before, not after
    if level.behavior == "Contiguous":
        return before != after
    if level.behavior == "MergedWithPrevious":
        return before or not after
    if level.behavior == "MergedWithNext":
        return after or not before
    return True


# ------------------------------------------------------------------ all splits


def _combined(readers: list[_Reader], work: _Work) -> _Reader:
    """Return the reader of a sequence. It has no column for the end of the text."""
    num_columns = len(readers[0].moves[0])
    known: dict[tuple[tuple[int, ...], int], list[tuple[bool, tuple[int, ...]]]] = {}

    def moves_from(states: tuple[int, ...], column: int) -> list[tuple[bool, tuple[int, ...]]]:
        """Return the moves of the last readers, which are in these states."""
        if not states:
            return [(False, ())]
        key = states, column
        if key in known:
            return known[key]
        reader = readers[-len(states)]
        found: list[tuple[bool, tuple[int, ...]]] = []
        rest = states[1:]
        for ends, state in reader.moves[states[0]][column]:
            if not ends:
                found += [(end, (state, *more)) for end, more in moves_from(rest, column)]
            elif states[0] == 0 or all(map(_accepts, readers[len(readers) - len(rest) :], rest)):
                again = moves_from((0,) * len(rest), column)
                found += [(True, (state, *more)) for _, more in again]
        work.add(1 + len(found))  # `known` takes memory for each
        known[key] = found
        return found

    start = (0,) * len(readers)
    numbers = {start: 0}
    states = [start]
    moves: _Moves = []
    while len(moves) < len(states):
        of_state = []
        for column in range(num_columns):
            found = []
            for ends, state in moves_from(states[len(moves)], column):
                work.add()
                number = numbers.setdefault(state, len(states))
                if number == len(states):
                    states.append(state)
                found.append((ends, number))
            of_state.append(found)
        if len(states) > MAX_STATES:
            raise UnsupportedPatternError(f"their reader has more than {MAX_STATES:,} states")
        moves.append(of_state)
    return _Reader(moves, [all(map(_accepts, readers, state)) for state in states])


def _accepts(reader: _Reader, state: int) -> bool:
    return reader.accepts[state]


def _trimmed(reader: _Reader) -> _Reader:
    """Leave out the states from which a reader cannot accept any text."""
    before: list[list[int]] = [[] for _ in reader.moves]
    for state, of_state in enumerate(reader.moves):
        for found in of_state:
            for _, after in found:
                before[after].append(state)
    kept = {state for state, accepts in enumerate(reader.accepts) if accepts}
    waiting = list(kept)
    while waiting:
        for state in before[waiting.pop()]:
            if state not in kept:
                kept.add(state)
                waiting.append(state)
    kept.add(0)
    numbers = {state: number for number, state in enumerate(sorted(kept))}
    return _Reader(
        [
            [
                [(ends, numbers[after]) for ends, after in found if after in kept]
                for found in reader.moves[state]
            ]
            for state in numbers
        ],
        [reader.accepts[state] for state in numbers],
    )


# ------------------------------------------------------------------ the table


def _determinized(reader: _Reader, work: _Work) -> tuple[Rows, set[tuple[int, int]]]:
    """Return the table of the first pre-token, and where the reader can be after it.

    The latter are pairs of a column and the state after a character in it.
    """
    last = len(reader.moves[0]) - 1  # the column of a line feed at the end of the text
    dead = frozenset[int]()
    start = frozenset([0])
    # The possible states within the pre-token -> its row. The states after a line feed at the end
    # of the text are negative.
    numbers: dict[frozenset[int], int] = {dead: DEAD, start: FIRST}
    restarts: set[tuple[int, int]] = set()

    def number_of(state: frozenset[int]) -> int:
        number = numbers.setdefault(state, len(numbers))
        if number >= MAX_STATES:
            raise UnsupportedPatternError(f"their table has more than {MAX_STATES:,} states")
        return number

    def move(state: frozenset[int], column: int) -> tuple[frozenset[int], frozenset[int]]:
        """Return the states after a character within the pre-token, and in the next one."""
        work.add(len(state))
        within: set[int] = set()
        after: set[int] = set()
        for one in state:
            for ends, following in reader.moves[one][column]:
                if column < last or reader.accepts[following]:
                    (after if ends and one != 0 else within).add(following)
        return frozenset(within), frozenset(after)

    # All states that are possible together: within the pre-token, and after its last end so far.
    pairs = [(start, dead)]
    seen = set(pairs)
    rows_of: dict[frozenset[int], list[int]] = {dead: [0] * (last + 2)}
    for state, candidate in pairs:
        row = rows_of.setdefault(state, [])
        for column in range(last + 1):
            within, after = move(state, column)
            earlier = frozenset().union(*move(candidate, column))
            if column == last:
                found = number_of(frozenset(-1 - one for one in within)) | (MATCH if after else 0)
            elif after and earlier:
                found = _TROUBLE
            else:
                found = number_of(within) | (MATCH if after else 0)
                restarts.update((column, one) for one in after)
                pair = within, after or earlier
                if within and pair not in seen:
                    work.add()
                    seen.add(pair)
                    pairs.append(pair)
            if len(row) <= column:
                row.append(found)
            elif found == _TROUBLE:  # whether an earlier end is possible depends on the candidate
                row[column] = found
        if len(row) == last + 1:
            is_end = any(reader.accepts[one] for one in state)
            row.insert(last, MATCH if is_end else 0)
    # After a line feed at the end, only the end of the text is read.
    rows = [rows_of.get(state) or [MATCH] * (last + 2) for state in numbers]
    return rows, restarts


def _starts_again(reader: _Reader, restarts: set[tuple[int, int]], work: _Work) -> bool:
    """Return whether the text after a pre-token is always split as it would be at a text's start.

    Args:
        reader: Reader of the sequence.
        restarts: See `_determinized`.
        work: Counter.
    """
    last = len(reader.moves[0]) - 1
    # Pairs of states of two readers, where the second started where the pre-token ended, and
    # whether they have found different boundaries.
    pairs = {
        (one, other, False) for column, one in restarts for _, other in reader.moves[0][column]
    }
    waiting = list(pairs)
    while waiting:
        one, other, differ = waiting.pop()
        if one == other and not differ:
            continue  # they read the rest in the same way
        if differ and reader.accepts[one] and reader.accepts[other]:
            return False
        for column in range(last + 1):
            for ends, next_one in reader.moves[one][column]:
                for ends_other, next_other in reader.moves[other][column]:
                    work.add()
                    pair = (next_one, next_other, differ or ends != ends_other)
                    if pair not in pairs:
                        pairs.add(pair)
                        waiting.append(pair)
    return True


def _minimized(rows: Rows) -> tuple[Rows, int]:
    """Join the rows that find the same matches (Moore 1956).

    Returns the new table, and the number of the row for _TROUBLE, or 0 if there is none.
    """
    width = len(rows[0])
    has_trouble = any(_TROUBLE in row for row in rows)
    if has_trouble:
        trouble = len(rows)
        rows = [[trouble if to == _TROUBLE else to for to in row] for row in rows]
        rows.append([trouble] * width)
    # The dead row, the first one and the one for trouble stay apart.
    groups = [min(index, 2) for index in range(len(rows))]
    if has_trouble:
        groups[-1] = 3
    while True:
        keys: dict[tuple[int, ...], int] = {}
        found = [
            keys.setdefault((group, *(groups[to & ~MATCH] | (to & MATCH) for to in row)), len(keys))
            for group, row in zip(groups, rows, strict=True)
        ]
        if len(set(found)) == len(set(groups)):
            break
        groups = found
    groups = found
    first_of = dict(reversed(list(zip(groups, rows, strict=True))))
    joined = [
        [groups[to & ~MATCH] | (to & MATCH) for to in first_of[group]]
        for group in range(len(first_of))
    ]
    return joined, groups[-1] if has_trouble else 0


def _without_equal_columns(rows: Rows, compared: Sequence[Sequence[Any]]) -> tuple[Rows, list[int]]:
    """Return a table with one column for all equal ones, and the new number of each column.

    Columns are equal if they are equal in all rows of `compared`. The last two, which stand for the
    end of the text, stay apart.
    """
    numbers: dict[tuple[Any, ...], int] = {}
    keys = list(zip(*compared, strict=True))
    new_columns = [numbers.setdefault(key, len(numbers)) for key in keys[:-2]]
    columns = list(zip(*rows, strict=True))
    first_of = {new: columns[old] for old, new in reversed(list(enumerate(new_columns)))}
    kept = [*(first_of[new] for new in range(len(numbers))), *columns[-2:]]
    return [list(row) for row in zip(*kept, strict=True)], new_columns
