"""Superwords: merges that may cross the words of a line, as in SuperBPE."""

import random
import warnings
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics import TRAINERS, Tokenizer, train_bpe
from cs336_basics.bpe.limits import num_words
from cs336_basics.bpe.superwords import MAX_WORDS, Superwords
from cs336_basics.splitting import Splitter, pattern_of_superwords, pretokenize, reference
from tests.bpe.trainers import EOT, every_trainer, specified_merges
from tests.errors import rejects

pytestmark = pytest.mark.filterwarnings("ignore:no pair was left:UserWarning")

TEXT = "in the end of the day\nat the end of the 12 days, in the end\n" * 9


def learn(name, texts, words_size, size, special_tokens=(), **options):
    trainer = TRAINERS[name](superwords_from=words_size, **options)
    vocab, merges = trainer.train_from_iterator(texts, size, list(special_tokens))
    return Tokenizer(vocab, merges, list(special_tokens), pattern=trainer.tokenizer_pattern)


@every_trainer
def test_tokens_span_words_but_neither_lines_nor_numbers(name):
    tokenizer = learn(name, [TEXT], 280, 310, [EOT])
    tokens = [token.decode() for token in tokenizer.vocab.values() if token.isascii()]
    assert max(map(len, map(str.split, tokens))) == MAX_WORDS
    assert any(" of the" in token for token in tokens)
    assert not any("\n" in token.strip("\n") for token in tokens)
    assert not any(
        set(token) & set("0123456789") and token.strip(" 0123456789") for token in tokens
    )
    text = TEXT + EOT + "of the\r\nof the"
    assert tokenizer.decode(tokenizer.encode(text)) == text


long_lines = st.lists(st.sampled_from(["a", " b", " ab", ".", " ", "1", "é"]), max_size=60)
texts = st.lists(
    st.text("ab 1\n", max_size=30) | st.just("a b a b a b\n") | long_lines.map("".join),
    max_size=6,
)


def check_against_the_specification(name, texts, num_words_merged, num_superwords, pattern, most):
    trainer = TRAINERS[name](
        pattern=pattern, superwords_from=256 + num_words_merged, max_words=most
    )
    _, merges = trainer.train_from_iterator(texts, 256 + num_words_merged + num_superwords, [])
    words = Counter(word.encode() for text in texts for word in pretokenize(text, pattern))
    first = specified_merges(words, num_words_merged, max_words=most)
    lines = Counter(
        line.encode()
        for text in texts
        for line in pretokenize(text, pattern_of_superwords(pattern))
    )
    rest = num_words_merged + num_superwords - len(first)
    second = specified_merges(lines, rest, before=first, max_words=most or MAX_WORDS)
    assert merges == [*first, *second]


arguments = given(
    texts=texts,
    num_words_merged=st.integers(1, 9),
    num_superwords=st.integers(1, 20),
    pattern=st.sampled_from(["gpt2", "cl100k", "qwen2", r"\w+|\W"]),
    most=st.none() | st.integers(1, 3),
)


@every_trainer
@settings(max_examples=20)
@arguments
def test_equals_the_specification(name, texts, num_words_merged, num_superwords, pattern, most):
    check_against_the_specification(name, texts, num_words_merged, num_superwords, pattern, most)


@pytest.mark.slow
@every_trainer
@settings(max_examples=10_000)
@arguments
def test_equals_the_specification_at_length(
    name, texts, num_words_merged, num_superwords, pattern, most
):
    check_against_the_specification(name, texts, num_words_merged, num_superwords, pattern, most)


