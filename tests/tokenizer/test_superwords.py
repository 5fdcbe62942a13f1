"""Tokenizers whose tokens span words: all ids, and everything that is done with them, are exact."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics import TRAINERS, Tokenizer
from cs336_basics.bpe.limits import num_words
from cs336_basics.bpe.superwords import MAX_WORDS
from cs336_basics.counting import count_texts
from cs336_basics.formats import check_tokenizer, export_tokenizer
from cs336_basics.formats.gguf.gguf_vocab import gguf_vocab
from cs336_basics.splitting import Splitter, pattern_of_superwords
from cs336_basics.tokenizer.dropout import Dropout
from cs336_basics.tokenizer.editing.prune import prune
from cs336_basics.tokenizer.merged_words import merge_steps
from cs336_basics.tokenizer.reference import encode_text_with_dropout
from tests.errors import rejects
from tests.texts import TEXTS, long_text
from tests.tokenizer.examples import BYTES, END, reference_ids, skip_unless_available

pytestmark = pytest.mark.filterwarnings("ignore:no pair was left:UserWarning")

WORDS = [
    "a",
    " a",
    " of",
    " the",
    " end",
    ".",
    ",",
    " 12",
    "  ",
    "\n",
    "\t",
    " é",
    "中文",
    "。",
    "'s",
]

random_lines = st.lists(st.sampled_from(WORDS), max_size=80).map("".join)
"""Texts of words, some of them longer than the lines that are cut into words."""


def superword_tokenizer(texts, words_size=270, size=300, special_tokens=(END,), **options):
    trainer = TRAINERS["native"](superwords_from=words_size, num_workers=1, **options)
    vocab, merges = trainer.train_from_iterator(texts, size, list(special_tokens))
    return Tokenizer(vocab, merges, list(special_tokens), pattern=trainer.tokenizer_pattern)


@pytest.fixture(scope="module")
def tokenizer():
    skip_unless_available("native")
    texts = [*TEXTS.values(), long_text(1, 60_000)]
    tokenizer = superword_tokenizer(texts, 900, 1500)
    assert sum(num_words(token) > 1 for token in tokenizer.vocab.values()) > 100
    return tokenizer


def hostile_tokenizer(seed):
    """Return a tokenizer with random merges, first mostly within words and then mostly of words.

    A merge may precede the merges that make its tokens, and several may make the same token.
    """
    chooser = random.Random(seed)
    tokens = [b"a", b"b", b" ", b".", b"1", b"\xc3", b"\xa9", b"\n"]
    starts = [b" "]
    merges = []
    for step in range(chooser.randint(2, 60)):
        left, right = chooser.choice(tokens), chooser.choice(tokens)
        if step > 15 and chooser.random() < 0.8:
            right = chooser.choice(starts)
        pair = left, right
        if pair in merges or len(left + right) > 12:
            continue
        merges.append(pair)
        if left + right not in tokens:
            tokens.append(left + right)
            if left.startswith(b" "):
                starts.append(left + right)
    for _ in range(chooser.choice([0, 0, 1, 3])):
        i, j = chooser.randrange(len(merges)), chooser.randrange(len(merges))
        merges[i], merges[j] = merges[j], merges[i]
    made = [token for token in tokens if len(token) > 1]
    vocab = {**BYTES, **dict(enumerate(made, 256))}
    pattern = chooser.choice([r"[^\n]+|\n+", pattern_of_superwords("gpt2"), "gpt2"])
    return Tokenizer(vocab, merges, [END], pattern=pattern)


def tokenizer_of_spaces(chooser):
    """Return a tokenizer with random merges of spaces and letters, mostly after b"  "."""
    spaces = [b" ", b" "]
    tokens = [b"a", b"b", b"\n", b"."]
    merges = [(b" ", b" ")] if chooser.random() < 0.9 else [(b" ", b"a"), (b" ", b" ")]
    for _ in range(chooser.randint(1, 25)):
        made = [*spaces, *tokens, *{b"".join(pair) for pair in merges}]
        pair = chooser.choice([*spaces, *made]), chooser.choice([*spaces, b"a", *made])
        if pair not in merges and len(b"".join(pair)) <= 10:
            merges.append(pair)
    words = list(merges)
    for pair in [(b"a", b"."), (b"a.", b" "), (b"b", b" "), (b"b ", b"a"), (b".", b" ")]:
        if pair not in words:  # join words
            merges.append(pair)
    vocab = {**BYTES, **dict(enumerate({b"".join(pair): None for pair in merges}, 256))}
    patterns = [r"[^\n]+|\n+", r" ?a+|\n+|(?: (?!a)|[^\na ])+", r"[^b]+|b", "gpt2"]
    return Tokenizer(vocab, merges, [END], pattern=chooser.choice(patterns))


def check_ids(tokenizer, text):
    expected = reference_ids(tokenizer, text)
    assert tokenizer.encode(text) == expected
    assert tokenizer.encode_array(text).tolist() == expected
    assert tokenizer.decode(expected) == text


@settings(max_examples=25)
@given(st.lists(random_lines, min_size=1, max_size=4), random_lines, st.integers(257, 300))
def test_trained_superwords_are_encoded_as_defined(texts, text, words_size):
    tokenizer = superword_tokenizer(texts, words_size, 320)
    for line in [*texts, text]:
        check_ids(tokenizer, line + END + line)


@settings(max_examples=40)
@given(st.integers(0, 2**32), random_lines | st.text("ab .1é\n", max_size=200))
def test_hostile_merges_are_encoded_as_defined(seed, text):
    check_ids(hostile_tokenizer(seed), text)


def text_of_spaces(chooser):
    """Return runs of spaces, most of them short, with letters, line ends and stops between them."""
    runs = [" " * chooser.choice([1, 2, 3, 4, 5, 8, 14, 61, 130]) for _ in range(40)]
    return "".join(run + chooser.choice(["a", "ab", "b", "aa", "\n", ".", "é"]) for run in runs)


@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 60))]
)
def test_runs_of_spaces_are_cut_where_no_merge_joins_them(seed):
    chooser = random.Random(seed)
    tokenizer = tokenizer_of_spaces(chooser)
    for _ in range(3):
        check_ids(tokenizer, text_of_spaces(chooser))


@pytest.mark.slow
def test_runs_of_spaces_are_cut_where_no_merge_joins_them_at_length():
    chooser = random.Random(63)
    for _ in range(2500):
        tokenizer = tokenizer_of_spaces(chooser)
        for _ in range(4):
            check_ids(tokenizer, text_of_spaces(chooser)[:200])


@pytest.mark.parametrize(
    ("words", "line", "pattern"),
    [
        pytest.param("_+_ _+a __+_a b+b c+c", "___a", r"[^\n]+", id="spaces and a word after them"),
        pytest.param("_+_ a+b _+a __+_", "___ab", r"[^\n]+", id="first the start of the word"),
        pytest.param("_+_ __+_ _+a", "___a", r"[^\n]+", id="first the spaces"),
        pytest.param("_+_ __+a", "____a", r"[^\n]+", id="two spaces and a letter"),
        pytest.param("_+_ _+a __+_", "b___a", r"[^\na]+|a", id="the spaces end a line"),
        pytest.param("_+_ _+a __+_", "b_____a", r"b {3}|[^\nb]+|b", id="a line starts within"),
    ],
)
def test_a_run_of_spaces_is_not_cut_if_merges_join_it(words, line, pattern):
    merges = [
        tuple(part.replace("_", " ").encode() for part in pair.split("+"))
        for pair in f"{words} .+_".split()
    ]
    vocab = {**BYTES, **dict(enumerate((b"".join(pair) for pair in merges), 256))}
    tokenizer = Tokenizer(vocab, merges, [END], pattern=pattern)
    check_ids(tokenizer, line.replace("_", " ") + "..")


def check_dropped_ids(tokenizer, texts, dropout):
    expected = [
        encode_text_with_dropout(
            text, tokenizer.vocab, tokenizer.merges, dropout, index, [END], tokenizer.pattern
        )
        for index, text in enumerate(texts)
    ]
    assert tokenizer.encode_batch(texts, dropout=dropout) == expected
    assert tokenizer.decode_batch(expected) == texts


@settings(max_examples=25)
@given(
    st.integers(0, 2**32),
    st.lists(random_lines, min_size=1, max_size=3),
    st.sampled_from([0.05, 0.5, 0.95]),
)
def test_superwords_are_left_out_as_defined(seed, texts, probability):
    dropout = Dropout(probability, seed)
    check_dropped_ids(superword_tokenizer(texts, 270, 320), texts, dropout)
    check_dropped_ids(hostile_tokenizer(seed), texts, dropout)


@pytest.mark.slow
@settings(max_examples=10_000)
@given(
    st.lists(random_lines, min_size=1, max_size=4),
    random_lines | st.text("ab .1é\n", max_size=200),
    st.integers(257, 300),
)
def test_superwords_are_encoded_as_defined_at_length(texts, text, words_size):
    tokenizer = superword_tokenizer(texts, words_size, 320)
    hostile = hostile_tokenizer(words_size * 7919 + len(text))
    for each in (tokenizer, hostile):
        check_ids(each, text)
        check_dropped_ids(each, [text], Dropout(0.2, len(text)))


def test_one_long_line_is_encoded_in_pieces(tokenizer):
    line = long_text(2, 6000).replace("\n", " ") + " of the" * 300 + " a" * 300
    check_ids(tokenizer, line)


@pytest.mark.parametrize("cache_size", [0, 1 << 14, 1 << 24])
def test_short_lines_that_recur_have_the_same_ids(tokenizer, cache_size):
    chooser = random.Random(8)
    lines = ["".join(chooser.choices(WORDS, k=chooser.randrange(25))) for _ in range(12)]
    lines += [chooser.choice(lines) + " of the end" for _ in range(4)]
    cached = Tokenizer.of(tokenizer.definition, cache_size=cache_size)
    for _ in range(4):
        check_ids(cached, "\n".join(chooser.choices(lines, k=60)))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_lines_that_recur_between_new_ones_have_the_same_ids(share):
    skip_unless_available("native")
    chooser = random.Random(65)

    def new_line():
        return "".join(chooser.choices(WORDS, k=chooser.randint(4, 40)))

    known = [new_line() for _ in range(100)]
    tokenizer = superword_tokenizer(["\n".join(known)], 280, 400)
    for _ in range(8):
        recur = [chooser.random() < share for _ in range(60)]
        lines = [chooser.choice(known) if one else new_line() for one in recur]
        check_ids(tokenizer, "\n".join(lines))


def test_pieces_of_long_lines_that_recur_have_the_same_ids(tokenizer):
    chooser = random.Random(63)
    text = long_text(6, 20_000).replace("\n", " ")
    starts = [chooser.randrange(len(text) - 1000) for _ in range(8)]
    for _ in range(25):
        lines = []
        for _ in range(chooser.randint(1, 6)):
            start = chooser.choice(starts)
            line = text[start : start + chooser.choice([10, 60, 140, 400, 1000])]
            lines.append(chooser.choice(["", "", "7 ", "é", "x" * 140, " " * 140]) + line)
        check_ids(tokenizer, chooser.choice(["\n", "\n\n", " 12", END]).join(lines))


def test_equal_lines_that_are_split_otherwise_have_other_ids():
    merges = [(b"x", b"x"), (b"xx", b"xx"), (b".", b" ")]
    vocab = {**BYTES, **dict(enumerate((b"".join(pair) for pair in merges), 256))}
    tokenizer = Tokenizer(vocab, merges, [END], pattern=r"x+(?=\n\n)|[^\n]|\n")
    line = "x" * 20 + "\n"
    assert len(tokenizer.encode(line + "\n")) < len(tokenizer.encode(line))
    for text in [line, line + "\n"]:
        for _ in range(3):
            check_ids(tokenizer, text * 4)


def test_short_words_that_recur_have_the_same_ids(tokenizer):
    chooser = random.Random(64)
    words = [*WORDS, "7", "x1x", "1 2", "." * 15, "a" * 130]
    starts = ["".join(chooser.choices(words, k=30)) for _ in range(6)]
    for _ in range(60):
        text = "".join(chooser.choice(starts)[: chooser.randrange(150)] for _ in range(8))
        check_ids(tokenizer, text)
        check_ids(tokenizer, text.replace("\n", END))


def check_between_added_tokens(seed):
    """Check short texts between added tokens, one of which may be a part of superwords."""
    chooser = random.Random(seed)
    plain = hostile_tokenizer(seed)
    made = [b"".join(pair).decode(errors="ignore") for pair in plain.merges]
    made = [token for token in made if token.encode() in plain.vocab.values()]
    specials = [END, "<|x|>", *chooser.sample(made, chooser.randrange(min(2, len(made) + 1)))]
    tokenizer = Tokenizer(plain.vocab, plain.merges, specials, pattern=plain.pattern)
    spans = ["".join(chooser.choices(WORDS, k=chooser.choice([0, 1, 3, 9, 40]))) for _ in range(9)]
    for _ in range(2):
        parts = chooser.choices(spans, k=chooser.choice([3, 30, 150]))
        check_ids(tokenizer, "".join(part + chooser.choice(specials) for part in parts) + " a")


@pytest.mark.parametrize("seed", range(40))
def test_texts_between_added_tokens_have_their_own_ids(seed):
    check_between_added_tokens(seed)


@pytest.mark.slow
def test_texts_between_added_tokens_have_their_own_ids_at_length():
    for seed in range(5000):
        check_between_added_tokens(seed)


def test_texts_of_any_length_between_added_tokens_have_their_own_ids(tokenizer):
    word = long_text(7, 3000).replace("\n", " ")
    for length in [*range(1000, 1030), 3000]:
        text = word[:length] + END + " of the" + END + "1" * 40 + END * 200
        check_ids(tokenizer, text * 2)
        check_ids(tokenizer, "1a" * (length // 2) + END + ("1a" * 100 + END) * 12)


def test_wide_ids_give_the_same_tokens(tokenizer):
    far = {i if i < 1400 else i + 70_000: token for i, token in tokenizer.vocab.items()}
    wide = Tokenizer(far, tokenizer.merges, [END], pattern=tokenizer.pattern)
    for text in [*TEXTS.values(), long_text(3, 3000)]:
        assert wide.encode(text) == [i if i < 1400 else i + 70_000 for i in tokenizer.encode(text)]


def test_streams_offsets_and_batches_agree(tokenizer):
    texts = [*TEXTS.values(), long_text(4, 5000)]
    whole = "".join(texts)
    ids = tokenizer.encode(whole)
    pieces = [whole[i : i + 7] for i in range(0, len(whole), 7)]
    assert list(tokenizer.encode_iterable(pieces)) == ids
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    found, offsets = tokenizer.encode_with_offsets(whole)
    assert found == ids
    for id, (start, stop) in itertools.islice(zip(ids, offsets, strict=True), 300):
        part = tokenizer.decode_bytes([id])
        if b"\xef" not in part and part.isascii():
            assert whole[start:stop].encode() == part


def test_the_steps_of_a_line_lead_to_its_ids(tokenizer):
    text = long_text(5, 300)[:300] + " of the"
    words = merge_steps(tokenizer, text)
    assert [token_id for word in words for token_id in word.ids] == tokenizer.encode(text)
    assert all(num_words(word.word) > 1 for word in words if len(word.word) > 30)


def test_superwords_are_pruned_and_continued(tokenizer):
    texts = [long_text(1, 30_000)]
    splitter = Splitter(tokenizer.pattern, [END])
    smaller = prune(tokenizer, 1200, count_texts(texts, splitter)).tokenizer
    check_ids(smaller, texts[0][:2000])
    trainer = TRAINERS["native"](
        pattern=tokenizer.pattern,
        continue_from=(tokenizer.vocab, tokenizer.merges),
        max_words=MAX_WORDS,
    )
    vocab, merges = trainer.train_from_iterator(texts, 1600, [END])
    assert merges[: len(tokenizer.merges)] == tokenizer.merges
    larger = Tokenizer(vocab, merges, [END], pattern=tokenizer.pattern)
    check_ids(larger, texts[0][:2000])
    assert max(map(num_words, vocab.values())) <= MAX_WORDS


@pytest.mark.parametrize("to", ["huggingface", "tiktoken"])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3"])
def test_exports_give_equal_ids(to, pattern, tmp_path):
    pytest.importorskip({"huggingface": "tokenizers"}.get(to, to))
    ours = superword_tokenizer([long_text(1, 30_000)], 500, 700, pattern=pattern)
    assert any(num_words(token) > 1 for token in ours.vocab.values())
    export_tokenizer(ours, to, tmp_path / "out")
    check_tokenizer(ours, to, tmp_path / "out")
    theirs = getattr(Tokenizer, f"from_{to}")(tmp_path / "out")
    chooser = random.Random(5)
    for _ in range(50):
        text = "".join(chooser.choices(WORDS, k=chooser.randrange(60)))
        assert theirs.encode(text) == ours.encode(text)


def test_gguf_says_that_llama_cpp_splits_otherwise(tokenizer):
    with rejects("pattern", "llama.cpp"):
        gguf_vocab(tokenizer.definition, len(tokenizer.vocab))
