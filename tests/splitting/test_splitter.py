"""Splitter cuts out special tokens: the leftmost wins, then the longest."""

import pickle

import pytest

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.splitting import PATTERNS, Splitter, pretokenize, reference
from cs336_basics.splitting.splitter import check_special_tokens, split_special_tokens
from tests.errors import rejects

EOT = "<|endoftext|>"


@pytest.mark.parametrize(
    ("text", "special_tokens", "segments"),
    [
        ("", [EOT], []),
        ("plain", [], [("plain", False)]),
        ("plain", [EOT], [("plain", False)]),
        (f"a{EOT}b", [EOT], [("a", False), (EOT, True), ("b", False)]),
        (EOT, [EOT], [(EOT, True)]),
        (EOT * 2, [EOT], [(EOT, True)] * 2),
        (EOT * 3, [EOT, EOT * 2], [(EOT * 2, True), (EOT, True)]),
        (EOT * 3, [EOT * 2, EOT], [(EOT * 2, True), (EOT, True)]),
        ("a.*b", [".*"], [("a", False), (".*", True), ("b", False)]),
        ("aab", ["ab", "aa"], [("aa", True), ("b", False)]),
    ],
)
def test_special_tokens_are_cut_out(text, special_tokens, segments):
    assert list(split_special_tokens(text, special_tokens)) == segments


@pytest.mark.parametrize(
    ("special_tokens", "error", "fields"),
    [
        (["a", ""], InputError, ("special_tokens",)),
        ([EOT, "x", EOT], InputError, ("special_tokens", "'<|endoftext|>'")),
        (["\ud800"], InputError, ("special_tokens", r"'\ud800'")),
        ([b"x"], InputTypeError, ("special_tokens", "b'x'")),
        ({"b"}, InputTypeError, ("special_tokens", "{'b'}")),
        ({"b": 1}, InputTypeError, ("special_tokens", "{'b': 1}")),
        ("b", InputTypeError, ("special_tokens", "'b'")),
        (5, InputTypeError, ("special_tokens", 5)),
    ],
)
def test_messages_include_bad_special_tokens(special_tokens, error, fields):
    with rejects(*fields, kind=error):
        check_special_tokens(special_tokens)


def test_splitting_at_the_empty_string_is_rejected():
    with rejects("special_tokens"):
        next(split_special_tokens("abc", [""]))


def test_a_splitter_splits_between_special_tokens():
    splitter = Splitter(special_tokens=[EOT])
    assert list(splitter.split(f"It's{EOT} 3 cats{EOT}")) == ["It", "'s", " 3", " cats"]
    assert list(splitter.split_special_tokens(f"a{EOT}")) == [("a", False), (EOT, True)]
    assert list(Splitter(r"[a-z]+").split("ab, cd")) == ["ab", ", ", "cd"]
    assert list(Splitter().split("")) == []


@pytest.mark.parametrize("pattern", [r"\b|\w+|\W", r"(?=a)|\w+|\W"])
def test_empty_matches_are_not_pre_tokens(pattern):
    assert list(pretokenize("low aab", pattern)) == ["low", " ", "aab"]
    assert list(reference.pretokenize("low aab", pattern)) == ["low", " ", "aab"]


def test_a_splitter_is_immutable_hashable_and_picklable():
    splitter = Splitter("cl100k", [EOT])
    assert splitter.special_tokens == (EOT,)
    assert splitter.expression == PATTERNS["cl100k"]
    assert splitter == Splitter("cl100k", (EOT,))
    assert hash(splitter) == hash(pickle.loads(pickle.dumps(splitter)))
    with pytest.raises(AttributeError):
        splitter.pattern = "gpt2"


def test_of_accepts_a_splitter_or_none():
    splitter = Splitter("cl100k")
    assert Splitter.of(splitter) is splitter
    assert Splitter.of(None) == Splitter()
    with rejects("splitter", "'gpt2'", kind=InputTypeError):
        Splitter.of("gpt2")


def test_a_subclass_of_str_is_split_like_a_str():
    text = "a café"
    subclass = type("Text", (str,), {})
    for pattern in ("gpt2", r"\w+|\W+"):
        assert list(Splitter(pattern).split(subclass(text))) == list(Splitter(pattern).split(text))