def test_several_threads_learn_the_same_superwords():
    chooser = random.Random(6)
    words = [bytes(chooser.choices(b"abcdefgh", k=chooser.randint(1, 6))) for _ in range(300)]
    lines = {
        b" ".join(words[int(300 * chooser.random() ** 3)] for _ in range(40)): 1 + i % 3
        for i in range(14_000)  # far more cells than one thread lays out
    }
    words_alone = Counter(word for line in lines for word in line.split())
    first = TRAINERS["native"]().train_from_counts(words_alone, 300)
    options = {"continue_from": first, "pattern": r"[^\n]+|\n+", "max_words": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of words that are not pre-tokens
        learned = [
            TRAINERS["native"](num_workers=number, **options).train_from_counts(lines, 400)
            for number in (1, 3)
        ]
    assert learned[0] == learned[1]
    assert any(b" " in token for token in learned[0][0].values())


@pytest.mark.parametrize("execution", ["serial", "threads", "processes"])
def test_files_give_the_merges_of_texts(execution, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT * 5)
    options = {"execution": execution, "superwords_from": 280}
    vocab, merges = train_bpe(path, 310, [EOT], **options)
    assert merges == learn("naive", [TEXT * 5], 280, 310, [EOT]).merges
    assert list(vocab.values())[-1] == merges[-1][0] + merges[-1][1]


def test_superwords_continue_a_vocabulary_and_are_traced():
    rows = []
    first = train_from([TEXT], 270)
    second = TRAINERS["heap"](continue_from=first, superwords_from=272, trace=rows.append)
    vocab, merges = second.train_from_iterator([TEXT], 276, [])
    assert merges[: len(first[1])] == first[1]
    assert [row.merge for row in rows] == list(range(14, 20))
    assert [(row.left, row.right) for row in rows] == merges[14:]
    assert len(vocab) == 276


def train_from(texts, size):
    return TRAINERS["heap"]().train_from_iterator(texts, size, [])


@pytest.mark.parametrize(
    ("pattern", "text", "pieces"),
    [
        ("gpt2", "a b 123\n\nc", ["a b", " 123", "\n\n", "c"]),
        ("gpt2-digits1", "a 12", ["a", " 1", "2"]),
        ("gpt2-digits3-right", "a 1234", ["a", " 1", "234"]),
        ("llama3-digits3-right", "a 1234", ["a ", "1", "234"]),
        ("cl100k", "a 1234 b", ["a ", "123", "4", " b"]),
        ("qwen2", "12 b", ["1", "2", " b"]),
        (r"\w+|\W", "a 12 b\r\n", ["a 12 b", "\r\n"]),
    ],
)
def test_superwords_stay_in_a_line_and_numbers_are_split_as_before(pattern, text, pieces):
    splitter = Splitter(pattern_of_superwords(pattern))
    assert list(splitter.pretokenize(text)) == pieces
    assert list(reference.pretokenize(text, splitter.pattern)) == pieces
    assert splitter.has_scanner


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"superwords_from": 0}, "superwords_from"),
        ({"superwords_from": 256}, "superwords_from"),
        ({"superwords_from": 300}, "superwords_from"),
        ({"superwords_from": "many"}, "superwords_from"),
        ({"superwords_from": 280, "superwords_pattern": "("}, "pattern"),
        ({"superwords_pattern": "gpt2"}, "superwords_pattern"),
    ],
)
def test_invalid_options_are_rejected(options, argument):
    with rejects(argument, kind=ValueError):
        TRAINERS["heap"](**options).train_from_iterator([TEXT], 300, [EOT])


def test_superwords_need_the_text_twice():
    trainer = TRAINERS["heap"](superwords_from=270)
    with rejects("texts"):
        trainer.train_from_iterator(iter([TEXT]), 300, [])
    with rejects("superwords_from", "270"):
        trainer.train_from_counts({b"a": 2}, 300)
    assert num_words(b" of the") == 2


def test_continuing_gives_the_superwords_of_a_single_run():
    at_once = learn("native", [TEXT], 280, 330)
    before = learn("native", [TEXT], 280, 300)
    trainer = TRAINERS["native"](
        pattern=before.pattern,
        continue_from=(before.vocab, before.merges),
        max_words=MAX_WORDS,
    )
    vocab, merges = trainer.train_from_iterator([TEXT], 330, [])
    assert (vocab, merges) == (at_once.vocab, at_once.merges)
    assert max(map(num_words, vocab.values())) == MAX_WORDS


def test_parity_has_no_superwords():
    trainer = TRAINERS["native"](superwords_from=280)
    with rejects("superwords_from", "measures words"):
        trainer.train_parity_from_counts([{b"a": 1}, {b"b": 1}], 300, dev=[{b"a": 1}, {b"b": 1}])


def test_superwords_need_a_pattern_of_words():
    lines = pattern_of_superwords("gpt2")
    with rejects("pattern", "which is also the pattern of the superwords"):
        TRAINERS["native"](pattern=lines, superwords_from=280)
    with rejects("pattern", "gpt2"):
        TRAINERS["native"](superwords_from=280, superwords_pattern="gpt2")


def test_a_superword_has_at_least_one_word():
    assert Superwords(300, "gpt2", 1).max_words == 1
    with rejects("max_words", 1, 0):
        Superwords(300, "gpt2", 0)
