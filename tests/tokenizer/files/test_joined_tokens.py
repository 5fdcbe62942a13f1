"""JoinedTokens: slicing several token files as if they were one sequence."""

from __future__ import annotations

import numpy as np
import pytest

from cs336_basics._support.errors import InputTypeError
from cs336_basics.tokenizer import Tokenizer, encode_file
from cs336_basics.tokenizer.files.joined_tokens import JoinedTokens, load_token_files
from tests.errors import rejects
from tests.tokenizer.examples import BYTES

PARTS = [np.arange(5, dtype=np.uint16), np.arange(0, dtype=np.uint16),
         np.arange(100, 101, dtype=np.uint16), np.arange(200, 207, dtype=np.uint16)]  # fmt: skip
WHOLE = np.concatenate(PARTS)


def test_every_slice_equals_the_slice_of_the_concatenation():
    joined = JoinedTokens(PARTS)
    assert (len(joined), joined.shape, joined.ndim) == (13, (13,), 1)
    assert joined.dtype == np.uint16
    for start in range(-14, 15):
        for stop in range(-14, 15):
            found = joined[start:stop]
            assert found.dtype == np.uint16
            assert found.tolist() == WHOLE[start:stop].tolist()
    assert joined[:].tolist() == WHOLE.tolist()


def test_sections_are_views():
    joined = JoinedTokens(PARTS)
    for start in range(14):
        for stop in range(start, 14):
            section = joined.between(start, stop)
            assert section[:].tolist() == WHOLE[start:stop].tolist()
            owners = [part for part in section.parts if len(part)]
            assert all(any(np.shares_memory(part, p) for p in PARTS) for part in owners)
    assert np.shares_memory(joined[1:4], PARTS[0])


def test_a_wider_dtype_fits_the_ids_of_all_parts():
    joined = JoinedTokens([np.array([1], np.uint16), np.array([70_000], np.uint32)])
    assert joined.dtype == np.uint32
    assert joined[0:2].tolist() == [1, 70_000]


@pytest.mark.parametrize(
    ("start", "stop", "fields"),
    [(-1, 2, ("start", -1)), (3, 2, ("stop", 2)), (0, 14, ("stop", 14))],
)
def test_a_section_outside_the_sequence_is_rejected(start, stop, fields):
    with rejects(*fields):
        JoinedTokens(PARTS).between(start, stop)


def test_only_slices_with_step_1_are_allowed():
    joined = JoinedTokens(PARTS)
    with rejects("index", "index", kind=InputTypeError):
        joined[3]
    with rejects("index", "step", 2):
        joined[::2]


@pytest.fixture
def files(tmp_path):
    for name, text, merges in (("a", "cat", []), ("b", "dog!", []), ("c", "it", [(b"i", b"t")])):
        (tmp_path / f"{name}.txt").write_text(text)
        tokenizer = Tokenizer({**BYTES, 256: b"it"}, merges)
        encode_file(tokenizer, tmp_path / f"{name}.txt", tmp_path / f"{name}.npy", num_workers=1)
    return [tmp_path / f"{name}.npy" for name in "abc"]


def test_files_are_joined_in_the_order_given(files):
    assert bytes(load_token_files([files[1], files[0]])[:].tolist()) == b"dog!cat"
    assert isinstance(load_token_files(files[:1]), np.memmap)


def test_files_of_different_tokenizers_are_rejected(files):
    with rejects(None, "a.npy", place="c.npy"):
        load_token_files(files)
    with rejects("paths", "paths"):
        load_token_files([])
