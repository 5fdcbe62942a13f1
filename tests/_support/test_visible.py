import pytest

from cs336_basics._support.visible import (
    markdown_text,
    visible,
    visible_parts,
    without_controls,
)


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (b" a\tb\r\n", "·a→b␍↵"),
        ("naïve 猫🎉".encode(), "naïve·猫🎉"),
        ("猫".encode()[:2] + b"x\xff", "<e7><8c>x<ff>"),
        (b"\x1b[31m\x07\x00\x7f", "<U+001B>[31m<U+0007><U+0000><U+007F>"),
        ("\u202e\u200b\u00a0\u0085".encode(), "<U+202E><U+200B><U+00A0><U+0085>"),
        (b"<f0>", "<f0>"),
        (b"", ""),
    ],
)
def test_every_character_can_be_seen(token, shown):
    assert visible(token) == shown
    assert shown.isprintable()


def test_marks_are_told_from_the_same_characters_in_the_text():
    parts = list(visible_parts("·<f0> \xff\x01".encode() + b"\xf0"))
    assert parts == [
        ("·<f0>", "text"), ("·", "blank"), ("ÿ", "text"), ("<U+0001>", "code"), ("<f0>", "byte")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]0;title\x07\r\n", "a<U+001B>]0;title<U+0007>␍\n"),
        ("\x9b31m \x7f\u202e\u2066\u200f", "<U+009B>31m <U+007F><U+202E><U+2066><U+200F>"),
        ("a\tb\n naïve 👩\u200d🔬 \u00a0", "a\tb\n naïve 👩\u200d🔬 \u00a0"),
    ],
)
def test_only_characters_that_control_a_terminal_are_replaced(text, shown):
    assert without_controls(text) == shown


def test_text_in_markdown_is_one_line_without_effect():
    text = "a<img src=x>\n| `b` [c](d) &lt; \x1b"
    assert markdown_text(text) == (
        r"a\<img src=x\> \| \`b\` \[c\](d) \&lt; \<U+001B\>"
    )  # fmt: skip
