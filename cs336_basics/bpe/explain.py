"""Text drawings of each trainer's state before a merge, for a few words.

`python -m cs336_basics explain` prints these drawings. docs/stages.md shows them for the course's
example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from unicodedata import east_asian_width

from cs336_basics._support.errors import InputError
from cs336_basics._support.visible import visible
from cs336_basics.bpe import TRAINERS, get_trainer
from cs336_basics.bpe.reference import Pair, Symbols, split_bytes
from cs336_basics.bpe.unbuilt import is_built
from cs336_basics.bpe.v3_heap import Entry
from cs336_basics.counting.word_counts import WordCounts

MOST_BYTES = 500
"""Maximum total length of the distinct words, in bytes. Each byte may become a column."""

_LINE = 110
"""Maximum line length of tables that have a column for each position."""
_NO_COUNT_YET = 2**63 - 1
"""Value of the native loop's threshold before pairs are counted."""


def explain(words: Iterable[bytes], num_merges: int = 2, stage: str | None = None) -> str:
    """Return the merges, followed by the drawings of one or all trainers.

    Args:
        words: Words of a text, including repetitions.
        num_merges: Number of merges before the drawings. Fewer are made if no pair is left.
        stage: A name in TRAINERS. Defaults to all trainers that are built.

    Raises:
        ValueError: If there are no words, the distinct words have more than MOST_BYTES bytes in
            total, or no trainer is named `stage`.
        ImportError: If the trainer is not built.
    """
    word_counts = Counter(words)
    merges, *_, best = _moment("naive", word_counts, num_merges)
    shown = "".join(f" {_pair(pair)}" for pair in merges)
    ended = "" if best else "; no pair is left"
    parts = [f"merges:{shown or ' none'}{ended}"]
    built = [name for name, trainer in TRAINERS.items() if is_built(trainer)]
    for name in built if stage is None else [stage]:
        parts += [name, draw(name, word_counts, num_merges)]
    return "\n\n".join(parts)


def draw(stage: str, word_counts: Mapping[bytes, int], num_merges: int) -> str:
    """Return a drawing of the trainer's state after some merges; see `explain`.

    Args:
        stage: A name in TRAINERS.
        word_counts: Mapping from words to counts. The words must have at most MOST_BYTES bytes in
            total.
        num_merges: Number of merges before the drawing.
    """
    get_trainer(stage)()
    if stage == "memoryview":
        return _draw_memoryview(word_counts, num_merges)
    if stage == "native":
        return _draw_native(word_counts, num_merges)
    moment = _moment(stage, word_counts, num_merges)
    drawings = {"naive": _draw_naive, "incremental": _draw_incremental, "heap": _draw_heap}
    return drawings[stage](moment)


class _Moment(NamedTuple):
    """State of a Python trainer before a merge, and the pair that it merges next."""

    merges: list[Pair]
    words: list[Symbols]
    counts: list[int]
    pair_counts: dict[Pair, int]
    pair_words: dict[Pair, set[int]]
    heap: list[Entry]
    best: Pair | None

    def pairs(self) -> list[tuple[Pair, int]]:
        """Return the pairs and their counts, starting with the next pair to merge."""
        return sorted(self.pair_counts.items(), key=lambda item: (item[1], item[0]), reverse=True)


def _moment(stage: str, word_counts: Mapping[bytes, int], num_merges: int) -> _Moment:
    """Return a Python trainer's state after `num_merges` merges, and the pair to merge next."""
    num_bytes = sum(map(len, word_counts))
    if not num_bytes:
        raise InputError("words must not be empty; try 'low lower widest'")
    if num_bytes > MOST_BYTES:
        longest = _symbol(max(word_counts, key=len)[:20])
        raise InputError(
            f"the distinct words must have at most {MOST_BYTES} bytes in total, got {num_bytes:,} "
            f"(the longest word starts with {longest})"
        )
    trainer: Any = get_trainer(stage)()
    trainer.counts = list(word_counts.values())
    words = [split_bytes(word) for word in word_counts]
    pair_counts = trainer.count_pairs(words)
    merges: list[Pair] = []
    while True:
        heap = sorted(getattr(trainer, "heap", ()))  # copied before the search pops entries
        best: Pair | None = trainer.find_best(pair_counts)
        if best is None or len(merges) == num_merges:
            break
        merges.append(best)
        if stage == "naive":
            words = trainer.merge(words, best)
            pair_counts = trainer.count_pairs(words)
        else:
            trainer.merge(words, best, pair_counts)
    pair_words = getattr(trainer, "pair_words", {})
    return _Moment(merges, words, trainer.counts, pair_counts, pair_words, heap, best)


# --- the drawings --------------------------------------------------------------------------------


def _draw_naive(moment: _Moment) -> str:
    pairs = [(_pair(pair), count) for pair, count in moment.pairs()]
    return f"{_words(moment)}\n\n{_table([('pair', 'count'), *pairs])}\n\n{_maximum(moment)}"


def _draw_incremental(moment: _Moment) -> str:
    pairs = [
        (_pair(pair), count, " ".join(map(str, sorted(moment.pair_words[pair]))))
        for pair, count in moment.pairs()
    ]
    found = _maximum(moment)
    if moment.best:
        *others, last = map(str, sorted(moment.pair_words[moment.best]))
        touched = f"s {', '.join(others)} and {last} are" if others else f" {last} is"
        found += f", so only word{touched} visited"
    return f"{_words(moment)}\n\n{_table([('pair', 'count', 'words'), *pairs])}\n\n{found}"


