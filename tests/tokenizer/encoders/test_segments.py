"""Long words are encoded by segments that no merge joins: they get the ids of the whole word."""

from __future__ import annotations

import functools
import random

import pytest

from cs336_basics import TRAINERS, Tokenizer
from cs336_basics.tokenizer.reference import encode_text

pytest.importorskip("cs336_basics.tokenizer.encoders._encoder")

# Syllables of which phrases are made, as in scripts that put no space between words.
SYLLABLES = {
    "Chinese": "的一是不了在人有我他这中大来上国個到說們",
    "kana": "あいうえおかきくけこアイウエオカキクケコ",
    "Thai": "กขคงจฉชซดตถทนบปผพฟมย",
    "Latin": "abcdefghij",
    "mixed": "的一是あいアกขéßñжabx😀🎉",
}


def phrases(alphabet, count, length, seed):
    rng = random.Random(seed)
    words = ["".join(rng.choices(alphabet, k=rng.randint(1, 4))) for _ in range(60)]
    return ["".join(rng.choices(words, k=rng.randint(1, length))) for _ in range(count)]


@functools.cache
def trained(script):
    texts = phrases(SYLLABLES[script], 400, 12, seed=1)
    return Tokenizer(*TRAINERS["native"]().train_from_iterator(texts, 500, []))


@pytest.mark.parametrize("cache_size", [0, 1 << 14, 1 << 27])
@pytest.mark.parametrize("script", SYLLABLES)
def test_phrases_get_the_ids_of_the_reference(script, cache_size):
    made = trained(script)
    tokenizer = Tokenizer(made.vocab, made.merges, cache_size=cache_size)
    # The same words in other phrases, other words of the same syllables, and other scripts.
    known = phrases(SYLLABLES[script], 100, 12, seed=1)
    others = phrases(SYLLABLES[script], 100, 60, seed=2)
    foreign = phrases(SYLLABLES["mixed"], 50, 30, seed=3)
    text = " ".join(known + others + foreign)
    expected = encode_text(text, made.vocab, made.merges)
    for _ in range(3):  # new words, words that were seen, words in the cache
        assert tokenizer.encode(text) == expected


def test_a_cache_of_segments_is_shared_by_phrases_of_all_lengths():
    made = trained("Chinese")
    tokenizer = Tokenizer(made.vocab, made.merges)
    long = "".join(phrases(SYLLABLES["Chinese"], 3000, 12, seed=4))  # one word
    ids = tokenizer.encode(long)
    assert tokenizer.decode(ids) == long
    assert ids == Tokenizer(made.vocab, made.merges, cache_size=0).encode(long)
    assert ids == Tokenizer(made.vocab, made.merges, backend="python").encode(long)
