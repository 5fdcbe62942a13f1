"""The code on a page: fenced blocks, inline commands, and the comments that mark them.

A block is executed, unless the line before it is one of these comments:

    <!-- not run: REASON -->    the block is only checked: Python compiles, options exist
    <!-- slow: REASON -->       `pytest -m slow` runs the block; otherwise it is only checked
    <!-- source: ... -->, <!-- example: ... -->
                                benchmarks/stages/page.py writes the block

This comment may be anywhere on a page:

    <!-- files: stories.txt web/1.jsonl.gz tokenizers/web/ -->
                                files to create before the page is executed; see stand_ins.py

A fence without a language contains shell commands, and a `text` fence contains output.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LANGUAGES = {"": "shell", "sh": "shell", "bash": "shell", "python": "python", "pycon": "doctest"}
DATA = ("text", "json", "yaml", "csv", "toml")
FILLED = ("source", "example")

COMMENT = re.compile(r"<!-- (not run|slow|source|example): (.+?) -->")
FILES = re.compile(r"<!-- files: (.+?) -->", re.DOTALL)
FENCE = re.compile(r"( *)(`{3,}|~{3,}) *([\w+-]*) *$")
INLINE = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
INDENTED = re.compile(r"(    |\t)(python |pip |uv |make |cs336 |pytest |torchrun |ray )")


class Block(NamedTuple):
    """A fenced block."""

    page: str
    line: int
    """Line number of the first line of code, counted from 1."""
    kind: str
    """shell, python, doctest, filled, or one of DATA."""
    code: str
    marking: str = ""
    """Keyword of the comment before the block, such as "slow"."""
    reason: str = ""

    @property
    def name(self):
        return f"{self.page}:{self.line}"


class Page(NamedTuple):
    name: str
    text: str

    @property
    def blocks(self):
        return list(blocks_of(self))

    @property
    def files(self):
        """The names of the files to create before the page is executed."""
        return [name for names in FILES.findall(self.text) for name in names.split()]

    @property
    def inline_code(self):
        """The code spans in the prose, as (line, code) pairs."""
        prose = blanked(self.text, [(b.line, b.code) for b in self.blocks])
        for match in INLINE.finditer(prose):
            yield prose.count("\n", 0, match.start()) + 1, " ".join(match[1].split())


def read_page(path):
    return Page(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def blocks_of(page):
    """Yield the blocks of a page.

    Raises:
        ValueError: If a fence is not closed, a language is unknown, a comment is malformed, or
            commands are indented instead of fenced.
    """
    lines = page.text.split("\n")
    before, start, fence = "", 0, None
    for number, line in enumerate(lines, 1):
        if fence is not None:
            if line.strip() == fence[2]:
                code = "\n".join(text.removeprefix(fence[1]) for text in lines[start : number - 1])
                yield block_of(page.name, start + 1, fence[3], code, before)
                before, fence = "", None
        elif opened := FENCE.match(line):
            start, fence = number, opened
        elif "```" in line:
            raise ValueError(f"{page.name}:{number}: malformed fence {line!r}")
        elif INDENTED.match(line):
            raise ValueError(f"{page.name}:{number}: indented command; use a fenced block")
        elif line.strip():
            before = line
    if fence is not None:
        raise ValueError(f"{page.name}:{start}: unclosed fence")


def block_of(page, line, language, code, before):
    found = COMMENT.fullmatch(before.strip())
    if found is None and before.strip().startswith("<!--") and not before.strip().endswith("-->"):
        raise ValueError(f"{page}:{line}: the comment before the block must be on one line")
    marking, reason = found.groups() if found else ("", "")
    if marking in FILLED:
        return Block(page, line, "filled", code, marking, reason)
    if language in DATA:
        return Block(page, line, language, code, marking, reason)
    if language not in LANGUAGES:
        known = ", ".join([*filter(None, LANGUAGES), *DATA])
        raise ValueError(f"{page}:{line}: the language must be one of {known}, got {language!r}")
    return Block(page, line, LANGUAGES[language], code, marking, reason)


def blanked(text, blocks):
    """Return the text of a page with the lines of its blocks replaced by empty lines."""
    lines = text.split("\n")
    for line, code in blocks:
        for index in range(line - 2, line + len(code.split("\n"))):
            lines[index] = ""
    return "\n".join(lines)
