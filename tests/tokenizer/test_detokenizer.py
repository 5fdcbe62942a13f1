"""Tokens and their ids, special tokens that are added later, and how a tokenizer is shown."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.encoders.backends import BACKENDS
from tests.tokenizer.examples import BYTES, END, skip_unless_available, small_tokenizer

CHAT = ["<|user|>", "<|assistant|>"]


# ------------------------------------------------------------------ tokens and their ids


def test_len_counts_tokens_and_vocab_size_counts_rows():
    tokenizer = Tokenizer({0: b"a", 7: b"b"}, [], [END])
    assert len(tokenizer) == 3
    assert tokenizer.vocab_size == 9


def test_every_id_is_found_by_its_token_and_back():
    tokenizer = small_tokenizer()
    for token_id, token in tokenizer.vocab.items():
        assert tokenizer.token_to_id(token) == token_id
        assert tokenizer.id_to_token(token_id) == token
        assert tokenizer.id_to_token(np.uint16(token_id)) == token


def test_a_str_is_the_token_of_its_utf8():
    tokenizer = Tokenizer({**BYTES, 256: "é".encode()}, [], [END])
    assert tokenizer.token_to_id("é") == tokenizer.token_to_id(b"\xc3\xa9") == 256
    assert tokenizer.token_to_id(END) == tokenizer.special_token_id(END) == 257
    assert tokenizer.id_to_token(0xC3) == b"\xc3"


@pytest.mark.parametrize("token", ["Ġthe", b"no such token", "", b""])
def test_an_unknown_token_has_no_id(token):
    assert small_tokenizer().token_to_id(token) is None


@pytest.mark.parametrize("token_id", [-1, 5000, 10**30])
def test_an_unknown_id_has_no_token(token_id):
    assert small_tokenizer().id_to_token(token_id) is None


@pytest.mark.parametrize("token", [3, None, bytearray(b"a"), [b"a"]])
def test_a_token_is_bytes_or_str(token):
    with pytest.raises(TypeError, match=r"token is .*: it must be bytes or a str"):
        small_tokenizer().token_to_id(token)


def test_a_token_with_a_lone_surrogate_is_refused():
    with pytest.raises(ValueError, match="it has no UTF-8"):
        small_tokenizer().token_to_id("\ud800")


@pytest.mark.parametrize("token_id", [True, np.True_, 1.0, "1", None])
def test_an_id_is_an_integer(token_id):
    with pytest.raises(TypeError, match=r"token_id is .*not an integer"):
        small_tokenizer().id_to_token(token_id)


def test_looking_up_tokens_does_not_make_pickles_larger():
    tokenizer = small_tokenizer()
    before = len(pickle.dumps(tokenizer))
    assert tokenizer.token_to_id(b"a") == 97
    assert len(pickle.dumps(tokenizer)) == before
    assert pickle.loads(pickle.dumps(tokenizer)).token_to_id(b"a") == 97


def test_repr_is_one_short_line():
    tokenizer = Tokenizer(BYTES, [], [END])
    assert repr(tokenizer) == (
        f"<Tokenizer: 257 tokens, 0 merges, special tokens ['{END}'], pattern 'gpt2'>"
    )
    many = Tokenizer(BYTES, [], [f"<|{n}|>" for n in range(1000)], pattern=r"\w+|\W+" + "|x" * 999)
    assert len(repr(many)) < 300


# ------------------------------------------------------------------ special tokens, added later


@pytest.fixture(params=BACKENDS)
def tokenizer(request):
    return small_tokenizer(backend=skip_unless_available(request.param))


def test_added_special_tokens_get_the_next_ids_and_old_ids_stay(tokenizer):
    before = dict(tokenizer.vocab)
    size = tokenizer.vocab_size
    text = f"the cat{END} sat"
    ids = tokenizer.encode(text)
    as_text = tokenizer.encode("<|user|>")
    assert len(as_text) > 1

    assert tokenizer.add_special_tokens(CHAT) == [size, size + 1]
    assert tokenizer.vocab_size == size + 2
    assert {token_id: tokenizer.vocab[token_id] for token_id in before} == before
    assert tokenizer.special_tokens[-2:] == CHAT
    assert tokenizer.encode(text) == ids
    assert tokenizer.encode("<|user|>the cat<|assistant|>") == [
        size,
        *tokenizer.encode("the cat"),
        size + 1,
    ]
    assert tokenizer.encode("<|user|>", allowed_special=()) == as_text
    assert tokenizer.decode([size, size + 1]) == "".join(CHAT)
    assert list(tokenizer.encode_iterable(["<|us", "er|>"])) == [size]


def test_a_token_that_is_special_already_keeps_its_id(tokenizer):
    end = tokenizer.special_token_id(END)
    size = tokenizer.vocab_size
    assert tokenizer.add_special_tokens([END, "<|user|>", END.upper()]) == [end, size, size + 1]
    assert tokenizer.add_special_tokens([END]) == [end]
    assert tokenizer.add_special_tokens([]) == []
    assert tokenizer.vocab_size == size + 2
    assert tokenizer.special_tokens.count(END) == 1


def test_a_token_of_the_vocabulary_becomes_special_with_its_id():
    tokenizer = Tokenizer({**BYTES, 256: b"th"}, [(b"t", b"h")])
    assert tokenizer.add_special_tokens(["th"]) == [256]
    assert len(tokenizer) == 257
    assert tokenizer.special_token_id("th") == 256


def test_added_tokens_are_saved_pickled_and_copied(tmp_path):
    tokenizer = small_tokenizer()
    old_hash = tokenizer.hash()
    earlier = copy.copy(tokenizer)
    tokenizer.add_special_tokens(CHAT)
    assert tokenizer.hash() != old_hash
    assert earlier.hash() == old_hash
    assert earlier.special_tokens == [t for t in tokenizer.special_tokens if t not in CHAT]
    tokenizer.save(tmp_path)
    text = f"<|user|>the cat{END}<|assistant|>"
    others = [
        Tokenizer.from_directory(tmp_path),
        pickle.loads(pickle.dumps(tokenizer)),
        copy.deepcopy(tokenizer),
    ]
    for other in others:
        assert other.encode(text) == tokenizer.encode(text)
        assert other.vocab == tokenizer.vocab
        assert other.hash() == tokenizer.hash()


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        ("<|user|>", TypeError, "pass a list"),
        ({"<|a|>", "<|b|>"}, TypeError, "is a set"),
        ({"pad_token": "<|pad|>"}, TypeError, "pass a list of str"),
        ([b"<|user|>"], TypeError, "is of type bytes, not a str"),
        ([""], ValueError, "is empty"),
        (["<|a|>", "<|a|>"], ValueError, "given twice"),
        (["\ud800"], ValueError, "not valid Unicode"),
    ],
)
def test_refused_tokens_change_nothing(tokens, error, message):
    tokenizer = small_tokenizer()
    before = dict(vars(tokenizer))
    with pytest.raises(error, match=message):
        tokenizer.add_special_tokens(tokens)
    assert vars(tokenizer) == before


def test_the_id_after_the_greatest_one_is_refused():
    tokenizer = Tokenizer({0: b"a", (1 << 32) - 1: b"b"}, [], backend="python")
    with pytest.raises(ValueError, match="above 4294967295"):
        tokenizer.add_special_tokens(["<|user|>"])


def test_threads_that_encode_see_the_old_tokens_or_the_new_ones():
    tokenizer = small_tokenizer()
    text = "<|user|>the cat"
    old = tokenizer.encode(text)
    new = [tokenizer.vocab_size, *tokenizer.encode("the cat")]
    found = []
    ready, stop = threading.Event(), threading.Event()

    def encode():
        while not stop.is_set():
            found.append(tokenizer.encode(text))
            ready.set()

    threads = [threading.Thread(target=encode) for _ in range(3)]
    for thread in threads:
        thread.start()
    ready.wait(60)
    tokenizer.add_special_tokens(CHAT)
    assert tokenizer.encode(text) == new
    stop.set()
    for thread in threads:
        thread.join()
    assert all(ids in (old, new) for ids in found)
    assert old in found
