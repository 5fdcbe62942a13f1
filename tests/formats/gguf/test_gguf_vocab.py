"""Vocabularies for llama.cpp are complete. Those that would give different ids are rejected."""

from __future__ import annotations

import itertools
import time

import pytest

from cs336_basics.formats.gguf.gguf_vocab import CONTROL, NORMAL, UNUSED, gguf_vocab
from cs336_basics.splitting import PATTERNS
from cs336_basics.tokenizer.definition import TokenizerDefinition
from tests.errors import rejects
from tests.tokenizer.examples import BYTES, byte_tokenizer

EXPORTED = {"gpt2": "gpt-2", "cl100k": "dbrx", "llama3": "dbrx", "qwen2": "qwen2"}
HE = [(b"h", b"e")]
MERGES = [(b" ", b"t"), (b" t", b"he"), (b"h", b"e")]

# The "dbrx" pattern, copied from llama.cpp's source.
DBRX = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def without_byte(byte, token):
    """Return a vocabulary for the merges HE, with another token instead of a byte."""
    return {**BYTES, byte: token, 256: b"he"}


def exported(merges=MERGES, special_tokens=(), pattern="gpt2", vocab=None, size=None):
    if vocab is None:
        vocab = byte_tokenizer(*special_tokens, merges=merges).vocab
    definition = TokenizerDefinition(vocab, merges, list(special_tokens), pattern)
    found = gguf_vocab(definition, size or len(vocab))
    return {key.removeprefix("tokenizer.ggml."): value for key, value in found.items()}


def test_tokens_use_the_byte_alphabet_and_special_tokens_plain_text():
    found = exported([(b" ", b"t"), (b"\xc3", b"\xa9")], ["<|endoftext|>", "é »"], size=262)
    assert found["pre"] == "gpt-2"
    assert found["tokens"][:3] == ["Ā", "ā", "Ă"]
    assert found["tokens"][256:] == ["Ġt", "Ã©", "<|endoftext|>", "é »", "[PAD260]", "[PAD261]"]
    assert found["token_type"] == [NORMAL] * 258 + [CONTROL] * 2 + [UNUSED] * 2
    assert found["merges"] == ["Ġ t", "Ã ©"]


def test_ids_without_a_token_are_unused():
    vocab = byte_tokenizer(merges=MERGES).vocab
    vocab[260] = b"\xf0\x9f"
    found = exported(vocab=vocab, size=261)
    assert found["tokens"][258:] == ["he", "[PAD259]", "ðŁ"]
    assert found["token_type"][258:] == [NORMAL, UNUSED, NORMAL]


def test_the_pattern_may_be_given_by_name_or_expression():
    for name, theirs in EXPORTED.items():
        assert exported(pattern=PATTERNS[name]) == exported(pattern=name)
        assert exported(pattern=name)["pre"] == theirs


@pytest.mark.parametrize("name", sorted(PATTERNS.keys() - EXPORTED.keys()))
def test_patterns_that_llama_cpp_splits_differently_are_refused(name):
    with rejects("pattern", f"'{name}'"):
        exported(pattern=name)


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"pattern": r"\p{L}+|\P{L}"}, ("pattern", "'\\\\p{L}")),
        ({"pattern": DBRX}, ("pattern",)),
        ({"merges": []}, (None, "merges")),
        ({"vocab": without_byte(10, b"\n\n"), "merges": HE}, (None, "0x0a")),
        (
            {"vocab": without_byte(32, "Ġ".encode()), "merges": HE, "special_tokens": ["Ġ"]},
            (None, "0x20"),
        ),
        (
            {"vocab": byte_tokenizer(merges=MERGES).vocab, "special_tokens": ["\n"]},
            (None, "'\\n'"),
        ),
        ({"special_tokens": ["<a\0b>"]}, (None, "'<a\\x00b>'")),
        ({"special_tokens": ["Ġt"]}, (None, "'Ġt'")),
        ({"special_tokens": ["[PAD260]"], "size": 261}, (None, "PAD")),
        ({"special_tokens": ["<a>", ">b<c"]}, (None, "'<a>'", "'>b<c'")),
        ({"special_tokens": ["abc", "cab"]}, (None, "'abc'", "'cab'")),
    ],
)
def test_a_tokenizer_with_different_ids_in_llama_cpp_is_refused(options, fields):
    with rejects(*fields):
        exported(**options)


@pytest.mark.parametrize(
    "tokens", [["<a>", "<a>b"], ["bc", "abcd"], ["<|x|>", "<|y|>"], ["b<|", "<|"]]
)
def test_special_tokens_that_contain_others_are_exported(tokens):
    # The longer token starts first or at the same character, so the leftmost match is the longest.
    assert exported(special_tokens=tokens)["tokens"][-2:] == tokens


def test_many_special_tokens_are_exported_in_time():
    tokens = [f"<|special_{i:06}|>" for i in range(3000)]
    start = time.process_time()
    assert exported(special_tokens=tokens)["tokens"][-3000:] == tokens
    assert time.process_time() - start < 3


CROSSING = [(b"\n", b" "), (b" ", b"\t"), (b"\n ", b"\t"), (b"\r", b"\n"), (b"\r\n", b"\xc2")]
NOT_CROSSING = [(b" ", b"\n"), (b"\n", b"\n"), (b" \n", b"\n\n"), (b" ", b" "), (b"\r", b"\n"),
                (b"  ", b"\n"), (b" ", b"\t"), (b".", b"\n"), (b" ", b"a")]  # fmt: skip


def test_a_cl100k_token_with_bytes_after_a_line_end_is_refused():
    with rejects(None, "b'\\n '"):
        exported(CROSSING, pattern="cl100k")
    for name in ("gpt2", "llama3", "qwen2"):
        assert exported(CROSSING, pattern=name)["pre"] == EXPORTED[name]
    assert exported(NOT_CROSSING, pattern="cl100k")["pre"] == "dbrx"


def white_space_texts():
    for length in range(6):
        for characters in itertools.product(" \n\r\ta.", repeat=length):
            yield "".join(characters)


def test_cl100k_and_dbrx_differ_only_if_a_token_has_bytes_after_a_line_end():
    for merges, equal in ((NOT_CROSSING, True), (CROSSING, False)):
        ours = byte_tokenizer(merges=merges, pattern="cl100k")
        theirs = byte_tokenizer(merges=merges, pattern=DBRX)
        texts = list(white_space_texts())
        assert (ours.encode_batch(texts) == theirs.encode_batch(texts)) is equal
