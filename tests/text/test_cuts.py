"""Splitting chunks separately gives the same pre-tokens as splitting the whole text."""

import io
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.cuts import blocks_at_cuts, next_cut
from tests.counting.hostile import EOT, SPLITTER
from tests.errors import rejects
from tests.splitting.trouble import data_strategy, special_strategy, split


def cuts_of(data, chunk_size, splitter):
    """Return the offsets at which chunks of the given size end in a file that contains `data`."""
    file = io.BytesIO(data)
    targets = range(chunk_size, len(data) + chunk_size, chunk_size)
    return [next_cut(file, target, splitter.safe_cuts) for target in targets]


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W+"])
@given(data=data_strategy, special_tokens=special_strategy, chunk_size=st.integers(1, 30))
@example(data="🙂x xaaaaaaaa".encode(), special_tokens=["x x"], chunk_size=1)
def test_chunks_split_like_the_whole(pattern, data, special_tokens, chunk_size):
    splitter = Splitter(pattern, special_tokens)
    ends = cuts_of(data, chunk_size, splitter)
    assert ends == sorted(ends)
    assert ends[-1:] in ([], [len(data)])
    assert all(end >= chunk_size * number for number, end in enumerate(ends[:-1], 1))
    chunks = [split(data[start:end], splitter) for start, end in itertools.pairwise([0, *ends])]
    assert list(itertools.chain(*chunks)) == split(data, splitter)


@given(data=data_strategy, block_size=st.integers(1, 30))
def test_blocks_split_like_the_whole(data, block_size):
    cuts, size = SPLITTER.safe_cuts, len(data)
    blocks = list(blocks_at_cuts(io.BytesIO(data), "a", 0, size, cuts, block_size, size))
    assert b"".join(blocks) == data
    assert all(len(block) >= block_size for block in blocks[:-1])
    parts = (split(block, SPLITTER) for block in blocks)
    assert list(itertools.chain.from_iterable(parts)) == split(data, SPLITTER)


@pytest.mark.parametrize("left", [0, 1, 39, 40, 41, 79, 99])
def test_blocks_of_a_truncated_file_are_rejected(left):
    file = io.BytesIO(b"some words " * 9 + b"!")
    blocks = blocks_at_cuts(file, "a", 0, 100, SPLITTER.safe_cuts, 40, 100)
    file.truncate(left)
    with rejects(None, left, place="a"):
        list(blocks)


def test_a_block_without_a_cut_is_rejected():
    data = b"a" * 1000
    blocks = blocks_at_cuts(io.BytesIO(data), "a", 0, 1000, SPLITTER.safe_cuts, 100, 200)
    with rejects(None, 200):
        list(blocks)


def test_text_without_special_tokens_is_cut():
    data = b"word " * 1000
    assert len(set(cuts_of(data, 100, SPLITTER))) > 40
    # Patterns that cannot be compiled have no safe cuts inside text.
    assert len(set(cuts_of(data, 100, Splitter("cl100k", [EOT])))) > 40
    assert len(set(cuts_of(data, 100, Splitter(r"\b\S+|\s+", [EOT])))) == 1


def test_cuts_beyond_the_first_window_are_found():
    data = b"x" * 300_000 + b" y" + EOT.encode() + b"z"
    assert next_cut(io.BytesIO(data), 10, SPLITTER.safe_cuts) == 300_000
    assert next_cut(io.BytesIO(data), 300_001, SPLITTER.safe_cuts) == 300_002
    # No cut is inside the special token.
    assert next_cut(io.BytesIO(data), 300_003, SPLITTER.safe_cuts) == 300_015
    assert next_cut(io.BytesIO(b"x" * 300_000), 10, SPLITTER.safe_cuts) == 300_000


class Shrinking(io.BytesIO):
    """A file that is truncated before it is read."""

    def __init__(self, size, left):
        super().__init__(b"x" * size)
        self.left = left

    def read(self, size=-1):
        self.truncate(self.left)
        return super().read(size)


@pytest.mark.parametrize("left", [0, 150_000, 250_000])
def test_truncated_files_are_rejected(left):
    with rejects(None, f"{left:,}", place="the file"):
        next_cut(Shrinking(300_000, left), 100_000, SPLITTER.safe_cuts)


def test_the_size_of_the_windows_does_not_change_a_cut(monkeypatch):
    monkeypatch.setattr("cs336_basics.text.cuts._WINDOW", 50)
    data = b"x" * 200 + b"abcab" * 3 + b"z" * 200
    cuts = Splitter("gpt2", ["ab", "abc"]).safe_cuts
    for target in range(len(data)):
        cut = cuts.first(data, target, len(data))
        expected = len(data) if cut is None else cut
        assert next_cut(io.BytesIO(data), target, cuts) == expected


def test_no_search_if_no_cut_can_exist():
    cuts = Splitter(r"\b\S+|\s+").safe_cuts  # cannot be compiled
    assert not cuts.may_exist
    assert next_cut(Shrinking(40, 0), 4, cuts) == 40
