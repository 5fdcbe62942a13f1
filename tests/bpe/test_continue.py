"""Training that goes on from an existing vocabulary: equal to one training, for every trainer."""

import random
import warnings
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics import TRAINERS, Tokenizer, train_bpe
from cs336_basics.bpe.base import TIE_BREAKS
from cs336_basics.bpe.starting_vocabulary import StartingVocabulary
from cs336_basics.pretokenization import Splitter, count_text
from cs336_basics.tokenizer.reference import merge_pretoken
from tests.texts import long_text
from tests.tokenizer.examples import edited_merges

EOT = "<|endoftext|>"

every_trainer = pytest.mark.parametrize("name", TRAINERS)
every_tie_break = pytest.mark.parametrize("tie_break", TIE_BREAKS)


def train(name, counts, vocab_size, special_tokens=(), **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no pair was left")
        warnings.filterwarnings("ignore", "no merge makes")  # random vocabularies
        return TRAINERS[name](**options).train_from_counts(counts, vocab_size, special_tokens)


@pytest.fixture(scope="module")
def counts():
    return count_text(long_text(1, 40_000), Splitter(special_tokens=[EOT]))


@every_trainer
@every_tie_break
def test_continued_training_equals_one_training(name, tie_break, counts):
    first = train(name, counts, 300, [EOT], tie_break=tie_break)
    then = train(name, counts, 420, [EOT], tie_break=tie_break, continue_from=first)
    whole = train(name, counts, 420, [EOT], tie_break=tie_break)
    assert then == whole
    assert len(then[0]) == 420


@every_trainer
def test_continued_training_on_another_text_is_that_of_the_naive_trainer(name, counts):
    first = train("native", counts, 340, [EOT])
    other = count_text("the cat sat on the mat; the hat of the cat " * 30 + "zzzzyyzzyz " * 9)
    options = {"continue_from": first, "max_token_length": 5, "min_frequency": 3}
    vocab, merges = train(name, other, 400, [EOT, "<|user|>"], **options)
    assert (vocab, merges) == train("naive", other, 400, [EOT, "<|user|>"], **options)
    assert {token_id: vocab[token_id] for token_id in first[0]} == first[0]
    assert merges[: len(first[1])] == first[1]
    assert vocab[340] == b"<|user|>"
    assert [left + right for left, right in merges[len(first[1]) :]] == [
        vocab[token_id] for token_id in range(341, len(vocab))
    ]


@settings(max_examples=60)
@given(
    st.dictionaries(st.binary(max_size=8).map(lambda w: bytes(b % 3 + 97 for b in w)),
                    st.integers(0, 9), max_size=12),
    st.integers(0, 8),
    st.integers(0, 8),
    st.sampled_from(TIE_BREAKS),
    st.sampled_from(list(TRAINERS)),
)  # fmt: skip
def test_continued_training_of_random_words(words, some, more, tie_break, name):
    first = train("naive", words, 256 + some, tie_break=tie_break)
    size = len(first[0]) + more
    then = train(name, words, size, tie_break=tie_break, continue_from=first)
    assert then == train("naive", words, size, tie_break=tie_break)


def imported_vocabulary():
    """A vocabulary as other libraries have them.

    Its ids have gaps and another order of the bytes; two merges make one token; a merge comes
    before the one that makes its left token; and one token is made by no merge.
    """
    tokens = [bytes([byte]) for byte in reversed(range(256))]
    vocab = dict(enumerate(tokens))
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
    # The new merges are (d, d) and (dd, d), whose token has the id 401.
    with pytest.warns(UserWarning, match="make tokens that the vocabulary had already"):
        found = train(name, words, 440, ["<|end|>"], **options)
    with pytest.warns(UserWarning, match="already"):
        assert found == train("naive", words, 440, ["<|end|>"], **options)
    new_vocab, new_merges = found
    assert {token_id: new_vocab[token_id] for token_id in vocab} == vocab
    assert new_merges[: len(merges)] == merges
    assert min(set(new_vocab) - set(vocab)) == 402
    assert len(set(new_merges)) == len(new_merges)
    assert len(set(new_vocab.values())) == len(new_vocab)


@given(st.binary(max_size=12).map(lambda w: bytes(b % 4 + 97 for b in w)))
def test_words_are_split_as_the_tokenizer_encodes_them(word):
    vocab, merges = imported_vocabulary()
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    start = StartingVocabulary(vocab, merges)
    assert list(start.split(word)) == merge_pretoken(word, ranks)


@pytest.mark.parametrize("seed", range(20))
def test_merges_in_any_order_split_words_as_the_tokenizer_encodes_them(seed):
    vocab, merges = edited_merges(seed)
    known = set(vocab.values())
    vocab |= {1000 + byte: bytes([byte]) for byte in range(256) if bytes([byte]) not in known}
    tokenizer, start = Tokenizer(vocab, merges), StartingVocabulary(vocab, merges)
    chooser = random.Random(seed)
    for length in (3, 10, 40, 150):
        word = "".join(chooser.choices("abc", k=length))
        assert list(start.split(word.encode())) == [vocab[i] for i in tokenizer.encode(word)]


def test_compiled_splitting_is_that_of_the_starting_vocabulary():
    merging = pytest.importorskip("cs336_basics.bpe._word_merging")
    import numpy as np

    rng = random.Random(7)
    words = [bytes(rng.choices(b"abcd", k=rng.randint(0, 12))) for _ in range(500)]
    words += [b"abcd" * 5000, b""]
    start = StartingVocabulary(*imported_vocabulary())
    offsets = np.cumsum([0, *map(len, words)], dtype=np.int64)
    data = np.frombuffer(b"".join(words), np.uint8)
    symbols, lengths = merging.merge_words(data, offsets, start.merge_ids())
    ends = np.cumsum(lengths)
    for word, end, length in zip(words, ends.tolist(), lengths.tolist(), strict=True):
        if len(word) < 100:
            found = tuple(start.symbols[i] for i in symbols[end - length : end])
            assert found == start.split(word)
    assert b"".join(start.symbols[i] for i in symbols) == b"".join(words)


@every_trainer
def test_a_trace_goes_on_with_the_next_rank(name, counts):
    first = train("native", counts, 270)
    rows = []
    _, merges = train(name, counts, 290, continue_from=first, trace=rows.append)
    assert [row.merge for row in rows] == list(range(14, 34))
    assert [(row.left, row.right) for row in rows] == merges[14:]


@pytest.mark.parametrize("name", TRAINERS)
def test_a_merge_that_could_not_be_reached_keeps_its_rank(name):
    # "bc" joins first, so that `abc` is made by no merge, and the last merge is never applied.
    start = [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c"), (b"abc", b"d")]
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab |= {256 + i: left + right for i, (left, right) in enumerate(start)}
    trainer = TRAINERS[name](continue_from=(vocab, start))
    with pytest.warns(UserWarning, match="2 of the new merges make tokens that the vocabulary had"):
        found = trainer.train_from_counts({b"abc": 100, b"abcd": 50}, 260 + 2)
    assert found == (vocab, [*start, (b"a", b"bc")])
    assert Tokenizer(*found).encode("abcabcd") == [258, 259]
    with (
        pytest.warns(UserWarning, match="had already"),
        pytest.warns(UserWarning, match="the vocabulary has 260 tokens instead of 270"),
    ):
        TRAINERS[name](continue_from=(vocab, start)).train_from_counts({b"abc": 9, b"abcd": 5}, 270)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_token_that_is_made_again_has_an_id_of_its_own_in_ties(name):
    start = [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c")]
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab |= {256 + i: left + right for i, (left, right) in enumerate(start)}
    options = {"continue_from": (vocab, start), "tie_break": "huggingface"}
    words = {b"xyq": 10, b"xy": 40, b"abcq": 10, b"abc": 90}
    with pytest.warns(UserWarning, match="had already"):
        _, merges = TRAINERS[name](**options).train_from_counts(words, 262)
    assert merges == [*start, (b"a", b"bc"), (b"x", b"y"), (b"abc", b"q")]


def test_files_and_iterators_are_continued(tmp_path):
    (tmp_path / "text.txt").write_text(long_text(1, 20_000), encoding="utf-8")
    path = str(tmp_path / "text.txt")
    first = train_bpe(path, 300, [EOT])
    whole = train_bpe(path, 350, [EOT])
    assert train_bpe(path, 350, [EOT], continue_from=first) == whole
    trainer = TRAINERS["native"](continue_from=first)
    assert trainer.train_from_iterator([long_text(1, 20_000)], 350, [EOT]) == whole


def test_no_new_merges_give_the_same_vocabulary(counts):
    first = train("native", counts, 300, [EOT])
    assert train("native", counts, 300, [EOT], continue_from=first) == first


def test_a_special_token_that_is_not_passed_again_is_named(counts):
    vocab, merges = train("native", counts, 300, [EOT])
    trainer = TRAINERS["native"](continue_from=(vocab, merges))
    with pytest.warns(
        UserWarning, match=r"1 of the tokens .*, such as b'<\|endoftext\|>'"
    ) as found:
        trainer.train_from_counts(counts, 310, [])
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.train_from_counts(counts, 310, [EOT])
        TRAINERS["native"]().train_from_counts(counts, 310, [])


@pytest.mark.parametrize(
    ("continued", "error", "message"),
    [
        (5, TypeError, r"continue_from is 5: pass \(vocab, merges\)"),
        (({}, None), TypeError, r"continue_from is \({}, None\): pass \(vocab, merges\)"),
        (({}, []), ValueError, "the byte 0x00 has no id"),
        (([], []), TypeError, r"vocab is \[\]: pass a dict"),
        (({"a": b"a"}, []), TypeError, "'a' -> b'a' is not an int -> bytes"),
        (({-1: b"a"}, []), ValueError, "id -1 of b'a' is negative"),
        (({1: b"a", 2: b"a"}, []), ValueError, "two ids are b'a'"),
        (({1: b"a", 2: b""}, []), ValueError, "the token of id 2 is empty"),
    ],
)
def test_bad_vocabularies_are_refused(continued, error, message):
    with pytest.raises(error, match=message):
        TRAINERS["naive"](continue_from=continued)


@pytest.mark.parametrize(
    ("merges", "error", "message"),
    [
        ([(b"a", b"b")], ValueError, "merge 0 joins b'a' and b'b', but the vocabulary has no"),
        ([b"ab"], TypeError, "merge 0 is b'ab', not a pair of bytes"),
        ([(b"x", b"y")] * 2, ValueError, r"merge 1 of b'x' and b'y' repeats merge 0"),
    ],
)
def test_bad_merges_are_refused(merges, error, message):
    vocab = dict(enumerate([bytes([byte]) for byte in range(256)] + [b"xy"]))
    with pytest.raises(error, match=message):
        TRAINERS["naive"](continue_from=(vocab, merges))


def test_a_vocabulary_size_below_the_continued_one_is_refused(counts):
    first = train("native", counts, 300)
    with pytest.raises(ValueError, match=r"it must be at least 301 \(the 300 ids"):
        train("native", counts, 300, [EOT], continue_from=first)
