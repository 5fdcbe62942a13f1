"""What is exported to one format and read back is the tokenizer that it was, through every pair."""

from __future__ import annotations

import itertools

import pytest

from cs336_basics.formats import TOKENIZER_FORMATS, export_tokenizer
from cs336_basics.tokenizer import Tokenizer
from tests.formats.exported import PATTERNS, byte_tokenizer, trained

READERS = {
    "huggingface": Tokenizer.from_huggingface,
    "tiktoken": Tokenizer.from_tiktoken,
    "gpt2": Tokenizer.from_gpt2,
}


def test_every_format_of_tokenizers_can_be_read():
    assert READERS.keys() == TOKENIZER_FORMATS.keys()


ROUTES = [
    (pattern, *pair)
    for pattern, *pair in itertools.product(PATTERNS, READERS, READERS)
    if pattern == "gpt2" or "gpt2" not in pair  # that pair of files is for its own pattern
]


@pytest.mark.parametrize(("pattern", "first", "second"), ROUTES)
def test_every_pair_of_formats_gives_the_tokenizer_back(tmp_path, pattern, first, second):
    tokenizer = trained(pattern)
    for number, name in enumerate((first, second)):
        export_tokenizer(tokenizer, name, tmp_path / str(number))
        tokenizer = READERS[name](tmp_path / str(number))
    assert tokenizer.hash() == trained(pattern).hash()


def test_a_tokenizer_without_special_tokens_comes_back(tmp_path):
    tokenizer = byte_tokenizer(merges=[(b"a", b"b"), (b"ab", b"c")])
    for name, reader in READERS.items():
        export_tokenizer(tokenizer, name, tmp_path / name)
        assert reader(tmp_path / name).hash() == tokenizer.hash()
