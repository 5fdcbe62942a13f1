"""For every trainer, continuing a vocabulary gives the same result as a single training run."""

import random
import warnings
from collections import Counter

import pytest

from cs336_basics import TRAINERS, Tokenizer, train_bpe
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.bpe.rules import TIE_BREAKS
from cs336_basics.bpe.starting_vocabulary import StartingVocabulary
from cs336_basics.counting import count_text
from cs336_basics.splitting import Splitter
from tests.bpe.trainers import EOT, every_trainer, specified_merges, train
from tests.errors import rejects
from tests.texts import long_text
from tests.tokenizer.examples import BYTES, edited_merges

every_tie_break = pytest.mark.parametrize("tie_break", TIE_BREAKS)


def vocabulary_of(*merges):
    """Return the vocabulary that results from the given merges, and the merges as a list."""
    return {**BYTES, **{256 + i: a + b for i, (a, b) in enumerate(merges)}}, list(merges)


@pytest.fixture(scope="module")
def counts():
    return count_text(long_text(1, 3_000), Splitter(special_tokens=[EOT]))


@every_trainer
@every_tie_break
def test_continued_training_equals_a_single_training(name, tie_break, counts):
    first = train(name, counts, 43, [EOT], tie_break=tie_break)
    then = train(name, counts, 120, [EOT], tie_break=tie_break, continue_from=first)
    assert then == train(name, counts, 163, [EOT], tie_break=tie_break)
    assert len(then[0]) == 420
    assert train(name, counts, 0, [EOT], continue_from=first) == first


@every_trainer
def test_continued_training_on_another_text_equals_naive(name, counts):
    first = train("native", counts, 83, [EOT])
    other = count_text("the cat sat on the mat; the hat of the cat " * 30 + "zzzzyyzzyz " * 9)
    options = {"continue_from": first, "max_token_length": 5, "min_frequency": 3}
    vocab, merges = train(name, other, 60, [EOT, "<|user|>"], **options)
    assert (vocab, merges) == train("naive", other, 60, [EOT, "<|user|>"], **options)
    assert {token_id: vocab[token_id] for token_id in first[0]} == first[0]
    assert merges[: len(first[1])] == first[1]
    assert vocab[340] == b"<|user|>"
    assert [left + right for left, right in merges[len(first[1]) :]] == [
        vocab[token_id] for token_id in range(341, len(vocab))
    ]


def imported_vocabulary():
    """Return a vocabulary like those imported from other libraries.

    Its ids have gaps, its bytes are in a different order, two merges produce the same token, one
    merge precedes the merge that produces its left token, and no merge produces the token b"ddd".
    """
    vocab = dict(enumerate(reversed(BYTES.values())))
    vocab.update({300: b"ab", 301: b"bc", 302: b"abc", 310: b"abcd", 400: b"<|end|>", 401: b"ddd"})
    merges = [(b"abc", b"d"), (b"b", b"c"), (b"a", b"bc"), (b"a", b"b"), (b"ab", b"c")]
    return vocab, merges


@every_trainer
@every_tie_break
def test_imported_vocabularies_are_continued(name, tie_break):
    vocab, merges = imported_vocabulary()
    rng = random.Random(5)
    words = Counter("".join(rng.choices("abcd", k=rng.randint(1, 9))).encode() for _ in range(200))
    words[b"ddd"] = 500
    options = {"tie_break": tie_break, "continue_from": (vocab, merges)}
    # The new merges are (d, d) and (dd, d). The result of (dd, d) already has the id 401.
    with (
        pytest.warns(UserWarning, match=r"\b1 token\b.*b'ddd'"),
        pytest.warns(UserWarning, match=r"\b1 new merge\b.*b'ddd'"),
    ):
        found = TRAINERS[name](**options).train_from_counts(words, 440, ["<|end|>"])
    assert found == train("naive", words, 38, ["<|end|>"], **options)
    new_vocab, new_merges = found
    assert {token_id: new_vocab[token_id] for token_id in vocab} == vocab
    assert new_merges[: len(merges)] == merges
    assert min(set(new_vocab) - set(vocab)) == 402
    assert len(set(new_merges)) == len(new_merges)
    assert len(set(new_vocab.values())) == len(new_vocab)


def edited_vocabulary(seed):
    """Return `edited_merges` with a vocabulary that contains all bytes."""
    vocab, merges = edited_merges(seed)
    known = set(vocab.values())
    return vocab | {1000 + b: token for b, token in BYTES.items() if token not in known}, merges


@pytest.mark.parametrize("seed", [None, *range(20)])
def test_words_are_split_as_the_tokenizer_encodes_them(seed):
    vocab, merges = imported_vocabulary() if seed is None else edited_vocabulary(seed)
    tokenizer, start = Tokenizer(vocab, merges), StartingVocabulary((vocab, merges))
    chooser = random.Random(str(seed))
    for length in (1, 3, 10, 40, 150):
        word = "".join(chooser.choices("abcd", k=length))
        assert list(start.split(word.encode())) == [vocab[i] for i in tokenizer.encode(word)]


@every_tie_break
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_trainers_continue_edited_vocabularies_alike(seed, tie_break):
    vocab, merges = edited_vocabulary(seed)
    chooser = random.Random(seed)
    words = Counter(bytes(chooser.choices(b"abc", k=chooser.randint(1, 9))) for _ in range(60))
    options = {"tie_break": tie_break, "continue_from": (vocab, merges)}
    found = [TRAINERS[name](**options).train_from_counts(words, 1300) for name in TRAINERS]
    assert found == [found[0]] * len(found)
    assert len(found[0][1]) > len(merges)


