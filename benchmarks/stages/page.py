"""Fill the PAGES with lines of the source and the worked example, so that neither drifts.

    python -m benchmarks.stages.page

    <!-- source: FILE NAME -->     a function, as it is in the file; NAME may be Class.method
    <!-- example: STAGE -->        what the stage holds after two merges of the course's example
    <!-- /source -->, <!-- /example -->

`tests/benchmarks/test_page.py` fails if a page is not what this program writes. (The tables of the
pages are filled by `benchmarks/report`.)
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
"""Merges before the state that is drawn: (s, t) and (e, st)."""


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
            raise ValueError(f"{file} has no function {name}: correct the page's block")
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


if __name__ == "__main__":
    main()
