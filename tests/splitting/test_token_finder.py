"""The search finds the same special tokens as brute force, and is fast even with many tokens."""

import random
import time

import pytest

from cs336_basics.counting import count_text, count_texts
from cs336_basics.splitting import Splitter
from cs336_basics.splitting.token_finder import token_finder
from tests.tokenizer.examples import byte_tokenizer

MANY = [f"<|special_{i:06}|>" for i in range(20_000)]


def occurrences_by_force(text, tokens):
    start = 0
    while start < len(text):
        ends = [start + len(token) for token in tokens if text.startswith(token, start)]
        if ends:
            yield start, max(ends)
        start = max(ends, default=start + 1)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_tokens_are_found_where_brute_force_finds_them(as_bytes):
    rng = random.Random(7)
    for _ in range(300):
        tokens = list({"".join(rng.choices("ab<", k=rng.randint(1, 4))) for _ in range(4)})
        text = "".join(rng.choices("ab< ", k=30))
        if as_bytes:
            text, tokens = text.encode(), [token.encode() for token in tokens]
        finder = token_finder(tuple(tokens))
        assert list(finder.occurrences(text)) == list(occurrences_by_force(text, tokens))
        cuts = sorted(rng.sample(range(len(text) + 1), 15))
        uncrossed = [
            cut
            for cut in cuts
            if not any(
                text.startswith(token, start) and start + len(token) > cut
                for start in range(cut)
                for token in tokens
            )
        ]
        assert list(finder.uncrossed(text, cuts)) == uncrossed


def test_time_does_not_grow_with_the_number_of_special_tokens():
    # Trying all 20,000 tokens at each offset would take much longer than the limit.
    text = "<|special_ lorem <|special_000001|> ipsum <|spec " * 600
    few = Splitter(special_tokens=["<|special_000001|>"])
    many = Splitter(special_tokens=MANY)
    expected = count_text(text, few)
    start = time.process_time()
    assert count_text(text, many) == expected
    assert count_texts([text], many) == expected
    cuts = many.safe_cuts
    data = text.encode()
    assert cuts.last(data, 0) == few.safe_cuts.last(data, 0)
    assert time.process_time() - start < 3


def test_time_does_not_grow_with_the_square_of_the_length_of_special_tokens():
    tokenizer = byte_tokenizer("a " * 499 + "b", "a a")
    text = "a " * 20_000
    start = time.process_time()
    assert list(tokenizer.encode_iterable([text])) == tokenizer.encode(text)
    assert time.process_time() - start < 3


@pytest.mark.parametrize("backend", ["python", "native"])
def test_encoding_time_does_not_grow_with_the_number_of_special_tokens(backend):
    text = "<|special_ lorem <|special_000001|> ipsum <|spec " * 600
    tokenizer = byte_tokenizer(*MANY, backend=backend)
    start = time.process_time()
    ids = tokenizer.encode(text)
    assert list(tokenizer.encode_iterable([text])) == ids
    assert ids.count(256 + 1) == 600
    assert tokenizer.decode(ids) == text
    assert time.process_time() - start < 5
