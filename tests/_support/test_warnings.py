"""Warnings point to the line that called the library."""

import warnings

import pytest

from cs336_basics import Tokenizer, train_bpe
from cs336_basics.counting import count_words
from cs336_basics.splitting import Splitter
from cs336_basics.tokenizer import encode_file
from tests.tokenizer.examples import BYTES

LETTERS = r"(?=\p{L})\p{L}+"  # not compiled, so counted in Python


@pytest.mark.parametrize(
    "call",
    [
        lambda path: Tokenizer(BYTES, []).encode_array(path.read_bytes()),
        lambda path: count_words(path),
        lambda path: count_words(path, Splitter(LETTERS), num_workers=1),
        lambda path: train_bpe(path, 400, [], trainer="heap"),
        lambda path: encode_file(Tokenizer(BYTES, []), path, path.with_suffix(".npy")),
    ],
)
def test_warnings_name_the_call(call, tmp_path):
    (tmp_path / "text.txt").write_bytes(b"one \xff three")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(tmp_path / "text.txt")
    assert caught
    assert {one.filename for one in caught} == {__file__}, [str(one) for one in caught]
