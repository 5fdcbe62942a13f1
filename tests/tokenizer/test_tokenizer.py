"""Tokenizer with every backend: ids, special tokens, invalid arguments, the cache and copies."""

from __future__ import annotations

import concurrent.futures
import copy
import hashlib
import os
import pickle
import threading

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.splitting import PATTERNS
from cs336_basics.tokenizer import (
    IncrementalEncoder,
    StreamingDecoder,
    Tokenizer,
    count_token_file,
    count_tokens,
    encode_file,
    encode_rows,
    extend,
    never_used,
    prune,
    token_parts,
    translate_token_file,
)
from cs336_basics.tokenizer.length_settings import LengthSettings
from tests.errors import rejects
from tests.processes import run_python
from tests.tokenizer.examples import (
    BYTES,
    COURSE_MERGES,
    COURSE_VOCAB,
    END,
    SPECIALS,
    TRAINING_TEXT,
    edited_merges,
    reference_ids,
    skip_unless_available,
    small_tokenizer,
    trained,
    tricky_texts,
    with_all_bytes,
)

# ------------------------------------------------------------------ ids


def test_the_example_of_the_course_is_encoded_and_decoded(make):
    tokenizer = make(with_all_bytes(COURSE_VOCAB), COURSE_MERGES)
    assert tokenizer.encode("the cat ate") == [9, 7, 1, 5, 10, 3]
    assert tokenizer.decode([9, 7, 1, 5, 10, 3]) == "the cat ate"


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W"])
@given(text=tricky_texts)
@settings(max_examples=120)
@example(text="")
@example(text=TRAINING_TEXT)
def test_ids_equal_the_reference(make_small, pattern, text):
    tokenizer = make_small(tuple(SPECIALS), pattern)
    ids = tokenizer.encode(text)
    assert ids == reference_ids(tokenizer, text)
    assert tokenizer.decode(ids) == text


@given(
    seed=st.integers(0, 10**6),
    text=st.text(alphabet="abc", max_size=12) | st.text(alphabet="abc", min_size=60, max_size=200),
)
@settings(max_examples=200, deadline=None)
def test_edited_vocabularies_merge_as_in_the_reference(make, seed, text):
    tokenizer = make(*edited_merges(seed), pattern=r"[abc]+")
    assert tokenizer.encode(text) == reference_ids(tokenizer, text)


@pytest.mark.parametrize(("backend", "length"), [("python", 200_000), ("native", 1_000_000)])
def test_a_huge_word_is_encoded(backend, length):  # the reference is quadratic
    tokenizer = small_tokenizer(backend=skip_unless_available(backend))
    assert tokenizer.decode(tokenizer.encode("a" * length)) == "a" * length


# ------------------------------------------------------------------ special tokens


def test_special_tokens_keep_their_id_or_are_appended_in_order(make):
    vocab = {**BYTES, 300: b"<s>"}
    given_vocab = dict(vocab)
    tokenizer = make(vocab, [], ["<pad>", "<s>", "é", "a"])
    assert [tokenizer.special_token_id(t) for t in ("<pad>", "<s>", "é", "a")] == [
        301,
        300,
        302,
        97,
    ]
    assert tokenizer.encode("a<s><pad>é") == [97, 300, 301, 302]
    assert tokenizer.vocab_size == 303
    assert tokenizer.special_tokens == ["<pad>", "<s>", "é", "a"]
    assert vocab == given_vocab


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<|><|>", ["<|><|>"]),
        ("<|><|><|>", ["<|><|>", "<|>"]),
        ("<|>", ["<|>"]),
        ("x<|> <|>y", ["x", "<|>", " ", "<|>", "y"]),
        ("<|<|>", ["<", "|", "<|>"]),
        ("<|>|>", ["<|>", "|", ">"]),
    ],
)
def test_the_longest_of_overlapping_special_tokens_wins(make, text, expected):
    tokenizer = make(BYTES, [], ["<|>", "<|><|>"])
    assert [tokenizer.decode([i]) for i in tokenizer.encode(text)] == expected


def test_white_space_before_a_special_token_is_split_like_at_the_end_of_a_text(make):
    vocab = {**BYTES, 256: b"  "}
    tokenizer = make(vocab, [(b" ", b" ")], [END])
    assert tokenizer.encode(f"a  {END}") == [97, 256, 257]
    assert tokenizer.encode("a  b") == [97, 32, 32, 98]


# ------------------------------------------------------------------ hostile vocabularies


