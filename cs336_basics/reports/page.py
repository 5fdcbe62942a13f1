"""A report as a list of sections, and its rendering as HTML or Markdown.

The HTML is one file without scripts or external assets, and its content security policy forbids
both. Text may come from untrusted sources, so this module escapes tokens, file names and samples
when it writes them.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cs336_basics._support.visible import markdown_code, markdown_text, visible_parts

NUM_COLORS = 6
"""Number of colors for lines and for the backgrounds of tokens, each used in turn."""

LONGEST_TOKEN = 100
"""Number of bytes after which a token is truncated."""

_NUMBER = re.compile(r"[\d–,.+-]+ ?[%×s]?( \[[^\]]*\])?")


@dataclass(frozen=True)
class Tokens:
    """Tokens in a table cell.

    Attributes:
        tokens: Tokens in order.
        as_text: Whether the tokens form a text, to be joined, rather than a list.
        marked: Indices of the tokens whose starts are marked.
    """

    tokens: Sequence[bytes]
    as_text: bool = False
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Table:
    """A table. Cells are text or `Tokens`."""

    header: Sequence[str]
    rows: Sequence[Sequence[str | Tokens]]


@dataclass(frozen=True)
class Chart:
    """A chart as an SVG element from `charts.py`. Markdown reports omit charts."""

    svg: str


@dataclass(frozen=True)
class Quote:
    """Text of several lines, shown verbatim.

    Attributes:
        text: The text.
        summary: If given, HTML shows only this line until the reader opens the text.
    """

    text: str
    summary: str = ""


@dataclass(frozen=True)
class Section:
    """A title and its paragraphs (str), tables, charts and quotes."""

    title: str
    blocks: list[str | Table | Chart | Quote] = field(default_factory=list)


# --------------------------------------------------------------------- HTML

COLORS = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1b1f; --line: #c9c9d2; --soft: #f3f3f7;
  --dim: #5a5a66; --c0: #0b5fa5; --c1: #b3470b; --c2: #1a7339; --c3: #8a3ea8; --c4: #a01f4b;
  --c5: #00737d; --t0: #d5e8fb; --t1: #fde3c0; --t2: #d3f1d6; --t3: #fbd6e4; --t4: #e3dcfa;
  --t5: #cdf1f3; --mark: #c00000; }
@media (prefers-color-scheme: dark) { :root { --back: #16161a; --text: #ececf1; --line: #45454f;
  --soft: #222228; --dim: #b8b8c4; --c0: #74b9f7; --c1: #f4a261; --c2: #77d38f; --c3: #cf9be6;
  --c4: #f28bab; --c5: #56d6dd; --t0: #1d3f5e; --t1: #5c3c12; --t2: #1d4a28; --t3: #5e2440;
  --t4: #3a2f66; --t5: #124a50; --mark: #ff8080; } }
"""
"""Style sheet rules for the page's colors, light and dark."""

_STYLE = """
body { margin: 0 auto; max-width: 78rem; padding: 1rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; } h1, h2, nav, p { overflow-wrap: anywhere; }
p { max-width: 60rem; }
.scroll { overflow-x: auto; margin: 1rem 0; } .scroll:focus { outline: 2px solid var(--c0); }
table { border-collapse: collapse; font-size: .9rem; } th { text-align: left; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { background: var(--soft); vertical-align: bottom; } .number { text-align: right; }
td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.tokens { min-width: 16rem; }
code, pre { font: .85rem/1.7 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; background: var(--soft); padding: .8rem; }
code { padding: .1rem 0; } code.list { display: inline-block; margin: 0 .4rem .2rem 0;
  padding: 0 .2rem; background: var(--soft); overflow-wrap: break-word; }
.blank { color: var(--dim); } .byte, .code { font-style: italic; }
.t0 { background: var(--t0); } .t1 { background: var(--t1); } .t2 { background: var(--t2); }
.t3 { background: var(--t3); } .t4 { background: var(--t4); }
.marked { border-left: 3px solid var(--mark); }
svg { max-width: 100%; height: auto; } svg text { fill: var(--text); font-size: 12px; }
svg .grid { stroke: var(--line); } svg .line { fill: none; stroke-width: 2; }
details { margin: 1rem 0; } summary { cursor: pointer; padding: .3rem 0; }
@media (max-width: 40rem) { svg text { font-size: 19px; } svg .line { stroke-width: 3; }
  svg .y { transform: translate(70px, 13px); text-anchor: start; font-size: 16px; }
  .wide, .wide tbody, .wide tr { display: block; } .wide thead { display: none; }
  .wide tr { padding: .6rem 0; border-bottom: 1px solid var(--line); }
  .wide td { display: flex; gap: 1rem; justify-content: space-between; border: 0;
    padding: .1rem 0; }
  .wide td::before { content: attr(data-name); color: var(--dim); text-align: left; }
  .wide td.tokens { display: block; } .wide td.tokens::before { margin-right: 1rem; }
  .narrow td { overflow-wrap: anywhere; } }
"""

