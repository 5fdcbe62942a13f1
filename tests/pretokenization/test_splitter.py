"""Special tokens: first the leftmost, then the longest, and nothing lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.pretokenization.splitter import check_special_tokens, split_special_tokens

EOT = "<|endoftext|>"


def brute_force(text, special_tokens):
    """At each place the longest special token that begins there, else one more character."""
    pieces, plain, i = [], "", 0
    while i < len(text):
        found = max((t for t in special_tokens if text.startswith(t, i)), key=len, default="")
        if found:
            if plain:
                pieces.append((plain, False))
                plain = ""
            pieces.append((found, True))
            i += len(found)
        else:
            plain += text[i]
            i += 1
    if plain:
        pieces.append((plain, False))
    return pieces


@pytest.mark.parametrize(
    ("text", "special_tokens", "pieces"),
    [
        ("", [EOT], []),
        ("plain", [], [("plain", False)]),
        ("plain", [EOT], [("plain", False)]),
        (f"a{EOT}b", [EOT], [("a", False), (EOT, True), ("b", False)]),
        (EOT, [EOT], [(EOT, True)]),
        (EOT * 2, [EOT], [(EOT, True)] * 2),
        (EOT * 3, [EOT, EOT * 2], [(EOT * 2, True), (EOT, True)]),
        (EOT * 3, [EOT * 2, EOT], [(EOT * 2, True), (EOT, True)]),
        ("a.*b", [".*"], [("a", False), (".*", True), ("b", False)]),
        ("aab", ["ab", "aa"], [("aa", True), ("b", False)]),
    ],
)
def test_examples(text, special_tokens, pieces):
    assert list(split_special_tokens(text, special_tokens)) == pieces


@given(
    text=st.text("ab|<é", max_size=20),
    special_tokens=st.lists(st.text("ab|<é", min_size=1, max_size=4), max_size=5, unique=True),
)
def test_equals_brute_force(text, special_tokens):
    pieces = list(split_special_tokens(text, special_tokens))
    assert pieces == brute_force(text, special_tokens)
    assert "".join(piece for piece, _ in pieces) == text


def test_a_bare_string_is_refused():
    with pytest.raises(TypeError, match=r"pass a list, \['<\|endoftext\|>'\]"):
        check_special_tokens(EOT)


@pytest.mark.parametrize(
    ("special_tokens", "error", "message"),
    [
        (["a", ""], ValueError, "empty"),
        ([EOT, "x", EOT], ValueError, r"'<\|endoftext\|>' is given twice"),
        (["\ud800"], ValueError, "not valid Unicode"),
        ([b"x"], TypeError, "b'x' is a bytes"),
        ({"a", "b"}, TypeError, "pass a list, since the ids follow its order"),
    ],
)
def test_bad_special_tokens_are_named(special_tokens, error, message):
    with pytest.raises(error, match=message):
        check_special_tokens(special_tokens)