@pytest.mark.parametrize(
    ("vocab", "merges", "error", "fields"),
    [
        ({0: b"a", 5: b"a"}, [], InputError, ("vocab", 0, 5, "b'a'")),
        ({0: b""}, [], InputError, ("vocab", "id 0")),
        ({-1: b"a"}, [], InputError, ("vocab", "-1", "b'a'")),
        ({"0": b"a"}, [], InputTypeError, ("vocab", "'0'", "b'a'")),
        ({True: b"a"}, [], InputTypeError, ("vocab", "True", "b'a'")),
        ({1.0: b"a"}, [], InputTypeError, ("vocab", "1.0", "b'a'")),
        ({0: "a"}, [], InputTypeError, ("vocab", "'a'", "id 0")),
        ({0: b"a"}, [(b"a", b"a")], InputError, ("merges", "merge 0", "b'aa'")),
        (
            {0: b"a", 1: b"aa"},
            [(b"a", b"a"), (b"a", b"x")],
            InputError,
            ("merges", "merge 1", "b'x'"),
        ),
        (
            {0: b"a", 1: b"aa"},
            [(b"a", b"a")] * 2,
            InputError,
            ("merges", "merge 1", "b'a'", "merge 0"),
        ),
        ({0: b"a", 1: b"aa"}, [("a", "a")], InputTypeError, ("merges", "merge 0", "('a', 'a')")),
        ({0: b"a", 1: b"aa"}, [(b"a",)], InputTypeError, ("merges", "merge 0", "(b'a',)")),
        ({0: b"a", 1: b"aa"}, [b"aa"], InputTypeError, ("merges", "merge 0", "b'aa'")),
        ({0: b"a"}, [(b"", b"a")], InputError, ("merges", "merge 0")),
    ],
)
def test_the_error_names_an_invalid_token_or_merge(make, vocab, merges, error, fields):
    with rejects(*fields, kind=error):
        make(vocab, merges)


def test_an_empty_vocabulary_encodes_the_empty_text(make_incomplete):
    tokenizer = make_incomplete({}, [])
    assert (tokenizer.encode(""), tokenizer.vocab_size) == ([], 0)
    with rejects(None, "0x61"):
        tokenizer.encode("a")


@pytest.mark.parametrize(
    ("text", "byte", "position"),
    [
        ("x", "0x78", 0),
        ("the cat x", "0x78", 8),
        ("the<|>the é", "0xc3", 10),
        ("the<|>\n<|>", "0x0a", 6),
        ("tt" * 5000 + "xx", "0x78", 10_000),
        ("the cat " * 2000 + "<|> x", "0x78", 16_004),
    ],
)
def test_the_error_names_an_absent_byte_and_its_position(make_incomplete, text, byte, position):
    tokenizer = make_incomplete(COURSE_VOCAB, COURSE_MERGES, ["<|>"])
    for _ in range(2):  # the second iteration uses cached words
        with rejects(None, byte, f"character {position:,} "):
            tokenizer.encode(text)
    for chunks in ([text], list(text), [text[:7], text[7:]]):
        with rejects(None, byte, f"character {position:,} "):
            list(tokenizer.encode_iterable(chunks))


def test_the_error_for_an_absent_second_byte_names_the_character(make_incomplete):
    tokenizer = make_incomplete({0: b"\xc3", 1: b"a"}, [])
    with rejects(None, "0xa9", "'é'", 1):
        tokenizer.encode("aé")


@pytest.mark.parametrize("vocab", [{**BYTES, 2**32: b"ab"}, {**BYTES, 2**32 - 1: b"ab"}])
def test_ids_of_more_than_32_bits_are_rejected(vocab):
    with rejects("vocab", 4294967296, "b'"):
        Tokenizer(vocab, [], ["<|endoftext|>"])


# ------------------------------------------------------------------ cache, copies, threads


def test_a_negative_cache_size_is_rejected(make_small):
    with rejects("cache_size", "-1"):
        make_small(cache_size=-1)


class NamedTokenizer(Tokenizer):
    name = ""


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_a_copy_or_pickle_encodes_like_the_original(make_small, clone):
    small = make_small()
    tokenizer = NamedTokenizer(small.vocab, small.merges, cache_size=4321, backend=small.backend)
    tokenizer.name = "small"
    size = len(pickle.dumps(tokenizer))
    ids = tokenizer.encode(TRAINING_TEXT)
    assert tokenizer.token_to_id(b"a") == 97
    assert len(pickle.dumps(tokenizer)) == size
    other = clone(tokenizer)
    assert other.encode(TRAINING_TEXT) == ids
    assert (other.hash(), other.cache_size) == (tokenizer.hash(), 4321)
    assert type(other.encoder) is type(tokenizer.encoder)
    assert (type(other), other.name) == (NamedTokenizer, "small")


PICKLED = """
import hashlib, pickle, sys
from cs336_basics.tokenizer import Tokenizer
tokenizer = Tokenizer.from_directory(sys.argv[1])
print(hashlib.sha256(pickle.dumps(tokenizer)).hexdigest())
"""


