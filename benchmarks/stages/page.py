"""Fills docs/stages.md with lines of the source and the worked example, so that neither drifts.

    python -m benchmarks.stages.page

    <!-- source: FILE NAME -->     a function, as it is in the file; NAME may be Class.method
    <!-- example: STAGE -->        what the stage holds after two merges of the course's example
    <!-- /source -->, <!-- /example -->

`tests/benchmarks/test_page.py` fails when the page is not what this program writes. (The
tables of the page are filled by `benchmarks/report`.)
"""

import copy
import re
import textwrap
from pathlib import Path

from benchmarks.machine import ROOT
from cs336_basics import TRAINERS
from cs336_basics.bpe.v4_memoryview import MergeLoop
from cs336_basics.bpe.v5_native import merge_state
from cs336_basics.pretokenization import WordCounts

PAGE = ROOT / "docs" / "stages.md"
SOURCE = re.compile(r"(<!-- source: (\S+) (\S+) -->\n).*?(<!-- /source -->)", re.DOTALL)
EXAMPLE = re.compile(r"(<!-- example: (\S+) -->\n).*?(<!-- /example -->)", re.DOTALL)

WORDS = {b"low": 5, b"lower": 2, b"widest": 3, b"newest": 6}
MERGES = 2
"""Merges before the state that is drawn: (s, t) and (e, st)."""


def main():
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{PAGE} is up to date")


def fill(page):
    """Return a page with its source and example blocks filled."""
    page = SOURCE.sub(lambda m: m[1] + fenced(*source(m[2], m[3])) + m[4], page)
    return EXAMPLE.sub(lambda m: m[1] + fenced(EXAMPLES[m[2]](), "text") + m[3], page)


def fenced(text, language):
    return f"```{language}\n{text.strip(chr(10))}\n```\n"


# --- lines of the source -------------------------------------------------------------------------


def source(file, name):
    """Return a function's lines, without the indentation that all of them have, and the language.

    Raises:
        ValueError: the file has no such function.
    """
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    language = {".py": "python", ".pyx": "cython", ".hpp": "cpp"}[Path(file).suffix]
    keyword = r"\s+[\w:<>&* ]+" if language == "cpp" else r"\s*(cp?def|def|class)\b[^(]*"
    start, end = 0, len(lines)
    for part in name.split("."):
        begins = re.compile(rf"{keyword}\b{part}\([^;]*$")
        start = next((i for i in range(start, end) if begins.match(lines[i])), None)
        if start is None:
            raise ValueError(f"{file} has no function {name}: correct the block in {PAGE.name}")
        end = end_of(lines, start)
    return textwrap.dedent("\n".join(lines[start:end]).rstrip()), language


def end_of(lines, start):
    """Return the line after a function or class: the first that is not indented further."""
    indent = indent_of(lines[start])
    end = start + 1
    while end < len(lines) and (not lines[end] or indent_of(lines[end]) > indent):
        end += 1
    closing = lines[end].strip() if end < len(lines) else ""
    if closing.startswith(")"):  # the parameters stand on lines of their own
        return end_of(lines, end)
    return end + (closing == "}")


def indent_of(line):
    return len(line) - len(line.lstrip())


# --- the worked example --------------------------------------------------------------------------


def caught(stage, step):
    """Run a stage; return what it holds when it begins a step of the merge after MERGES."""
    seen = []

    class Caught(TRAINERS[stage]):
        def find_best(self, pair_counts):
            self.found = pair_counts
            if step == "find_best":
                seen.append(copy.deepcopy({**vars(self), "pair_counts": pair_counts}))
            return super().find_best(pair_counts)

        def merge(self, words, best, *state):
            held = {**vars(self), "words": words, "pair_counts": self.found, "best": best}
            if step == "merge":
                seen.append(copy.deepcopy(held))
            return super().merge(words, best, *state)

    Caught().train_from_counts(WORDS, 256 + MERGES + 1)
    return seen[MERGES]


def shown(pair):
    return f"({pair[0].decode()}, {pair[1].decode()})"


def table(header, rows):
    """Return rows as text, in columns that are aligned to the left."""
    rows = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def words_of(state):
    rows = [
        (index, count, " ".join(symbol.decode() for symbol in symbols))
        for index, (symbols, count) in enumerate(zip(state["words"], state["counts"], strict=True))
    ]
    return table(("word", "count", "symbols"), rows)


