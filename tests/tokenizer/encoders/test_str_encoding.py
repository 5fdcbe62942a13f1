"""A str is converted to UTF-8 by the compiled encoder, however Python stores it."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from tests.tokenizer.examples import END, SPECIALS, small_tokenizer

# Python stores a str with one, two or four bytes a character.
STORED = {"latin-1": "é\xa0 naïve", "two bytes": "漢字 жизнь é", "four bytes": "😀 漢 ж é"}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("length", [1, 19, 4_097, 70_001, 700_001])
def test_a_str_gets_the_ids_of_its_utf8_however_it_is_stored(stored, length):
    tokenizer = small_tokenizer(SPECIALS)
    rng = random.Random(length)
    alphabet = [*STORED[stored], "a", " ", "the", "\n", END]
    text = STORED[stored][:1] + "".join(rng.choices(alphabet, k=length))
    expected = tokenizer.encode_array(text.encode())
    assert tokenizer.encode(text) == expected.tolist()
    for num_workers in (1, 2, 3):
        np.testing.assert_array_equal(
            tokenizer.encode_array(text, num_workers=num_workers), expected
        )
        texts = [text, "ASCII", text[:100]]
        ids, offsets = tokenizer.encode_batch_array(texts, num_workers=num_workers)
        np.testing.assert_array_equal(ids[: offsets[1]], expected)
        lists = tokenizer.encode_batch(texts, num_workers=num_workers)
        assert lists == [tokenizer.encode(text) for text in texts]
        assert ids.tolist() == list(itertools.chain(*lists))


@pytest.mark.parametrize("before", ["a", "é", "漢", "😀"])
@pytest.mark.parametrize("length", [0, 30, 700_000])
def test_a_lone_surrogate_in_a_text_of_any_length_is_named(before, length):
    tokenizer = small_tokenizer(SPECIALS)
    text = before * length + "\udfff" + before * 40
    message = rf"U\+DFFF at character {length:,}:"
    with pytest.raises(ValueError, match=message):
        tokenizer.encode(text)
    for num_workers in (1, 2):
        with pytest.raises(ValueError, match=message):
            tokenizer.encode_array(text, num_workers=num_workers)
        for encode in (tokenizer.encode_batch, tokenizer.encode_batch_array):
            with pytest.raises(ValueError, match="text 1: .*" + message):
                encode(["fine", text], num_workers=num_workers)


class Shouted(str):
    """A str that says of itself that it has other bytes."""

    def encode(self, *arguments):
        return super().upper().encode()


def test_a_subclass_of_str_is_encoded_by_its_characters():
    tokenizer = small_tokenizer(SPECIALS)
    for text in ("the cat", "thé cat", "漢 cat"):
        expected = tokenizer.encode(text)
        assert tokenizer.encode(Shouted(text)) == expected
        assert tokenizer.encode_array(Shouted(text)).tolist() == expected
        assert tokenizer.encode_batch([Shouted(text)]) == [expected]
        for encode in (
            tokenizer.encode,
            tokenizer.encode_array,
            lambda t: tokenizer.encode_batch([t]),
        ):
            with pytest.raises(ValueError, match=r"lone surrogate U\+D800"):
                encode(Shouted(text + "\ud800"))