def test_equal_tokenizers_have_equal_pickles_in_every_process(tmp_path):
    first = small_tokenizer((END, "<a>", "<b>", "<c>"))
    shuffled = dict(reversed(first.vocab.items()))
    copies = [(bytes([*a]), bytes([*b])) for a, b in first.merges]
    tokenizers = [Tokenizer(v, copies, first.special_tokens) for v in (first.vocab, shuffled)]
    tokenizers[0].hash()
    tokenizers[1].encode(TRAINING_TEXT)
    tokenizers.append(pickle.loads(pickle.dumps(first)))
    first.save(tmp_path)
    tokenizers.append(Tokenizer.from_directory(tmp_path))
    assert {pickle.dumps(tokenizer) for tokenizer in tokenizers} == {pickle.dumps(first)}
    for seed in "012":  # changes the order of sets
        done = run_python(PICKLED, tmp_path, PYTHONHASHSEED=seed)
        assert done.stdout.strip() == hashlib.sha256(pickle.dumps(first)).hexdigest()


def test_tokenizers_are_equal_if_they_give_the_same_ids(tmp_path):
    first = small_tokenizer((END, "<a>"))
    first.save(tmp_path)
    other = Tokenizer(first.vocab, first.merges, ["<a>", END], cache_size=0, backend="python")
    for equal in (other, copy.copy(first), Tokenizer.from_directory(tmp_path)):
        assert first == equal
        assert hash(first) == hash(equal)
    parts = first.definition
    padding = {"strategy": "BatchLongest", "pad_id": 1}
    for different in (
        small_tokenizer((END,)),
        small_tokenizer((END, "<b>")),
        Tokenizer.of(parts.replaced(merges=first.merges[:-1])),
        Tokenizer.of(parts.replaced(special_tokens=[END])),
        Tokenizer.of(parts.replaced(pattern="cl100k")),
        Tokenizer.of(parts.replaced(ignore_merges=True)),
        Tokenizer.of(parts.replaced(normalizer="NFC")),
        Tokenizer.of(parts.replaced(length_settings=LengthSettings(padding=padding))),
        parts,
        None,
    ):
        assert first != different


@pytest.mark.parametrize("added", [["<a>"], ["\0", "e"]])
def test_the_hash_stays_when_tokens_are_added(added):
    tokenizer, unchanged = small_tokenizer(), small_tokenizer()
    found = {tokenizer: 1}
    tokenizer.add_special_tokens(added)
    assert found[tokenizer] == 1
    assert tokenizer != unchanged
    assert unchanged not in found
    unchanged.add_special_tokens(added)
    assert found[unchanged] == 1


def test_threads_can_share_a_tokenizer(make_small):
    tokenizer = make_small(cache_size=2000)
    texts = [TRAINING_TEXT[start:] for start in range(40)]
    expected = [make_small().encode(text) for text in texts]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(tokenizer.encode, texts)) == expected


def test_the_hash_depends_only_on_what_determines_the_ids(make):
    vocab, merges = {**BYTES, 256: b"ab", 257: b"bc"}, [(b"a", b"b"), (b"b", b"c")]
    tokenizer = make(vocab, merges, ["<a>", "<b>"])
    appended = {**vocab, 258: b"<a>", 259: b"<b>"}
    same = [
        make(dict(reversed(appended.items())), merges, ["<b>", "<a>"]),
        make(vocab, merges, ["<a>", "<b>"], pattern=PATTERNS["gpt2"], cache_size=0),
    ]
    different = [
        make(appended, merges, ["<a>"]),
        make(appended, merges[::-1], ["<a>", "<b>"]),
        make(appended, merges[:1], ["<a>", "<b>"]),
        make({**appended, 256: b"bc", 257: b"ab"}, merges, ["<a>", "<b>"]),
        make(vocab, merges, ["<a>", "<b>"], pattern="cl100k"),
        make(vocab, merges, ["<a>", "<b>"], ignore_merges=True),
    ]
    assert {other.hash() for other in same} == {tokenizer.hash()}
    assert len({other.hash() for other in [tokenizer, *different]}) == 7
    assert len(tokenizer.hash()) == 64


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda none: encode_file(none, "text.txt", "ids.npy"), "tokenizer"),
        (lambda none: encode_rows(none, ["text"], "ids.npy"), "tokenizer"),
        (lambda none: count_tokens(none, "text.txt"), "tokenizer"),
        (lambda none: count_token_file(none, "ids.npy"), "tokenizer"),
        (lambda none: never_used(none, np.zeros(256, np.int64)), "tokenizer"),
        (lambda none: extend(none, ["word"]), "tokenizer"),
        (lambda none: token_parts(none, small_tokenizer()), "old"),
        (lambda none: token_parts(small_tokenizer(), none), "new"),
        (lambda none: prune(none, 256, {b"a": 1}), "tokenizer"),
        (lambda none: translate_token_file("a.npy", "b.npy", none, small_tokenizer()), "old"),
        (lambda none: translate_token_file("a.npy", "b.npy", small_tokenizer(), none), "new"),
        (IncrementalEncoder, "tokenizer"),
        (StreamingDecoder, "tokenizer"),
    ],
)
def test_the_error_for_an_invalid_tokenizer_names_the_argument(call, name):
    with rejects(name, "None", kind=InputTypeError):
        call(None)


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


