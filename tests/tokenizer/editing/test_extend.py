"""extend: each new word is encoded as a single token, and other texts keep their ids."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics import Tokenizer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.bpe.reference import merge_by_rank
from cs336_basics.splitting import pretokenize, split_special_tokens
from cs336_basics.tokenizer import extend, prune, token_origins, token_parts
from tests.errors import rejects
from tests.tokenizer.examples import (
    END,
    edited_merges,
    reference_ids,
    small_tokenizer,
    tricky_texts,
)

WORDS = [" blockchain", "blockchain", "héllo", "🎉", "ababab", "zzzzz", " the"]


def test_words_become_one_token_each_and_old_ids_stay():
    old = small_tokenizer()
    before = old.hash()
    new = extend(old, WORDS, ["<|user|>"])
    assert old.hash() == before
    assert {token_id: new.vocab[token_id] for token_id in old.vocab} == old.vocab
    assert new.merges[: len(old.merges)] == old.merges
    assert new.special_token_id("<|user|>") == old.vocab_size
    for word in WORDS:
        assert new.encode(word) == [new.token_to_id(word)], word
    assert sorted(new.vocab) == list(range(len(new)))
    assert new.pattern == old.pattern


def test_a_word_that_is_a_token_adds_nothing():
    old = small_tokenizer()
    word = max(old.vocab.values(), key=len).decode()
    assert list(pretokenize(word)) == [word]
    assert extend(old, [word]).hash() == old.hash()


def test_a_word_of_n_tokens_needs_at_most_n_minus_1_new_ids():
    old = small_tokenizer()
    for word in WORDS:
        assert len(extend(old, [word])) - len(old) <= len(old.encode(word)) - 1


@settings(max_examples=60, deadline=None)
@given(tricky_texts, st.lists(st.sampled_from([*WORDS, " cat", "ee", "  ", "\n\n"]), max_size=4))
def test_other_texts_change_only_where_new_merges_apply(text, words):
    old = small_tokenizer()
    new = extend(old, words)
    text += "".join(words)
    assert new.encode(text) == reference_ids(new, text)
    # Apply the new merges, by rank, to the old tokens of each pre-token.
    ranks = {pair: rank for rank, pair in enumerate(new.merges)}
    expected = []
    for segment, is_special in split_special_tokens(text, [END]):
        for word in [segment] if is_special else pretokenize(segment):
            tokens = [old.vocab[i] for i in old.encode(word)]
            expected += tokens if is_special else merge_by_rank(tuple(tokens), ranks)
    assert [new.vocab[i] for i in new.encode(text)] == expected
    pairs = set(new.merges[len(old.merges) :])
    tokens = [old.vocab[i] for i in old.encode(text)]
    if not pairs & set(itertools.pairwise(tokens)):
        assert new.encode(text) == old.encode(text)


@pytest.mark.parametrize("seed", range(30))
def test_vocabularies_in_any_order_are_extended(seed):
    vocab, merges = edited_merges(seed)
    old = Tokenizer(vocab, merges)
    words = ["abcabc", "cccc", "bca"]
    new = extend(old, words)
    for word in words:
        assert new.encode(word) == [new.token_to_id(word)] == reference_ids(new, word)
    assert {token_id: new.vocab[token_id] for token_id in vocab} == vocab


def test_parts_are_the_old_ids_of_new_tokens():
    old = small_tokenizer()
    new = extend(old, ["blockchain", "🐍"], ["<|user|>"])
    parts = token_parts(old, new)
    assert list(parts) == list(range(len(old), len(new)))
    assert parts[new.special_token_id("<|user|>")] == []
    assert parts[new.token_to_id("blockchain")] == old.encode("blockchain")
    assert parts[new.token_to_id("🐍")] == old.encode("🐍")
    for token_id, old_ids in parts.items():
        if old_ids:
            assert old.decode_bytes(old_ids) == new.vocab[token_id]


def test_origins_are_the_ids_of_the_same_token_or_of_its_bytes():
    old = small_tokenizer()
    longer = extend(old, ["blockchain", "🐍"], ["<|user|>"])
    new = prune(longer, 270, {b"blockchain": 9, b" the": 5}).tokenizer
    origins = token_origins(old, new)
    assert len(origins) == new.vocab_size
    assert origins[new.special_token_id("<|user|>")] == []
    assert origins[new.special_token_id(END)] == [old.special_token_id(END)]
    renumbered = 0
    for token_id, token in new.vocab.items():
        if (same := old.definition.token_ids.get(token)) is not None:
            assert origins[token_id] == [same]
            renumbered += same != token_id
        elif token_id not in new.definition.added_ids.values():
            assert len(origins[token_id]) > 1
            assert old.decode_bytes(origins[token_id]) == token
    assert renumbered > 0
    bytes_only = Tokenizer({0: b"a", 2: b"b"}, [])
    assert token_origins(bytes_only, Tokenizer({0: b"b", 1: b"c", 4: b"a"}, [])) == [
        [2], [], [], [], [0],
    ]  # fmt: skip


def test_parts_of_an_unrelated_vocabulary_are_rejected():
    with rejects(None, "id 0", "b'\\x00'"):
        token_parts(small_tokenizer(), Tokenizer({1: b"a"}, []))


@pytest.mark.parametrize(
    ("words", "error", "shown"),
    [
        ("the", InputTypeError, "'the'"),
        ([b"the"], InputTypeError, "b'the'"),
        ([""], InputError, "''"),
        (["New York"], InputError, "['New', ' York']"),
        ([f"a{END}"], InputError, "'<|endoftext|>'"),
        (["x" * 1025], InputError, "1,025"),
        (["\ud800"], InputError, r"'\ud800'"),
    ],
)
def test_words_that_cannot_be_tokens_are_rejected(words, error, shown):
    with pytest.raises(error) as caught:
        extend(small_tokenizer(), words)
    assert shown in str(caught.value)


def test_a_word_with_an_absent_byte_is_rejected():
    with rejects(None, "'ad'", "0x64"):
        extend(Tokenizer({0: b"a", 1: b"b"}, []), ["ad"])
