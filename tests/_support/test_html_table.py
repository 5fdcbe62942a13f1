"""A table for notebooks has the given cells, and hostile text is shown as text."""

import pytest

from cs336_basics._support.html_table import html_table
from tests.reports.test_page import HOSTILE, Page


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    page = Page(html_table(text, ["", text, "count"], [(text, [text, 1234567]), ("b", ["", 0])]))
    assert page.table == [["", text, "count"], [text, text, "1,234,567"], ["b", "", "0"]]
    assert page.text[0] == text
    assert {name for name, _ in page.elements} == {
        "table", "caption", "thead", "tbody", "tr", "th", "td"
    }  # fmt: skip