def by_count(pair_counts):
    return sorted(pair_counts.items(), key=lambda item: (item[1], item[0]), reverse=True)


def naive():
    state = caught("naive", "merge")
    pairs = [(shown(pair), count) for pair, count in by_count(state["pair_counts"])]
    found = f"the maximum: {shown(state['best'])}"
    return f"{words_of(state)}\n\n{table(('pair', 'count'), pairs)}\n\n{found}"


def incremental():
    state = caught("incremental", "merge")
    pairs = [
        (shown(pair), count, " ".join(map(str, sorted(state["pair_words"][pair]))))
        for pair, count in by_count(state["pair_counts"])
    ]
    touched = " and ".join(map(str, sorted(state["pair_words"][state["best"]])))
    found = f"the maximum: {shown(state['best'])}, so only words {touched} are read"
    return f"{words_of(state)}\n\n{table(('pair', 'count', 'words'), pairs)}\n\n{found}"


def heap():
    state = caught("heap", "find_best")
    rows = []
    for entry in sorted(state["heap"]):
        count = state["pair_counts"].get(entry.pair, 0)
        note = "" if count == entry.count else "out of date"
        rows.append((shown(entry.pair), entry.count, count, note))
    return table(("pair", "in the heap", "now", ""), rows)


def memoryview():
    loop = MergeLoop(WordCounts.from_mapping(WORDS), TRAINERS["memoryview"]())
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in loop.run(MERGES):
        tokens.append(tokens[left] + tokens[right])
    size = len(loop.token)
    starts = [p for p in range(size) if p == 0 or loop.word[p] != loop.word[p - 1]]
    alive = set()
    for position in starts:
        while position != -1:
            alive.add(position)
            position = loop.next_position[position]

    def row(name, values):
        cells = [
            "." if p not in alive else "-" if values[p] in (-1, b"") else values[p]
            for p in range(size)
        ]
        cells = [cell.decode() if isinstance(cell, bytes) else str(cell) for cell in cells]
        return [name, *cells]

    pairs, occurrences = [], {}
    for pair in range(loop.num_pairs):
        position = loop.pair_head[pair]
        while position != -1:
            occurrences.setdefault(pair, []).append(position)
            position = loop.same_next[position]
        name = shown((tokens[loop.pair_left[pair]], tokens[loop.pair_right[pair]]))
        if pair in occurrences:
            listed = " -> ".join(map(str, occurrences[pair]))
            pairs.append((name, loop.pair_count[pair], listed))
    in_list = {p for positions in occurrences.values() for p in positions}
    same = [loop.same_next[p] if p in in_list else -1 for p in range(size)]
    arrays = table(
        ["position", *range(size)],
        [
            row("token", [tokens[token] for token in loop.token]),
            row("word", loop.word),
            row("previous", loop.previous_position),
            row("next", loop.next_position),
            row("same_next", same),
        ],
    )
    heap_rows = [
        (shown((tokens[loop.pair_left[p]], tokens[loop.pair_right[p]])), loop.heap_count[i])
        for i, p in enumerate(loop.heap_pair[: loop.heap_size])
    ]
    return (
        f"{arrays}\n\n{table(('pair', 'count', 'occurrences, linked'), pairs)}\n\n"
        f"{table(('heap', 'count when pushed'), heap_rows)}"
    )


def native():
    threshold, cells, pairs = merge_state(WordCounts.from_mapping(WORDS), MERGES)
    tokens = [bytes([byte]).decode("latin-1") for byte in range(256)] + ["st", "est"]
    names = ["-" if cell == -1 else tokens[cell] for cell in cells]
    # Of a pair, a posting holds where its two tokens still are beside each other.
    rows = []
    for left, right, count, postings in pairs:
        width = len(tokens[left])
        marked = [
            str(p) if cells[p] == left and cells[p + width] == right else f"{p}*" for p in postings
        ]
        rows.append((f"({tokens[left]}, {tokens[right]})", count, " ".join(marked)))
    rows.sort(key=lambda row: -row[1])
    return (
        f"{table(['position', *range(len(cells))], [['cell', *names]])}\n\n"
        f"threshold: {threshold}\n\n"
        f"{table(('pair', 'count', 'postings (* holds no longer)'), rows)}"
    )


EXAMPLES = {
    "naive": naive,
    "incremental": incremental,
    "heap": heap,
    "memoryview": memoryview,
    "native": native,
}

if __name__ == "__main__":
    main()
