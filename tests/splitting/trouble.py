"""Difficult texts for tests that cut text, and the split that every cut must preserve."""

from hypothesis import strategies as st

# Special tokens that overlap or contain spaces, every kind of whitespace, characters of one to
# four bytes, and bytes that are not valid UTF-8.
TROUBLE = [
    b"a", b"'s", b"'", b" ", b"  ", b"\n", b"\r\n", b"\t", b".", b"12", b"\x00", b"\x1c", b"\x0c",
    "é".encode(), "好".encode(), "🙂".encode(), "\u00a0".encode(), "\u3000".encode(),
    "\u2009".encode(), "\u0085".encode(), "\ufffd".encode(), b"\xff", b"\xe2\x80", b"\x80", b"\xf0",
    b"<|x|>", b"<|x|> <|x|>", b"|> <", b"x x", b"a a", b"ab", b"bc",
]  # fmt: skip

SPECIAL = ["<|x|>", "<|x|> <|x|>", "x x", "a a a", "ab", "bc", "é ", " \n", "\n\n", "\ufffd"]

data_strategy = st.lists(st.sampled_from(TROUBLE), max_size=40).map(b"".join)

special_strategy = st.lists(st.sampled_from(SPECIAL), max_size=4, unique=True)


def split(data, splitter):
    """Return all pre-tokens and special tokens in the data, in order."""
    found = []
    for segment, is_special in splitter.split_special_tokens(data.decode("utf-8", "replace")):
        found.extend([(segment, True)] if is_special else
                     [(word, False) for word in splitter.pretokenize(segment)])  # fmt: skip
    return found