_MOST_COLUMNS = 4
"""Maximum number of columns that fit on the screen of a phone. There, each row of a wider table is
shown as a list of its cells."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_html(title: str, sections: Sequence[Section]) -> str:
    """Return a report as one HTML page."""
    contents = "".join(
        f'<li><a href="#s{number}">{_text(section.title)}</a></li>\n'
        for number, section in enumerate(sections)
    )
    body = "".join(
        f'<h2 id="s{number}">{_text(section.title)}</h2>\n'
        + "".join(map(_html_block, section.blocks))
        for number, section in enumerate(sections)
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{COLORS}{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_text(title)}</h1>\n<nav><ul>\n{contents}</ul></nav>\n{body}</main>\n"
        "</body>\n</html>\n"
    )


def _html_block(block: str | Table | Chart | Quote) -> str:
    if isinstance(block, Chart):
        return f'<div class="scroll" tabindex="0">{block.svg}</div>\n'
    if isinstance(block, Quote):
        quoted = f"<pre>{_text(block.text)}</pre>\n"
        if block.summary:
            return f"<details><summary>{_text(block.summary)}</summary>{quoted}</details>\n"
        return quoted
    if isinstance(block, str):
        return f"<p>{_text(block)}</p>\n"
    are_numbers = [
        all(isinstance(cell, str) and _NUMBER.fullmatch(cell) for cell in column)
        for column in zip(*block.rows, strict=True)
    ]
    header = "".join(
        f'<th scope="col"{_kind(is_number)}>{_text(name)}</th>'
        for name, is_number in itertools.zip_longest(
            block.header, are_numbers
        )  # there may be no rows
    )
    has_lists = any(
        isinstance(cell, Tokens) and len(cell.tokens) > 1 for row in block.rows for cell in row
    )
    is_wide = has_lists or len(block.header) > _MOST_COLUMNS
    names = block.header if is_wide else itertools.repeat("")
    rows = "".join(
        f"<tr>{''.join(map(_html_cell, row, are_numbers, names))}</tr>\n" for row in block.rows
    )
    kind = "wide" if is_wide else "narrow"
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}">\n'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )


def _kind(is_number: bool | None) -> str:
    return ' class="number"' if is_number else ""


def _html_cell(cell: str | Tokens, is_number: bool, name: str) -> str:
    named = f' data-name="{_text(name)}"' if name else ""
    if isinstance(cell, str):
        return f"<td{_kind(is_number)}{named}>{_text(cell)}</td>"
    written = []
    for index, token in enumerate(cell.tokens):
        kind = f"t{index % NUM_COLORS}" if cell.as_text else "list"
        kind += " marked" * (index in cell.marked)
        parts = (
            _text(text) if kind == "text" else f'<span class="{kind}">{_text(text)}</span>'
            for text, kind in _parts(token)
        )
        written.append(f'<code class="{kind}">{"".join(parts)}</code>')
    # Several tokens need room: a narrow column would have one token on each line.
    kind = ' class="tokens"' if len(written) > 1 else ""
    return f"<td{kind}{named}>{''.join(written)}</td>"


def _parts(token: bytes) -> Iterator[tuple[str, str]]:
    """Yield the visible parts of a token, shortened if it is long."""
    yield from visible_parts(token[:LONGEST_TOKEN])
    if len(token) > LONGEST_TOKEN:
        yield f"… ({len(token):,} bytes)", "code"


def _text(text: str) -> str:
    return html.escape(printable(text))


def printable(text: str) -> str:
    """Return text with U+FFFD in place of control and other unprintable characters."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


# --------------------------------------------------------------------- Markdown


def render_markdown(title: str, sections: Sequence[Section]) -> str:
    """Return a report as Markdown with GitHub-style tables."""
    blocks = [f"# {_escaped(title)}"]
    for section in sections:
        blocks += [f"## {_escaped(section.title)}", *map(_markdown_block, section.blocks)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _markdown_block(block: str | Table | Chart | Quote) -> str:
    if isinstance(block, Chart):
        return ""
    if isinstance(block, Quote):
        return "\n".join(f"    {line}" for line in printable(block.text).split("\n"))
    if isinstance(block, str):
        return _escaped(block)
    rows = [" | ".join(map(_markdown_cell, row)) for row in block.rows]
    header = " | ".join(map(_escaped, block.header))
    return "\n".join(f"| {row} |" for row in [header, " | ".join("-" * len(block.header)), *rows])


def _markdown_cell(cell: str | Tokens) -> str:
    if isinstance(cell, str):
        return _escaped(cell)
    if cell.as_text:
        return markdown_code("|".join(map(_shown, cell.tokens)))
    return " ".join(markdown_code(_shown(token)) for token in cell.tokens)


def _shown(token: bytes) -> str:
    return "".join(text for text, _ in _parts(token))


def _escaped(text: str) -> str:
    """Return text on one line, with Markdown and HTML escaped."""
    return markdown_text(printable(text))