@every_trainer
def test_a_merge_that_could_not_be_applied_keeps_its_rank(name):
    # (b, c) is merged first, so (ab, c) and (abc, d) are never applied.
    vocab, start = vocabulary_of((b"b", b"c"), (b"a", b"b"), (b"ab", b"c"), (b"abc", b"d"))
    trainer = TRAINERS[name](continue_from=(vocab, start))
    with pytest.warns(UserWarning, match=r"\b2 new merges\b.*b'abc'"):
        found = trainer.train_from_counts({b"abc": 100, b"abcd": 50}, 260 + 2)
    assert found == (vocab, [*start, (b"a", b"bc")])
    assert Tokenizer(*found).encode("abcabcd") == [258, 259]
    with (
        pytest.warns(UserWarning, match="already contains"),
        pytest.warns(UserWarning, match=r"\b260\b.*\b270\b"),
    ):
        TRAINERS[name](continue_from=(vocab, start)).train_from_counts({b"abc": 9, b"abcd": 5}, 270)


@every_trainer
@pytest.mark.parametrize("unreachable", [(b"aa", b"b"), (b"b", b"aa")])
def test_merges_of_a_token_that_no_merge_makes_are_kept(name, unreachable):
    start = [(b"c", b"d"), unreachable]
    vocab = {**vocabulary_of(*start)[0], 300: b"aa"}
    words = {b"xyz": 5, b"cdq": 4, b"ab": 1}
    merges = train(name, words, 3, continue_from=(vocab, start))[1]
    assert merges == [*start, *specified_merges(words, 3, before=start[:1])]


@every_trainer
def test_a_token_that_is_made_again_has_a_new_id_in_ties(name):
    vocab, start = vocabulary_of((b"b", b"c"), (b"a", b"b"), (b"ab", b"c"))
    words = {b"xyq": 10, b"xy": 40, b"abcq": 10, b"abc": 90}
    options = {"continue_from": (vocab, start), "tie_break": "huggingface"}
    merges = train(name, words, 3, **options)[1]
    assert merges == [*start, (b"a", b"bc"), (b"x", b"y"), (b"abc", b"q")]


def test_files_and_iterators_are_continued(tmp_path):
    (tmp_path / "text.txt").write_text(long_text(1, 20_000), encoding="utf-8")
    path = str(tmp_path / "text.txt")
    first = train_bpe(path, 300, [EOT])
    whole = train_bpe(path, 350, [EOT])
    assert train_bpe(path, 350, [EOT], continue_from=first) == whole
    trainer = TRAINERS["native"](continue_from=first)
    assert trainer.train_from_iterator([long_text(1, 20_000)], 350, [EOT]) == whole


def test_a_missing_special_token_is_a_warning(counts):
    first = train("native", counts, 43, [EOT])
    trainer = TRAINERS["native"](continue_from=first)
    with pytest.warns(UserWarning, match=r"\b1 token\b.*b'<\|endoftext\|>'") as found:
        trainer.train_from_counts(counts, 310, [])
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.train_from_counts(counts, 310, [EOT])
        TRAINERS["native"]().train_from_counts(counts, 310, [])


@pytest.mark.parametrize(
    ("continued", "error", "fields"),
    [
        (5, InputTypeError, ("continue_from", 5)),
        (({}, None), InputTypeError, ("continue_from", "({}, None)")),
        ((BYTES,), InputTypeError, ("continue_from",)),
        (({}, []), InputError, ("vocab", "b'\\x00'")),
        (({"a": b"a"}, []), InputTypeError, ("vocab", "'a'", "b'a'")),
        (({True: b"a"}, []), InputTypeError, ("vocab", "True", "b'a'")),
        (({1: "a"}, []), InputTypeError, ("vocab", "'a'")),
        (({-1: b"a"}, []), InputError, ("vocab", "-1", "b'a'")),
        (({1: b"a", 2: b"a"}, []), InputError, ("vocab", 1, 2, "b'a'")),
        (({1: b"a", 2: b""}, []), InputError, ("vocab", "id 2")),
        ((vocabulary_of()[0], [(b"a", b"b")]), InputError, ("merges", "merge 0", "b'ab'")),
        (
            (vocabulary_of((b"aa", b"b"))[0], [(b"aa", b"b")]),
            InputError,
            ("merges", "merge 0", "b'aa'"),
        ),
        ((BYTES, [b"ab"]), InputTypeError, ("merges", "merge 0", "b'ab'")),
        ((BYTES, [5]), InputTypeError, ("merges", "merge 0", 5)),
        ((BYTES, [(b"a", b"b", b"c")]), InputTypeError, ("merges", "merge 0")),
        ((vocabulary_of((b"x", b"y"))[0], [(b"x", b"y")] * 2), InputError, ("merges", "merge 1")),
    ],
)
def test_invalid_vocabularies_are_rejected(continued, error, fields):
    with rejects(*fields, kind=error):
        TRAINERS["naive"](continue_from=continued)


def test_a_vocab_size_below_the_continued_one_is_rejected(counts):
    first = train("native", counts, 44)
    with rejects("vocab_size", 300):
        TRAINERS["native"](continue_from=first).train_from_counts(counts, 300, [EOT])


def test_the_smallest_size_is_explained():
    trainer = TRAINERS["naive"]()
    with rejects("vocab_size", "at least 257 (256 bytes and 1 special token), got 1"):
        trainer.train_from_counts({}, 1, [EOT])
    with rejects("vocab_size", "at least 257 (257 existing ids and 0 special tokens), got 1"):
        trainer = TRAINERS["naive"](continue_from=vocabulary_of((b"a", b"b")))
        trainer.train_from_counts({}, 1)
