"""Vocabularies whose ids have gaps."""

from __future__ import annotations

from cs336_basics import Tokenizer
from cs336_basics.tokenizer import (
    count_token_file,
    count_tokens,
    encode_file,
    prune,
    translate_token_file,
)
from tests.errors import rejects
from tests.tokenizer.examples import BYTES


def test_arrays_are_not_allocated_for_a_huge_id(tmp_path):
    vocab = {**BYTES, 2**32 - 6: b"ab"}
    tokenizer = Tokenizer(vocab, [(b"a", b"b")])
    assert tokenizer.encode("ab") == [2**32 - 6]
    text, tokens = tmp_path / "text.txt", tmp_path / "tokens.npy"
    text.write_text("abc")
    encode_file(tokenizer, text, tokens)
    for use in (
        lambda: prune(tokenizer, 256, {b"ab": 1}),
        lambda: count_tokens(tokenizer, text),
        lambda: count_token_file(tokenizer, tokens),
        lambda: translate_token_file(tokens, tmp_path / "new.npy", tokenizer, tokenizer),
    ):
        with rejects(None, "4,294,967,290", 257):
            use()
    assert not (tmp_path / "new.npy").exists()
