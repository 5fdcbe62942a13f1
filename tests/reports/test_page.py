"""Hostile text stays text in HTML and in Markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from cs336_basics.reports.charts import chart
from cs336_basics.reports.page import (
    Chart,
    Quote,
    Section,
    Table,
    Tokens,
    render_html,
    render_markdown,
)
from cs336_basics.tokenizer import visible
from tests.browser import NEEDS_CHROMIUM, chromium, problems_on_devices

HOSTILE = [
    "<script>alert(1)</script>", "</code></td></table>", "<!--", "]]>", "&lt;b&gt;", "' onload='x",
    '"><img src=x onerror=alert(1)>', "</style><style>", "javascript:alert(1)", "{{x}} ${x} %s {0}",
    "a|b", "`", "``x`", "# x", "*x*", "[x](http://example.com)", "http://example.com", "@someone",
    "\x00\x1b[31m\x07", "\u202e\u200b", "\ud800", "猫🎉", "\\|", "\\", "a\nb", "    code", "<b>",
]  # fmt: skip
VOID = {"meta", "br"}


class Page(HTMLParser):
    """Collects elements and text, and asserts that elements are closed in order."""

    def __init__(self, content):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.text, self.table = [], [], [], []
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.table.append([])
        if tag in ("td", "th"):
            self.table[-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)
        if {"td", "th"} & set(self.open):
            self.table[-1][-1] += data

    def handle_comment(self, data):
        pytest.fail(f"a comment: {data!r}")


def sections_with(text):
    token = text.encode("utf-8", "surrogatepass")
    drawn = chart({text: [(1, 2), (2, 3)], "b": [(1, 1)]}, title=text, x=text, y=text)
    return [
        Section(
            text,
            [
                text,
                Table((text, "b"), [(text, Tokens([token, b"x", token], True, frozenset([1])))]),
                Table(("a", "b"), [("x", Tokens([token, b"\xff`|"]))]),
                Chart(drawn),
                Quote(f"{text}\n{text}"),
            ],
        )
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_html_has_only_its_own_elements_and_no_outside_assets(text):
    content = render_html(text, sections_with(text))
    page, harmless = Page(content), Page(render_html("x", sections_with("x")))
    drop = ("aria-label", "class")
    names = [
        [(tag, {k for k in found if k not in drop}) for tag, found in p.elements if tag != "span"]
        for p in (page, harmless)
    ]
    assert names[0] == names[1]
    for tag, found in page.elements:
        assert tag not in ("script", "link", "img", "iframe", "object", "base", "form")
        assert not [key for key in found if key.startswith("on") or key in ("src", "style")]
        assert found.get("href", "#").startswith("#")
    style = re.search(r"<style>(.*?)</style>", content, re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in content
    shown = visible(text.encode("utf-8", "surrogatepass"))
    assert page.table[1][1] == f"{shown}x{shown}"
    content.encode()  # no surrogates


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_tables_keep_their_cells_and_tokens_are_code(text):
    content = render_markdown(text, sections_with(text))
    content.encode()
    assert "<svg" not in content
    lines = content.split("\n")
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 6
    for row in rows:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row.replace("`\\|", "|"))) >= 3
        assert row.count("\n") == 0
    assert all(line.startswith(("#", "|", "    ")) or "<" not in line.replace("\\<", "")
               for line in lines)  # fmt: skip


def test_a_code_span_is_fenced_by_more_backticks_than_it_has():
    (section,) = sections_with("x")
    section = Section("x", [Table(("a",), [(Tokens([b"``", b"a`b", b"a|b"]),)])])
    content = render_markdown("x", [section])
    assert "| ``` `` ``` ``a`b`` `a\\|b` |" in content


def test_columns_of_numbers_are_aligned_and_blanks_are_marked():
    columns = [("1,234", "–"), ("-1.5", "3"), ("12.0%", "9.9%"), ("1.2 [1.0, 1.3]", "1.0"),
               ("a 1", "1"), ("10 of 12", "1"), ("", "x")]  # fmt: skip
    table = Table("abcdefg", list(zip(*columns, strict=True)))
    content = render_html("x", [Section("x", [table])])
    assert content.count('<td class="number" data-name=') == 2 * 4
    assert content.count('<th scope="col" class="number">') == 4
    content = render_html("x", [Section("x", [Table("a", [(Tokens([b" a\n"], True),)])])])
    assert '<span class="blank">·</span>a<span class="blank">↵</span>' in content


def test_a_long_token_is_cut():
    section = Section("x", [Table("a", [(Tokens([b" " * 1_000_000]),)])])
    for content in (render_html("x", [section]), render_markdown("x", [section])):
        assert content.count("·") == 100
        assert "… (1,000,000 bytes)" in content


@NEEDS_CHROMIUM
def test_a_report_is_readable_on_a_phone_and_in_the_dark(tmp_path):
    tokens = [f" token{i} \n".encode() + b"\x80" for i in range(40)]
    rows = [("x" * 30, "1,234.5", Tokens(tokens, as_text, frozenset({1, 7})), "x" * 30)
            for as_text in (True, False)]  # fmt: skip
    svg = chart({"a": [(1, 2), (10, 3)], "b": [(1, 3), (10, 1)]}, title="t", x="x", y="y")
    blocks = ["Some text. " * 9, Table(("name", "number", "tokens", "more"), rows), Chart(svg)]
    sections = [Section("One", blocks), Section("Two" * 40, [Quote("x" * 200)])]
    (tmp_path / "report.html").write_text(render_html("Report", sections), encoding="utf-8")
    with chromium(tmp_path / "profile") as browser:
        browser.get((tmp_path / "report.html").as_uri())
        assert problems_on_devices(browser) == {}


def test_on_a_phone_each_cell_of_a_wide_table_has_the_name_of_its_column():
    wide = Table("ab<de", [("1", "2", "3", "4", "5")])
    lists = Table("ab", [("1", Tokens([b"x", b"y"]))])
    content = render_html("x", [Section("x", [wide, lists, Table("ab", [("1", "2")])])])
    assert content.count('<table class="wide">') == 2
    assert content.count('<table class="narrow">') == 1
    assert re.findall('data-name="([^"]*)"', content) == ["a", "b", "&lt;", "d", "e", "a", "b"]


def test_a_quote_with_a_summary_is_folded():
    content = render_html("x", [Section("x", [Quote("long <text>", "all & everything")])])
    assert "<details><summary>all &amp; everything</summary><pre>long &lt;text&gt;" in content
