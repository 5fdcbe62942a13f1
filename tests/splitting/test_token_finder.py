"""The search finds the same special tokens as brute force, and is fast even with many tokens."""

import random
import time

import pytest

from cs336_basics.counting import count_text, count_texts
from cs336_basics.splitting import Splitter
from cs336_basics.splitting.token_finder import token_finder
from tests.tokenizer.examples import byte_tokenizer

try:
    from cs336_basics.splitting import _scanner
except ImportError:  # not built
    _scanner = None

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


def random_tokens(rng, alphabet):
    """Return more tokens than are searched for one by one; some are prefixes of others."""
    count = rng.choice([7, 8, 9, 30, 300])
    tokens = {
        "".join(rng.choices(alphabet, k=rng.choice([1, 2, 2, 3, 4, 9]))) for _ in range(count)
    }
    tokens |= {rng.choice(alphabet) * length for length in range(2, rng.randint(3, 24))}
    if len(tokens) > 20:  # else single letters hide all other tokens
        tokens = {token for token in tokens if len(token) > 1} or tokens
    return tokens


def random_text_with(rng, alphabet, tokens):
    """Return a text whose length is often near a multiple of the 64 bytes that are searched."""
    length = rng.choice([0, 1, 2, 3, 50]) + 64 * rng.choice([0, 1, 1, 2, 5])
    frequent = rng.choice([alphabet, alphabet[0], "xyz"])
    parts = []
    while sum(map(len, parts)) < length:
        kind = rng.random()
        if kind < 0.1:
            parts.append(rng.choice(tokens))
        elif kind < 0.2:
            parts.append(rng.choice(tokens)[:-1])
        elif kind < 0.3:
            parts.append(rng.choice(alphabet) * rng.randint(1, 90))
        else:
            parts.append("".join(rng.choices(frequent, k=rng.randint(1, 20))))
    return "".join(parts)[:length]


def check_search(num_sets):
    """Check that the compiled search finds what `TokenFinder` finds, at every SIMD level."""
    rng = random.Random(11)
    every_byte = "".join(map(chr, range(256)))  # as latin-1
    for _ in range(num_sets):
        alphabet = rng.choice([" a", "ab<", "assistant RWKV", "\xef\xbd\x9c<", every_byte])
        tokens = sorted(random_tokens(rng, alphabet))
        encoded = [token.encode("latin-1") for token in tokens]
        finder = token_finder(tuple(encoded))
        searches = {level: _scanner.TokenSearch(encoded, level) for level in _scanner.simd_levels()}
        for _ in range(8):
            text = random_text_with(rng, alphabet, tokens).encode("latin-1")
            expected = list(finder.occurrences(text))
            for level, search in searches.items():
                assert search.occurrences(text) == expected, (level, encoded, text)


@pytest.mark.skipif(_scanner is None, reason="the compiled search is not built")
@pytest.mark.parametrize("num_sets", [150, pytest.param(20_000, marks=pytest.mark.slow)])
def test_all_simd_levels_find_the_same_tokens(num_sets):
    check_search(num_sets)


@pytest.mark.skipif(_scanner is None, reason="the compiled search is not built")
@pytest.mark.parametrize(
    "tokens",
    [
        [b"a" * length for length in range(2, 25)],
        [b"a" * length + b"b" for length in range(1, 25)],
        [bytes([97, 97, 98 + i // 100, i % 100]) for i in range(1000)],
        [b"a" * 24 + bytes([i]) for i in range(128)] + [b"b", b"<"],
    ],
)
def test_time_is_linear_in_a_text_of_one_letter(tokens):
    # If each letter were compared with all tokens, or with the rest of the text, this would take
    # much longer than the limit.
    size = 500_000
    for level in _scanner.simd_levels():
        search = _scanner.TokenSearch(tokens, level)
        start = time.process_time()
        found = search.occurrences(b"a" * size)
        assert time.process_time() - start < 2
        longest = max((len(token) for token in tokens if not token.strip(b"a")), default=size + 1)
        assert len(found) == -(-size // longest) if longest <= size else not found


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
