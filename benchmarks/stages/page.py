"""Fill the blocks in PAGES with source code and the worked example.

    python -m benchmarks.stages.page

    <!-- source: FILE NAME -->     a function or class; NAME may be Class.method
    <!-- example: STAGE -->        the stage's data after two merges in the course's example
    <!-- /source -->, <!-- /example -->

`tests/benchmarks/test_page.py` fails if a page is out of date. (`benchmarks/report` fills the
tables.)
"""

import re
import textwrap
from pathlib import Path

from benchmarks.machine import PAGES, ROOT
from cs336_basics.bpe.explain import draw

SOURCE = re.compile(r"(<!-- source: (\S+) (\S+) -->\n).*?(<!-- /source -->)", re.DOTALL)
EXAMPLE = re.compile(r"(<!-- example: (\S+) -->\n).*?(<!-- /example -->)", re.DOTALL)

WORDS = {b"low": 5, b"lower": 2, b"widest": 3, b"newest": 6}
MERGES = 2
"""Number of merges before the drawing: (s, t) and (e, st)."""


def main():
    for path in PAGES:
        path.write_text(fill(path.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"up to date: {', '.join(path.name for path in PAGES)}")


def fill(page):
    """Return a page with its source and example blocks filled."""
    page = SOURCE.sub(lambda m: m[1] + fenced(*source(m[2], m[3])) + m[4], page)
    return EXAMPLE.sub(lambda m: m[1] + fenced(draw(m[2], WORDS, MERGES), "text") + m[3], page)


def fenced(text, language):
    return f"```{language}\n{text.strip(chr(10))}\n```\n"


# --- source code ---------------------------------------------------------------------------------


def source(file, name):
    """Return the dedented lines of a function or class, and the language.

    Raises:
        ValueError: If the file has no such function or class.
    """
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    language = {".py": "python", ".pyx": "cython"}[Path(file).suffix]
    start, end = 0, len(lines)
    for part in name.split("."):
        begins = re.compile(rf"\s*(cp?def|def|class)\b[^(]*\b{part}[(:]")
        start = next((i for i in range(start, end) if begins.match(lines[i])), None)
        if start is None:
            raise ValueError(f"{file}: no function {name!r}; correct the block on the page")
        end = end_of(lines, start)
    return textwrap.dedent("\n".join(lines[start:end]).rstrip()), language


def end_of(lines, start):
    """Return the index of the line after a function or class."""
    indent = indent_of(lines[start])
    for end in range(start + 1, len(lines)):
        closes = lines[end].lstrip().startswith(")")  # the parameters are on separate lines
        if lines[end] and indent_of(lines[end]) <= indent and not closes:
            return end
    return len(lines)


def indent_of(line):
    return len(line) - len(line.lstrip())


if __name__ == "__main__":
    main()
