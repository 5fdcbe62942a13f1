import pytest

from cs336_basics._support.visible import visible, visible_parts


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
