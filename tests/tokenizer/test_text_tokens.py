"""A text's tokens, and their HTML in notebooks, agree with the tokenizer."""

import itertools
import re

import pytest

from cs336_basics.tokenizer import Tokenizer, tokens_of, visible
from cs336_basics.tokenizer.text_tokens import MOST_SHOWN
from tests.reports.test_page import HOSTILE, Page
from tests.tokenizer.examples import END, small_tokenizer

TEXT = f"the cat's naïve 猫\t{END}<script>\r\n\n  the\x00\u202e"


def test_tokens_are_those_of_encode():
    tokenizer = small_tokenizer()
    tokens = tokens_of(tokenizer, TEXT)
    assert [token.id for token in tokens] == tokenizer.encode(TEXT)
    assert b"".join(token.data for token in tokens).decode() == TEXT
    assert [token.data for token in tokens if token.is_special] == [END.encode()]
    assert tokens_of(tokenizer, "") == []


def test_words_start_where_the_splitter_cuts():
    tokenizer = small_tokenizer()
    words = [""]
    for segment, is_special in tokenizer.splitter.split_special_tokens(TEXT):
        words += [segment] if is_special else tokenizer.splitter.pretokenize(segment)
    found = [b""]
    for token in tokens_of(tokenizer, TEXT):
        if token.starts_word:
            found.append(b"")
        found[-1] += token.data
    assert [word.decode() for word in found] == words


@pytest.mark.parametrize("text", [text for text in HOSTILE if text.isascii()] + [TEXT, "a" * 300])
def test_a_notebook_shows_every_token_as_text(text):
    tokens = tokens_of(small_tokenizer(), text)
    page = Page(tokens._repr_html_())
    shown = "".join(visible(token.data) for token in tokens)
    counts = f"{len(tokens)} tokens, {len(text.encode())} bytes"
    assert "".join(page.text) == shown + counts
    assert {name for name, _ in page.elements} <= {"div", "span", "br"}
    titles = [attributes["title"] for _, attributes in page.elements if "title" in attributes]
    assert titles == [f"id {token.id}, bytes {token.data.hex(' ')}" for token in tokens]


def test_a_notebook_shows_the_start_of_a_long_text():
    tokens = tokens_of(Tokenizer({0: b"a"}, []), "a" * (MOST_SHOWN + 1))
    page = Page(tokens._repr_html_())
    assert page.text[-1] == "5,001 tokens, 5,001 bytes; the first 5,000 are shown"
    assert len(page.elements) == MOST_SHOWN + 2


def test_neighbors_have_different_backgrounds_and_every_color_can_be_read():
    html = tokens_of(small_tokenizer(), TEXT + " the theatre")._repr_html_()
    styles = re.findall(r'<span style="(background[^"]*)" title', html)
    backgrounds = [style.split(";")[0] for style in styles]
    assert all(left != right for left, right in itertools.pairwise(backgrounds))
    dark = [color for color in re.findall(r"[^-]color:(#\w+)", html) if color != "#ffffff"]
    light = {style.split(";")[0].removeprefix("background:") for style in styles} - {"#4a1a78"}
    assert len(set(dark)) == 3
    assert all(contrast(one, other) >= 4.5 for one in dark for other in light)
    assert contrast("#ffffff", "#4a1a78") >= 4.5


def contrast(one, other):
    """Return the contrast ratio of two colors, as WCAG 2 defines it."""
    lower, higher = sorted(map(luminance, (one, other)))
    return (higher + 0.05) / (lower + 0.05)


def luminance(color):
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in channels]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def test_wrong_arguments_are_type_errors():
    with pytest.raises(TypeError, match="tokenizer must be a Tokenizer, got 'the'"):
        tokens_of("the", "the")
    with pytest.raises(TypeError, match="text"):
        tokens_of(small_tokenizer(), b"the")
