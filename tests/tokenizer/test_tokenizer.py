"""Tokenizer: ids against the reference encoder, special tokens, what is refused, the cache."""

from __future__ import annotations

import concurrent.futures
import copy
import pickle
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cs336_basics.tokenizer.tokenizer as tokenizer_module
from cs336_basics.pretokenization import PATTERNS
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.reference import encode_text
from tests.tokenizer.examples import (
    BYTES,
    COURSE_MERGES,
    COURSE_VOCAB,
    END,
    SPECIALS,
    TRAINING_TEXT,
    edited_merges,
    small_tokenizer,
    tricky_texts,
)


def reference(tokenizer: Tokenizer, text: str) -> list[int]:
    return encode_text(
        text, tokenizer.vocab, tokenizer.merges, tokenizer.special_tokens, tokenizer.pattern
    )


# Everything here holds for the compiled encoder and for that in plain Python.
@pytest.fixture(scope="module", params=["compiled", "python"], autouse=True)
def encoder(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(tokenizer_module, "_encoder", None)
        elif tokenizer_module._encoder is None:
            pytest.skip("the compiled encoder is not built")
        yield request.param


# ------------------------------------------------------------------ ids


def test_the_example_of_the_course():
    tokenizer = Tokenizer(COURSE_VOCAB, COURSE_MERGES)
    assert tokenizer.encode("the cat ate") == [9, 7, 1, 5, 10, 3]
    assert tokenizer.decode([9, 7, 1, 5, 10, 3]) == "the cat ate"


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W"])
@given(text=tricky_texts)
@settings(max_examples=120)
@example(text="")
@example(text=TRAINING_TEXT)
def test_ids_are_those_of_the_reference(pattern, text):
    tokenizer = small_tokenizer(tuple(SPECIALS), pattern)
    ids = tokenizer.encode(text)
    assert ids == reference(tokenizer, text)
    assert tokenizer.decode(ids) == text


@given(text=st.text(max_size=60))
@settings(max_examples=100)
def test_any_text_comes_back(text):
    tokenizer = small_tokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(
    seed=st.integers(0, 10**6),
    text=st.text(alphabet="abc", max_size=12) | st.text(alphabet="abc", min_size=60, max_size=200),
)
@settings(max_examples=200, deadline=None)
def test_edited_vocabularies_merge_as_the_reference_says(seed, text):
    tokenizer = Tokenizer(*edited_merges(seed), pattern=r"[abc]+")
    assert tokenizer.encode(text) == reference(tokenizer, text)


@pytest.mark.parametrize("unit", ["a", "ab", "aab", " ", "\n", "é", "🎉", "ha", "the"])
@pytest.mark.parametrize("length", [99, 100, 101, 1000])
def test_long_words_merge_as_the_reference_says(unit, length):
    tokenizer = small_tokenizer()
    text = (unit * length)[:length]
    assert tokenizer.encode(text) == reference(tokenizer, text)


def test_a_megabyte_of_one_letter_is_encoded():
    tokenizer = small_tokenizer()
    ids = tokenizer.encode("a" * 1_000_000)
    assert tokenizer.decode(ids) == "a" * 1_000_000


def test_rank_is_the_place_in_the_merges_not_the_id():
    # (b, c) was learned first, though the id of `ab` is the smaller one.
    vocab = {7: b"a", 3: b"b", 99: b"c", 0: b"ab", 1: b"bc"}
    assert Tokenizer(vocab, [(b"b", b"c"), (b"a", b"b")]).encode("abc") == [7, 1]
    assert Tokenizer(vocab, [(b"a", b"b"), (b"b", b"c")]).encode("abc") == [0, 99]


def test_a_token_can_be_made_by_two_merges():
    vocab = {0: b"a", 1: b"b", 2: b"ab", 3: b"bb", 4: b"abb"}
    merges = [(b"b", b"b"), (b"a", b"b"), (b"a", b"bb"), (b"ab", b"b")]
    assert Tokenizer(vocab, merges).encode("abb") == [4]


# ------------------------------------------------------------------ special tokens


def test_special_tokens_keep_their_id_or_are_appended_in_order():
    vocab = {**BYTES, 300: b"<s>"}
    given_vocab = dict(vocab)
    tokenizer = Tokenizer(vocab, [], ["<pad>", "<s>", "é", "a"])
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


def test_special_tokens_need_not_be_special_in_every_tokenizer():
    plain, special = small_tokenizer(()), small_tokenizer((END,))
    assert len(plain.encode(END)) > 1
    assert special.encode(END) == [special.special_token_id(END)]


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
def test_of_overlapping_special_tokens_the_longest_wins(text, expected):
    tokenizer = Tokenizer(BYTES, [], ["<|>", "<|><|>"])
    assert [tokenizer.decode([i]) for i in tokenizer.encode(text)] == expected


def test_white_space_before_a_special_token_is_split_as_at_the_end_of_a_text():
    vocab = {**BYTES, 256: b"  "}
    tokenizer = Tokenizer(vocab, [(b" ", b" ")], [END])
    assert tokenizer.encode(f"a  {END}") == [97, 256, 257]
    assert tokenizer.encode("a  b") == [97, 32, 32, 98]


@pytest.mark.parametrize(
    ("special_tokens", "error", "message"),
    [
        (["<s>", "<s>"], ValueError, "'<s>'"),
        ([""], ValueError, "''"),
        ([b"<s>"], TypeError, "<s>"),
        ("<s>", TypeError, "<s>"),
        (["\ud800"], ValueError, "ud800"),
    ],
)
def test_bad_special_tokens_are_refused_by_name(special_tokens, error, message):
    with pytest.raises(error, match=message):
        Tokenizer(BYTES, [], special_tokens)


def test_an_unknown_special_token_is_named():
    with pytest.raises(ValueError, match="'<s>'"):
        small_tokenizer().special_token_id("<s>")


# ------------------------------------------------------------------ hostile vocabularies


@pytest.mark.parametrize(
    ("vocab", "merges", "error", "message"),
    [
        ({0: b"a", 5: b"a"}, [], ValueError, r"ids 0 and 5 are both b'a'"),
        ({0: b""}, [], ValueError, r"id 0 is an empty token"),
        ({-1: b"a"}, [], ValueError, r"id -1 of b'a' is negative"),
        ({"0": b"a"}, [], TypeError, r"id '0' of b'a' is a str"),
        ({True: b"a"}, [], TypeError, r"id True of b'a' is a bool"),
        ({1.0: b"a"}, [], TypeError, r"id 1.0 of b'a' is a float"),
        ({0: "a"}, [], TypeError, r"id 0 is 'a', a str, not bytes"),
        ({0: b"a"}, [(b"a", b"a")], ValueError, r"merge 0 .*no token b'aa'"),
        ({0: b"a", 1: b"aa"}, [(b"a", b"a"), (b"a", b"x")], ValueError, r"merge 1 .*no token b'x'"),
        ({0: b"a", 1: b"aa"}, [(b"a", b"a")] * 2, ValueError, r"merge 1 of b'a' and b'a' .* at 0"),
        ({0: b"a", 1: b"aa"}, [("a", "a")], TypeError, r"merge 0 is \('a', 'a'\)"),
        ({0: b"a", 1: b"aa"}, [(b"a",)], TypeError, r"merge 0 is \(b'a',\)"),
        ({0: b"a", 1: b"aa"}, [b"aa"], TypeError, r"merge 0 is b'aa'"),
        ({0: b"a"}, [(b"", b"a")], ValueError, r"merge 0 .*no token b''"),
    ],
)
def test_contradictions_are_refused_by_name(vocab, merges, error, message):
    with pytest.raises(error, match=message):
        Tokenizer(vocab, merges)


@pytest.mark.parametrize("pattern", ["(", "a*"])
def test_a_bad_pattern_is_refused(pattern):
    with pytest.raises(ValueError, match="pattern"):
        Tokenizer(BYTES, [], pattern=pattern)


def test_what_a_custom_pattern_does_not_match_is_left_out():
    assert Tokenizer(BYTES, [], pattern=r"\w+").encode("a, b") == [97, 98]


def test_an_empty_vocabulary_encodes_the_empty_text():
    tokenizer = Tokenizer({}, [])
    assert (tokenizer.encode(""), tokenizer.vocab_size) == ([], 0)
    with pytest.raises(ValueError, match="0x61"):
        tokenizer.encode("a")


@pytest.mark.parametrize(
    ("text", "byte", "place"),
    [
        ("x", "0x78", 0),
        ("the cat x", "0x78", 8),
        ("the<|>the é", "0xc3", 10),
        ("the<|>\n<|>", "0x0a", 6),
        ("tt" * 5000 + "xx", "0x78", 10_000),
        ("the cat " * 2000 + "<|> x", "0x78", 16_004),
    ],
)
def test_an_absent_byte_is_named_with_its_place(text, byte, place):
    tokenizer = Tokenizer(COURSE_VOCAB, COURSE_MERGES, ["<|>"])
    message = rf"{byte} of .* at character {place:,} "
    for _ in range(2):  # the second time words are remembered
        with pytest.raises(ValueError, match=message):
            tokenizer.encode(text)
    for pieces in ([text], list(text), [text[:7], text[7:]]):
        with pytest.raises(ValueError, match=message):
            list(tokenizer.encode_iterable(pieces))


def test_the_second_byte_of_a_character_may_be_the_absent_one():
    tokenizer = Tokenizer({0: b"\xc3", 1: b"a"}, [])
    with pytest.raises(ValueError, match=r"0xa9 of 'é' at character 1 "):
        tokenizer.encode("aé")


# ------------------------------------------------------------------ hostile texts


def test_bytes_are_refused_with_a_hint():
    with pytest.raises(TypeError, match="decode"):
        small_tokenizer().encode(b"the")
    with pytest.raises(TypeError, match="decode"):
        list(small_tokenizer().encode_iterable([b"the"]))
    with pytest.raises(TypeError, match="int"):
        small_tokenizer().encode(5)


@pytest.mark.parametrize("surrogate", [chr(0xD800), chr(0xDFFF), chr(0xDC80)])
@pytest.mark.parametrize("before", ["", "the 猫 ", "x" * 20_000])
def test_a_lone_surrogate_is_named_with_its_place(surrogate, before):
    text = before + surrogate + " and on"
    message = rf"U\+{ord(surrogate):04X} at character {len(before):,}"
    tokenizer = small_tokenizer()
    with pytest.raises(ValueError, match=message):
        tokenizer.encode(text)
    for pieces in ([text], [before, surrogate, " and on"]):
        with pytest.raises(ValueError, match=message):
            list(tokenizer.encode_iterable(pieces))


# ------------------------------------------------------------------ cache, copies, threads


@pytest.mark.parametrize("cache_size", [0, 1, 500, 5000, 200_000])
def test_the_cache_changes_nothing(cache_size):
    tokenizer = small_tokenizer(cache_size=cache_size)
    words = [
        f" {a}{b}{c}{d}" for a in "abcd" for b in "efgh" for c in "ijkl" for d in ["", "猫" * 9]
    ]
    for _ in range(2):
        for word in words:
            assert tokenizer.encode(word) == reference(tokenizer, word)


def test_a_negative_cache_size_is_refused():
    with pytest.raises(ValueError, match="-1"):
        small_tokenizer(cache_size=-1)


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_a_copy_is_the_same_tokenizer(clone):
    tokenizer = small_tokenizer(cache_size=4321)
    size = len(pickle.dumps(tokenizer))
    ids = tokenizer.encode(TRAINING_TEXT)
    assert len(pickle.dumps(tokenizer)) == size
    other = clone(tokenizer)
    assert other.encode(TRAINING_TEXT) == ids
    assert (other.hash(), other.cache_size) == (tokenizer.hash(), 4321)


def test_threads_may_share_a_tokenizer():
    tokenizer = small_tokenizer(cache_size=2000)
    texts = [TRAINING_TEXT[start:] for start in range(40)]
    expected = [small_tokenizer().encode(text) for text in texts]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(tokenizer.encode, texts)) == expected