def _draw_heap(moment: _Moment) -> str:
    rows = []
    for entry in moment.heap:
        count = moment.pair_counts.get(entry.pair, 0)
        note = "" if count == entry.count else "stale"
        rows.append((_pair(entry.pair), entry.count, count, note))
    return _table([("pair", "in the heap", "now", ""), *rows])


def _draw_memoryview(word_counts: Mapping[bytes, int], num_merges: int) -> str:
    from cs336_basics.bpe.v4_memoryview import MergeLoop

    merges = _moment("naive", word_counts, num_merges).merges
    tokens = _tokens(merges)
    loop = MergeLoop(WordCounts.from_mapping(word_counts), TRAINERS["memoryview"]())
    loop.run(len(merges))
    size = len(loop.token)
    alive = set()
    for position in range(size):
        if position == 0 or loop.word[position] != loop.word[position - 1]:
            while position != -1:
                alive.add(position)
                position = loop.next_position[position]

    def row(name: str, values: Sequence[Any]) -> list[str]:
        cells = ["-" if value == -1 else str(value) for value in values]
        return [name, *(cell if p in alive else "." for p, cell in enumerate(cells))]

    pairs, linked = [], set()
    names = [
        _pair((tokens[loop.pair_left[pair]], tokens[loop.pair_right[pair]]))
        for pair in range(loop.num_pairs)
    ]
    for pair, name in enumerate(names):
        occurrences = []
        position = loop.pair_head[pair]
        while position != -1:
            occurrences.append(position)
            position = loop.same_next[position]
        linked.update(occurrences)
        if occurrences:
            pairs.append((name, loop.pair_count[pair], " -> ".join(map(str, occurrences))))
    arrays = _bands(
        [
            ["position", *map(str, range(size))],
            row("token", [_symbol(tokens[token]) for token in loop.token]),
            row("word", loop.word),
            row("previous", loop.previous_position),
            row("next", loop.next_position),
            row("same_next", [loop.same_next[p] if p in linked else -1 for p in range(size)]),
        ]
    )
    heap = [(names[loop.heap_pair[i]], loop.heap_count[i]) for i in range(loop.heap_size)]
    return (
        f"{arrays}\n\n{_table([('pair', 'count', 'linked occurrences'), *pairs])}\n\n"
        f"{_table([('heap', 'count when pushed'), *heap])}"
    )


def _draw_native(word_counts: Mapping[bytes, int], num_merges: int) -> str:
    from cs336_basics.bpe.v5_native import merge_state

    merges = _moment("naive", word_counts, num_merges).merges
    tokens = _tokens(merges)
    threshold, cells, pairs = merge_state(WordCounts.from_mapping(word_counts), len(merges))
    rows = []
    for left, right, count, postings in sorted(pairs, key=lambda pair: -pair[2]):
        width = len(tokens[left])
        # A posting is current if the two tokens of its pair are still adjacent there.
        marked = [
            str(p) if cells[p] == left and cells[p + width] == right else f"{p}*" for p in postings
        ]
        rows.append((_pair((tokens[left], tokens[right])), count, " ".join(marked)))
    names = ["-" if cell == -1 else _symbol(tokens[cell]) for cell in cells]
    drawn = _bands([["position", *map(str, range(len(cells)))], ["cell", *names]])
    kept = f"threshold: {threshold}"
    if threshold == _NO_COUNT_YET:
        kept = "threshold: not set; pairs are counted in the first search for the maximum"
    listed = _table([("pair", "count", "postings (* stale)"), *rows])
    return f"{drawn}\n\n{listed}\n\n{kept}"


def _tokens(merges: list[Pair]) -> list[bytes]:
    return [*split_bytes(bytes(range(256))), *(left + right for left, right in merges)]


def _words(moment: _Moment) -> str:
    numbered = enumerate(zip(moment.words, moment.counts, strict=True))
    rows = [(i, count, " ".join(map(_symbol, symbols))) for i, (symbols, count) in numbered]
    return _table([("word", "count", "symbols"), *rows])


def _maximum(moment: _Moment) -> str:
    return f"the maximum: {_pair(moment.best) if moment.best else 'none, no pair is left'}"


# --- text ----------------------------------------------------------------------------------------


def _symbol(symbol: bytes) -> str:
    """Return a symbol as printable text. Quote "." and "-", which the drawings use as marks."""
    text = visible(symbol)
    return f"'{text}'" if text in (".", "-") else text


def _pair(pair: Pair) -> str:
    return f"({_symbol(pair[0])}, {_symbol(pair[1])})"


def _width(text: str) -> int:
    """Return the number of terminal columns that the text occupies."""
    return len(text) + sum(east_asian_width(character) in "WF" for character in text)


def _table(rows: Iterable[Iterable[object]]) -> str:
    """Format rows as text with left-aligned columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    padded = [
        [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        for row in cells
    ]
    return "\n".join("  ".join(row).rstrip() for row in padded)


def _bands(rows: list[list[str]]) -> str:
    """Format a table with a column for each position, as several tables if it is too wide."""
    names, *columns = zip(*rows, strict=True)
    bands: list[list[tuple[str, ...]]] = []
    width = _LINE
    for column in columns:
        needed = 2 + max(map(_width, column))
        if width + needed > _LINE:
            bands.append([names])
            width = max(map(_width, names))
        bands[-1].append(column)
        width += needed
    return "\n\n".join(_table(zip(*band, strict=True)) for band in bands)
