"""What each part of a tokenizer does to a text, compared with encoding and its offsets."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics import Tokenizer
from cs336_basics.tokenizer import AddedToken, PostProcessor, parts_of
from tests.errors import rejects
from tests.tokenizer.examples import BYTES

VOCAB = {
    **BYTES, 256: b"ab", 257: "\u00e9".encode(), 258: b"abc", 300: b"<s>", 301: b"</s>",
    302: "\u00e9l".encode(), 303: b"[m]",
}  # fmt: skip
MERGES = [(b"a", b"b"), (b"\xc3", b"\xa9")]
TEXTS = st.text(
    st.sampled_from("abce\u0301\u0323\u00e9l \n<s>[m]/\ufb01\u1100\u1161\u212b\U0001d15e")
)


def tokenizer(normalizer="NFC", **changes):
    added = [
        "<s>", "</s>", AddedToken("\u00e9l", special=False, normalized=normalizer != "NFD"),
        AddedToken("[m]", lstrip=True, rstrip=True),
    ]  # fmt: skip
    made = Tokenizer(VOCAB, MERGES, added, normalizer=normalizer)
    post_processor = PostProcessor((300, "A", 301, 301), (300, "A", "B", 301))
    changes = {"post_processor": post_processor, "ignore_merges": True, **changes}
    return Tokenizer.of(made.definition.replaced(**changes))


def test_every_part_is_shown_where_it_acts():
    text = "cafe\u0301 abc\n [m] e\u0301l"
    shown = [(part.part, text[part.start : part.stop], part.result, list(part.ids))
             for part in parts_of(tokenizer(), text)]  # fmt: skip
    assert shown == [
        ("post-processor", "", "<s>", [300]),
        ("normalizer", "e\u0301", "\u00e9", []),
        ("split", "cafe", "caf\u00e9", [99, 97, 102, 257]),
        ("split", " abc", " abc", [32, 256, 99]),
        ("added token", "\n [m] ", "\n [m] ", [303]),
        ("normalizer", "e\u0301", "\u00e9", []),
        ("added token", "e\u0301l", "\u00e9l", [302]),
        ("post-processor", "", "</s>", [301]),
        ("post-processor", "", "</s>", [301]),
    ]
    merges = [part.num_merges for part in parts_of(tokenizer(), text) if part.part == "split"]
    assert merges == [1, 1]


def test_a_pre_token_may_be_a_whole_token():
    parts = parts_of(tokenizer(post_processor=None), "abc ab?<s>")
    assert [part.num_merges for part in parts] == [0, 1, 0, 0]
    assert [part.is_whole for part in parts if part.part == "split"] == [True, False, False]


@pytest.mark.parametrize("normalizer", [None, "NFC", "NFD", "NFKC", "NFKD"])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
def test_the_parts_together_are_the_encoding(normalizer, text):
    made = tokenizer(normalizer)
    parts = parts_of(made, text)
    assert [i for part in parts for i in part.ids] == made(text)["input_ids"]
    within = [part for part in parts if part.part in ("added token", "split")]
    ids, spans = made.encode_with_offsets(text)
    assert [i for part in within for i in part.ids] == ids
    for part in within:  # a part spans what its tokens do
        own, spans = spans[: len(part.ids)], spans[len(part.ids) :]
        assert (part.start, part.stop) == (own[0][0], own[-1][1])
    for part in parts:
        if part.part == "split":
            num_bytes = len(part.result.encode())
            assert part.num_merges in (0, num_bytes - len(part.ids))
    changes = [part for part in parts if part.part == "normalizer"]
    for part in changes:
        before = text[part.start : part.stop]
        assert before != part.result == unicodedata.normalize(normalizer, before)
    if not made.added_tokens or not any(t.content in text for t in made.added_tokens):
        rebuilt, end = "", 0
        for part in changes:
            rebuilt += text[end : part.start] + part.result
            end = part.stop
        rebuilt += text[end:]
        assert rebuilt == (unicodedata.normalize(normalizer, text) if normalizer else text)


def test_positions_are_those_of_the_given_text_with_surrogate_pairs():
    text = "\ud83d\ude00e\u0301"
    first, change, second = parts_of(tokenizer(post_processor=None), text)
    assert (first.start, first.stop, first.result) == (0, 2, "\U0001f600")
    assert (change.start, change.stop) == (2, 4)
    assert text[second.start] == "e"


def test_wrong_arguments_are_refused():
    with rejects(None, "surrogate"):
        parts_of(tokenizer(), "\ud800")
    with pytest.raises(TypeError):
        parts_of(tokenizer(), b"bytes")
    with pytest.raises(TypeError):
        parts_of("tokenizer", "text")
