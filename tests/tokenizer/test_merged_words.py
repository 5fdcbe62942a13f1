import pytest

from cs336_basics import Tokenizer
from cs336_basics._support.errors import InputTypeError
from cs336_basics.bpe.reference import merge_pair, split_bytes
from cs336_basics.tokenizer.merged_words import MOST_BYTES, merge_steps
from tests.errors import rejects
from tests.tokenizer.examples import BYTES, END, TRAINING_TEXT, small_tokenizer


@pytest.mark.parametrize("backend", ["reference", "python", None])
def test_the_steps_lead_from_bytes_to_the_ids(backend):
    tokenizer = Tokenizer.of(small_tokenizer().definition, backend=backend)
    text = TRAINING_TEXT[:200] + END
    words = merge_steps(tokenizer, text)
    assert b"".join(word.word for word in words) == text.encode()
    assert [token_id for word in words for token_id in word.ids] == tokenizer.encode(text)
    assert [word.kind for word in words] == ["merged"] * (len(words) - 1) + ["special"]
    for word in words[:-1]:
        tokens = split_bytes(word.word)
        for rank, index, merged in word.steps:
            pair = tokens[index : index + 2]
            assert pair == tokenizer.merges[rank]
            assert merged == (*tokens[:index], b"".join(pair), *tokens[index + 2 :])
            tokens = merged
        assert [tokenizer.vocab[token_id] for token_id in word.ids] == list(tokens)


def test_with_ignore_merges_a_pretoken_that_is_a_token_has_no_steps():
    tokenizer = Tokenizer({**BYTES, 256: b"ab", 257: b"abc"}, [(b"a", b"b")], ignore_merges=True)
    whole, merged = merge_steps(tokenizer, "abc abd")
    assert whole == (b"abc", "whole", [], [257])
    assert merged.steps == [(0, 1, merge_pair(split_bytes(b" abd"), (b"a", b"b")))]


def test_invalid_texts_are_rejected():
    tokenizer = small_tokenizer()
    assert merge_steps(tokenizer, "") == []
    merge_steps(tokenizer, "é" * (MOST_BYTES // 2))
    with rejects("text", "1,000", "1,001"):
        merge_steps(tokenizer, "é" * (MOST_BYTES // 2) + "a")
    with rejects("text", "1,000", "2,000"):  # found first
        merge_steps(tokenizer, "\ud800" * 2000)
    with rejects("text", kind=InputTypeError):
        merge_steps(tokenizer, b"a")
    with rejects(None, "U+D800"):
        merge_steps(tokenizer, "\ud800")
    with rejects("tokenizer", kind=InputTypeError):
        merge_steps(None, "a")
    with rejects(None, "0x62"):
        merge_steps(Tokenizer({0: b"a"}, []), "ab")