def test_hash_follows_what_decides_the_ids_and_nothing_else():
    vocab, merges = {**BYTES, 256: b"ab", 257: b"bc"}, [(b"a", b"b"), (b"b", b"c")]
    tokenizer = Tokenizer(vocab, merges, ["<a>", "<b>"])
    appended = {**vocab, 258: b"<a>", 259: b"<b>"}
    same = [
        Tokenizer(dict(reversed(appended.items())), merges, ["<b>", "<a>"]),
        Tokenizer(vocab, merges, ["<a>", "<b>"], pattern=PATTERNS["gpt2"], cache_size=0),
    ]
    different = [
        Tokenizer(appended, merges, ["<a>"]),
        Tokenizer(appended, merges[::-1], ["<a>", "<b>"]),
        Tokenizer(appended, merges[:1], ["<a>", "<b>"]),
        Tokenizer({**appended, 256: b"bc", 257: b"ab"}, merges, ["<a>", "<b>"]),
        Tokenizer(vocab, merges, ["<a>", "<b>"], pattern="cl100k"),
    ]
    assert {other.hash() for other in same} == {tokenizer.hash()}
    assert len({other.hash() for other in [tokenizer, *different]}) == 6
    assert len(tokenizer.hash()) == 64


def test_the_tokenizer_does_not_import_torch():
    code = (
        "import sys, cs336_basics.tokenizer, cs336_basics.commands.encode\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
