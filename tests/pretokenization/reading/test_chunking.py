"""Chunks of a file: wherever they are cut, splitting them one by one equals splitting the whole."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.pretokenization.reading.chunking import (
    _first_cut,
    chunk_bounds,
    read_bytes,
    read_text,
)
from cs336_basics.pretokenization.splitter import Splitter

EOT = "<|endoftext|>"
SPLITTER = Splitter(special_tokens=[EOT])

# Difficult bytes: special tokens that overlap or hold spaces, every kind of white space,
# characters of one to four bytes, bytes that are not valid UTF-8.
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
    """All pre-tokens and special tokens of some bytes, in order."""
    found = []
    for segment, is_special in splitter.split_special_tokens(data.decode("utf-8", "replace")):
        found.extend([(segment, True)] if is_special else
                     [(word, False) for word in splitter.pretokenize(segment)])  # fmt: skip
    return found


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("chunking") / "text.txt"


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W+"])
@given(data=data_strategy, special_tokens=special_strategy, chunk_size=st.integers(1, 30))
def test_chunks_split_like_the_whole(scratch, pattern, data, special_tokens, chunk_size):
    scratch.write_bytes(data)
    splitter = Splitter(pattern, special_tokens)
    bounds = list(chunk_bounds(scratch, chunk_size, splitter))
    assert [start for start, _ in bounds] == [0, *(end for _, end in bounds)][: len(bounds)]
    assert sum(end - start for start, end in bounds) == len(data)
    assert all(end - start >= chunk_size for start, end in bounds[:-1])
    chunks = [split(read_bytes(scratch, start, end), splitter) for start, end in bounds]
    assert list(itertools.chain(*chunks)) == split(data, splitter)


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k"])
@given(data=data_strategy, special_tokens=special_strategy, more=data_strategy)
def test_the_last_cut_of_a_stream_is_safe_for_any_continuation(pattern, data, special_tokens, more):
    splitter = Splitter(pattern, special_tokens)
    cut = splitter.safe_cuts.last(data, 0)
    if cut is None:
        return
    assert 0 < cut <= len(data)
    both = split(data[:cut], splitter) + split(data[cut:] + more, splitter)
    assert both == split(data + more, splitter)


def test_chunks_end_at_special_tokens_if_there_are_any(tmp_path):
    path = tmp_path / "text.txt"
    document = b"one two three four\n" + EOT.encode()
    path.write_bytes(document * 10)
    ends = [end for _, end in chunk_bounds(path, 40, SPLITTER)]
    assert ends == [2 * len(document) * i for i in range(1, 6)]


def test_text_without_special_tokens_is_cut_too(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"word " * 1000)
    assert len(list(chunk_bounds(path, 100, SPLITTER))) > 40
    # Safe cuts are known for patterns that can be compiled.
    assert len(list(chunk_bounds(path, 100, Splitter("cl100k", [EOT])))) > 40
    assert len(list(chunk_bounds(path, 100, Splitter(r"\b\S+|\s+", [EOT])))) == 1


def test_text_without_a_safe_cut_is_one_chunk(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"x" * 300_000)
    assert list(chunk_bounds(path, 10, SPLITTER)) == [(0, 300_000)]


def test_cuts_are_found_far_beyond_the_first_window(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"x" * 300_000 + b" y" + EOT.encode() + b"z")
    assert list(chunk_bounds(path, 10, SPLITTER)) == [(0, 300_015), (300_015, 300_016)]
    assert list(chunk_bounds(path, 1 << 20, SPLITTER)) == [(0, 300_016)]


def test_an_empty_file_has_no_chunk(tmp_path):
    path = tmp_path / "text.txt"
    path.touch()
    assert list(chunk_bounds(path, 10, SPLITTER)) == []


def test_a_chunk_size_of_zero_is_refused(tmp_path):
    with pytest.raises(ValueError, match="chunk_size is 0"):
        list(chunk_bounds(tmp_path, 0))


def test_a_file_that_became_shorter_is_noticed(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"abc")
    with pytest.raises(ValueError, match="ended at byte 3"):
        read_bytes(path, 1, 10)


def test_a_file_that_becomes_shorter_while_it_is_divided_is_noticed(tmp_path):
    path = tmp_path / "text.txt"
    for left in (0, 150_000, 250_000):
        path.write_bytes(b"x" * 300_000)
        with open(path, "rb") as file:
            path.write_bytes(b"x" * left)
            with pytest.raises(ValueError, match=f"text.txt ended at byte {left:,} where bytes"):
                _first_cut(file, 100_000, 300_000, SPLITTER.safe_cuts, 10)


def test_where_no_cut_can_exist_none_is_searched(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"a b " * 10)
    cuts = Splitter(r"\b\S+|\s+").safe_cuts  # cannot be compiled
    assert not cuts.may_exist
    with open(path, "rb") as file:
        assert _first_cut(file, 4, 40, cuts, 10) == 40
        assert file.tell() == 0


def test_read_text_replaces_or_refuses_invalid_bytes(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffa\r\n".encode() + b"b\xe9c")
    assert read_text(path, 0, 6) == "\ufeffa\r\n"
    assert read_text(path, 3, 9) == "a\r\nb\ufffdc"
    assert read_text(path, 3, 7, "strict") == "a\r\nb"
    with pytest.raises(ValueError, match=r"text\.txt: byte 0xe9 at offset 7 is not valid UTF-8"):
        read_text(path, 3, 9, "strict")
    with pytest.raises(ValueError, match="ended at byte 9"):
        read_text(path, 3, 10)
