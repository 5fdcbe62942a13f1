"""Limits of the tokens that training may learn."""

import pytest

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.bpe import TRAINERS, limits
from cs336_basics.bpe.limits import Limits, mixes_characters, num_words
from tests.bpe.trainers import every_trainer, train
from tests.errors import rejects

WORDS = {"größer 12 12 größte".encode(): 5, "ถ้า ถ้า".encode(): 4, b"aaaa": 3}


def tokens_of(name, **limits):
    _, merges = train(name, WORDS, 40, **limits)
    assert merges
    return [left + right for left, right in merges]


@every_trainer
def test_tokens_keep_within_the_limits(name):
    free = tokens_of(name)
    assert any(map(mixes_characters, free))
    assert not any(map(mixes_characters, tokens_of(name, whole_characters=True)))
    assert max(map(num_words, free)) > 2
    assert max(map(num_words, tokens_of(name, max_words=2))) == 2
    assert any(b"12" in token for token in free)
    digits = tokens_of(name, forbid=r"\d\d|\s$")
    assert not any(b"12" in token or token.endswith(b" ") for token in digits)


def test_an_expression_that_takes_exponential_time_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "MAX_SEARCH_SECONDS", 0.05)
    with rejects("forbid", "(a|aa)+[cd]", "repetitions"):
        Limits(forbid="(a|aa)+[cd]").refuse(b"a" * 100, b"b", 1)


@every_trainer
def test_a_veto_sees_each_chosen_pair_once(name):
    asked = []

    def veto(left, right, count):
        asked.append((left, right, count))
        return left == b"a"

    _, merges = train(name, {b"aaaa": 9, b"bcb": 4, b"bcd": 2, b"zz": 1}, 9, veto=veto)
    assert asked == [
        (b"a", b"a", 27), (b"b", b"c", 6), (b"bc", b"b", 4), (b"bc", b"d", 2), (b"z", b"z", 1)
    ]  # fmt: skip
    assert merges == [pair[:2] for pair in asked[1:]]


@every_trainer
def test_an_exception_of_a_veto_ends_training(name):
    def veto(left, right, count):
        raise KeyError("from the veto")

    with pytest.raises(KeyError, match="from the veto"):
        train(name, {b"abc": 2}, 2, veto=veto)


@every_trainer
def test_a_veto_that_raises_stop_iteration_is_one_clear_error(name):
    def veto(left, right, count):
        raise StopIteration

    with rejects("veto", "StopIteration for the pair (b'b', b'c')"):
        train(name, {b"abc": 2}, 2, veto=veto)


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        ({"max_words": 0}, InputError),
        ({"max_words": 1.5}, InputTypeError),
        ({"whole_characters": 1}, InputTypeError),
        ({"forbid": 7}, InputTypeError),
        ({"forbid": "("}, InputError),
        ({"forbid": ""}, InputError),
        ({"veto": "no"}, InputTypeError),
    ],
)
def test_invalid_limits_are_rejected(limit, error):
    ((argument, value),) = limit.items()
    for trainer in TRAINERS.values():
        with rejects(argument, value, kind=error):
            trainer(**limit)


def test_limits_record_what_was_given():
    assert not Limits()
    assert Limits(max_words=4, forbid="x", veto=rejects).record() == {
        "max_words": 4, "forbid": "x", "veto": "rejects"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("token", "mixes"),
    [
        (b"abc", False),
        ("日本".encode(), False),
        ("日".encode()[:2], False),
        ("日".encode()[1:], False),
        ("日".encode() + "本".encode()[:1], True),
        ("日".encode()[1:] + b"a", True),
        (b"a" + "日".encode()[:1], True),
    ],
)
def test_a_token_mixes_characters_if_it_has_a_part_of_one_and_bytes_of_another(token, mixes):
    assert mixes_characters(token) is mixes
