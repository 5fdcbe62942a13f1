"""A text's tokens, and their HTML in notebooks, agree with the tokenizer."""

import pytest

from cs336_basics._support.messages import counted
from cs336_basics.tokenizer import AddedToken, Tokenizer, tokens_of, visible
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


def test_an_added_token_that_is_not_special_is_not_shown_as_special():
    tokenizer = small_tokenizer()
    tokenizer.add_special_tokens([AddedToken("  ", special=False)])
    (token,) = [token for token in tokens_of(tokenizer, "the  cat") if token.data == b"  "]
    assert (token.is_special, token.starts_word) == (False, True)


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
    counts = f"{counted(len(tokens), 'token')}, {counted(len(text.encode()), 'byte')}"
    assert "".join(page.text) == shown + counts
    assert {name for name, _ in page.elements} <= {"div", "span", "br"}
    titles = [attributes["title"] for _, attributes in page.elements if "title" in attributes]
    assert titles == [f"id {token.id}, bytes {token.data.hex(' ')}" for token in tokens]


def test_a_notebook_shows_the_start_of_a_long_text():
    tokens = tokens_of(Tokenizer({0: b"a"}, []), "a" * (MOST_SHOWN + 1))
    page = Page(tokens._repr_html_())
    assert page.text[-1] == "5,001 tokens, 5,001 bytes; the first 5,000 are shown"
    assert len(page.elements) == MOST_SHOWN + 2
