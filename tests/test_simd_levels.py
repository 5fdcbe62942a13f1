"""Test that every SIMD level of this CPU gives the same results as the reference code."""

from __future__ import annotations

import collections

import pytest

from cs336_basics.bpe import train_bpe
from cs336_basics.counting import WordCounts
from cs336_basics.splitting import PATTERNS, reference
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.reference import encode_text
from tests.texts import END_OF_TEXT, long_text

_scanner = pytest.importorskip("cs336_basics.splitting._scanner")
_counting = pytest.importorskip("cs336_basics.counting._counting")
_encoder = pytest.importorskip("cs336_basics.tokenizer.encoders._encoder")
native_encoder = pytest.importorskip("cs336_basics.tokenizer.encoders.native_encoder")

pytestmark = [
    pytest.mark.numerical,
    pytest.mark.parametrize("simd_level", _scanner.simd_levels()),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_counter_counts_the_pretokens_of_the_regex(simd_level, pattern, seed):
    text = long_text(seed, 20_000)
    counter = _counting.TextCounter([END_OF_TEXT], pattern, simd_level=simd_level)
    counter.count(text.encode())
    counts = WordCounts.of_buffers(counter.result())
    expected = collections.Counter(
        pretoken.encode()
        for document in text.split(END_OF_TEXT)
        for pretoken in reference.pretokenize(document, pattern)
    )
    assert counts == expected


def test_the_encoder_gives_the_ids_of_the_reference(simd_level, seed, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(long_text(seed, 20_000), encoding="utf-8", newline="")
    vocab, merges = train_bpe(path, 600, [END_OF_TEXT], num_workers=1)
    text = long_text(seed + 1000, 10_000)
    expected = encode_text(text, vocab, merges, [], "gpt2")
    encoder = native_encoder.compile_encoder(
        TokenizerDefinition(vocab, merges), 1 << 16, simd_level=simd_level
    )
    assert encoder.encode(text, _encoder.SpecialSet([])) == expected