def test_a_str_is_looked_up_by_its_utf8():
    tokenizer = Tokenizer({**BYTES, 256: "é".encode()}, [], [END])
    assert tokenizer.token_to_id("é") == tokenizer.token_to_id(b"\xc3\xa9") == 256
    assert tokenizer.token_to_id(END) == tokenizer.special_token_id(END) == 257
    assert tokenizer.id_to_token(0xC3) == b"\xc3"


def test_unknown_tokens_and_ids_are_none():
    tokenizer = small_tokenizer()
    assert {*map(tokenizer.token_to_id, ["Ġthe", b"no such token", "", b""])} == {None}
    assert {*map(tokenizer.id_to_token, [-1, 5000, 10**30])} == {None}


@pytest.mark.parametrize("token", [3, None, bytearray(b"a"), [b"a"]])
def test_a_token_must_be_bytes_or_str(token):
    with rejects("token", kind=InputTypeError):
        small_tokenizer().token_to_id(token)
    with rejects("token", "ud800"):
        small_tokenizer().token_to_id("\ud800")


def test_repr_is_one_short_line():
    tokenizer = Tokenizer(BYTES, [], [END])
    assert repr(tokenizer) == (
        f"<Tokenizer: 257 tokens, 0 merges, special tokens ['{END}'], pattern 'gpt2'>"
    )
    assert repr(Tokenizer({0: b"a"}, [])).startswith("<Tokenizer: 1 token, 0 merges, ")
    many = Tokenizer(BYTES, [], [f"<|{n}|>" for n in range(1000)], pattern=r"\w+|\W+" + "|x" * 999)
    assert len(repr(many)) < 300


# ------------------------------------------------------------------ special tokens, added later


def test_added_special_tokens_get_the_next_ids_and_old_ids_stay(make_small):
    tokenizer = make_small()
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


def test_an_existing_special_token_keeps_its_id(make_small):
    tokenizer = make_small()
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


def test_an_empty_name_is_not_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with rejects("directory", "''"):
        small_tokenizer().save("")
    small_tokenizer().save(".")
    assert sorted(os.listdir()) == ["tokenizer.json", "training.json"]


def test_added_tokens_and_ignore_merges_are_saved_pickled_and_copied(tmp_path):
    vocab, merges = trained()
    word = b" strange"
    tokenizer = Tokenizer({**vocab, len(vocab): word}, merges, [END], ignore_merges=True)
    old_hash = tokenizer.hash()
    earlier = copy.copy(tokenizer)
    tokenizer.add_special_tokens(CHAT)
    assert tokenizer.hash() != old_hash
    assert earlier.hash() == old_hash
    assert earlier.special_tokens == [t for t in tokenizer.special_tokens if t not in CHAT]
    tokenizer.save(tmp_path)
    text = f"<|user|>the strange cat{END}<|assistant|>"
    assert tokenizer.token_to_id(word) in tokenizer.encode(text)
    others = [
        Tokenizer.from_directory(tmp_path),
        pickle.loads(pickle.dumps(tokenizer)),
        copy.copy(tokenizer),
        copy.deepcopy(tokenizer),
    ]
    for other in others:
        assert other.encode(text) == tokenizer.encode(text)
        assert other.vocab == tokenizer.vocab
        assert other.hash() == tokenizer.hash()


@pytest.mark.parametrize(
    ("tokens", "error", "fields"),
    [
        ("<|user|>", InputTypeError, ("special_tokens",)),
        ({"<|a|>", "<|b|>"}, InputTypeError, ("special_tokens",)),
        ({"pad_token": "<|pad|>"}, InputTypeError, ("special_tokens",)),
        ([b"<|user|>"], InputTypeError, ("special_tokens", "b'<|user|>'")),
        ([""], InputError, ("special_tokens",)),
        (["<|a|>", "<|a|>"], InputError, ("special_tokens", "'<|a|>'")),
        (["\ud800"], InputError, ("special_tokens", r"'\ud800'")),
    ],
)
def test_rejected_tokens_change_nothing(tokens, error, fields):
    tokenizer = small_tokenizer()
    before = dict(vars(tokenizer))
    with rejects(*fields, kind=error):
        tokenizer.add_special_tokens(tokens)
    assert vars(tokenizer) == before


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
