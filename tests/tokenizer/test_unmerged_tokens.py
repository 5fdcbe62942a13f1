"""ignore_merges: a pre-token that is a token is encoded as that token, without merging."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cs336_basics.__main__ import main
from cs336_basics.formats import export_tokenizer
from cs336_basics.formats.foreign_patterns import to_fancy_regex
from cs336_basics.formats.tiktoken.ranks import (
    merges_of_ranks,
    tiktoken_ranks,
)
from cs336_basics.splitting import Splitter
from cs336_basics.tokenizer import (
    Tokenizer,
    extend,
    token_parts,
)
from cs336_basics.tokenizer.reference import merge_pretoken
from cs336_basics.tokenizer.unmerged_tokens import unmerged_tokens
from tests.errors import rejects
from tests.formats.exported import chosen_texts, random_texts, trained
from tests.formats.tiktoken.test_ranks import write_ranks
from tests.tokenizer.examples import BYTES, FRAGMENTS, edited_merges, reference_ids

BACKENDS = ["reference", "python", *(["native"] if Splitter().has_scanner else [])]

# Words that no merge produces, parts of longer words, long words, and a token that is not a
# pre-token.
WHOLE = [
    " strange", "strange", "tran", "th", ".:.:", "1234", "猫鼠", "鼠は", "が", "a" * 40, "\n\n\n",
    " " * 17, "é", "を食べた", " the theatre",
]  # fmt: skip


def with_words(tokenizer, words, **options):
    """Return a tokenizer whose vocabulary also contains the given words."""
    vocab = tokenizer.vocab
    known = set(vocab.values())
    new = [word for word in dict.fromkeys(words) if word not in known]
    vocab = {**vocab, **dict(enumerate(new, max(vocab) + 1))}
    return Tokenizer.of(tokenizer.definition.replaced(vocab=vocab, ignore_merges=True), **options)


def whole_word_tokenizer(pattern="gpt2", **options):
    words = [word.encode() for word in WHOLE]
    return with_words(
        trained(pattern), [*words, b"\xe7\x8c", *(w[:-1] for w in words[5:9])], **options
    )


def texts(seed, number):
    """Yield texts that contain the words in WHOLE, alone and within longer words."""
    chooser = random.Random(seed)
    for _ in range(number):
        yield "".join(
            chooser.choice(WHOLE if chooser.random() < 0.5 else FRAGMENTS)
            + chooser.choice(["", "", " ", "x"])
            for _ in range(chooser.randint(1, 40))
        )


@pytest.mark.parametrize("pattern", ["gpt2", "llama3", "partial"])
def test_a_word_in_the_vocabulary_becomes_one_token_in_every_backend(pattern):
    tokenizers = [whole_word_tokenizer(pattern, backend=backend) for backend in BACKENDS]
    assert tokenizers[0].encode(" strange") == [tokenizers[0].token_to_id(" strange")]
    assert len(tokenizers[0].encode("strangely")) > 1
    for text in [*texts(1, 40), *chosen_texts()]:
        reference, *others = tokenizers
        expected = reference.encode(text)
        for tokenizer in others:
            assert tokenizer.encode(text) == expected
            assert tokenizer.encode(text) == expected  # from the cache


@given(
    seed=st.integers(0, 10_000),
    whole=st.lists(st.text("abc", min_size=2, max_size=20), max_size=8),
    words=st.lists(st.text("abc", min_size=1, max_size=40), min_size=1, max_size=10),
)
@settings(deadline=None)
def test_random_merges_and_words_give_the_defined_ids(seed, whole, words):
    vocab, merges = edited_merges(seed)
    merged = Tokenizer(vocab, merges)
    for backend in BACKENDS:
        tokenizer = with_words(merged, map(str.encode, whole), backend=backend)
        for word in [*words, *whole]:
            expected = reference_ids(tokenizer, word)
            assert tokenizer.encode(word) == expected
            assert len(expected) == 1 or word not in whole
            assert tokenizer.decode(expected) == word


def test_a_whole_word_may_contain_absent_bytes():
    for backend in ("reference", "python"):
        tokenizer = Tokenizer({0: b"a", 1: b"xy", 2: b" "}, [], ignore_merges=True, backend=backend)
        assert tokenizer.encode("xy") == [1]
        with rejects(None, "'x'", 3):
            tokenizer.encode("xy xa")


def test_special_tokens_are_not_whole_words():
    # "ab" is a special token. As ordinary text, it is merged like any other word.
    for backend in BACKENDS:
        tokenizer = Tokenizer(
            {**BYTES, 256: b"ab"}, [], ["ab"], ignore_merges=True, backend=backend
        )
        assert tokenizer.encode("ab") == [256]
        assert tokenizer.encode("ab", allowed_special=[]) == [97, 98]


def test_unmerged_tokens_are_the_tokens_that_merges_do_not_make():
    tokenizer = whole_word_tokenizer()
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    special = set(map(str.encode, tokenizer.special_tokens))
    expected = [
        token
        for token in tokenizer.vocab.values()
        if len(merge_pretoken(token, ranks)) > 1
        and token not in special
        and token.decode("utf-8", "replace").encode() == token
    ]
    assert unmerged_tokens(tokenizer.definition) == expected
    assert b" strange" in expected
    assert unmerged_tokens(trained("gpt2").definition) == []


# Changing the vocabulary.


def test_an_added_word_needs_one_id_and_no_merge():
    tokenizer = whole_word_tokenizer()
    extended = extend(tokenizer, [" quaint", "quaint", " strange"], special_tokens=["<|x|>"])
    assert extended.merges == tokenizer.merges
    assert len(extended) == len(tokenizer) + 3
    assert extended.encode(" quaint") == [extended.token_to_id(" quaint")]
    assert extended.encode(" quaintly strange") == tokenizer.encode(" quaintly strange")
    parts = token_parts(tokenizer, extended)
    assert parts[extended.token_to_id(" quaint")] == tokenizer.encode(" quaint")


# Other libraries.


def test_tokenizers_gives_the_same_ids(tmp_path):
    peer = pytest.importorskip("tokenizers")
    for pattern in ("gpt2", "llama3"):
        ours = whole_word_tokenizer(pattern)
        export_tokenizer(ours, "huggingface", tmp_path / pattern)
        theirs = peer.Tokenizer.from_file(str(tmp_path / pattern / "tokenizer.json"))
        back = Tokenizer.from_huggingface(tmp_path / pattern)
        assert back.hash() == ours.hash()
        for text in [*texts(4, 300), *chosen_texts(), *random_texts(11, 300)]:
            assert back.encode(text) == theirs.encode(text).ids


def ranks_of(tokenizer):
    special = set(map(str.encode, tokenizer.special_tokens))
    return {token: i for i, token in tokenizer.vocab.items() if token not in special}


def test_tiktoken_gives_the_same_ids(tmp_path):
    tiktoken = pytest.importorskip("tiktoken")
    # As in Llama 3, some whole tokens have higher ranks than the tokens that would split them.
    words = [" strange", "strange", ".:.:", "1234", "猫鼠", "aaaaaaaaaab"]
    tokenizer = with_words(trained("llama3"), [word.encode() for word in words])
    ranks = ranks_of(tokenizer)
    write_ranks(tmp_path / "my.tiktoken", ranks)
    special = {token: tokenizer.token_to_id(token) for token in tokenizer.special_tokens}
    ours = Tokenizer.from_tiktoken(tmp_path / "my.tiktoken", special, pattern="llama3")
    assert ours.ignore_merges
    theirs = tiktoken.Encoding(
        "my", pat_str=to_fancy_regex("llama3"), mergeable_ranks=ranks, special_tokens=special
    )
    for text in [*texts(5, 300), *chosen_texts(), *random_texts(12, 300)]:
        assert ours.encode(text) == theirs.encode(text, allowed_special="all")
    with rejects(None, "b'th'"):
        export_tokenizer(whole_word_tokenizer(), "tiktoken", tmp_path / "refused")
    # Pairs that never occur, as in Hugging Face's conversion of Llama 3, do not matter.
    more = [(token[:i], token[i:]) for token in ranks for i in range(1, len(token))]
    more = [pair for pair in more if pair[0] in ranks and pair[1] in ranks]
    more = list(dict.fromkeys([*ours.merges, *more]))
    more.sort(key=lambda pair: ranks[pair[0] + pair[1]])
    whole = Tokenizer(ours.vocab, more, list(special), pattern="llama3", ignore_merges=True)
    assert tiktoken_ranks(whole.definition) == ranks
    for text in texts(6, 300):
        assert whole.encode(text) == theirs.encode(text, allowed_special="all")
    export_tokenizer(ours, "tiktoken", tmp_path / "export")
    assert Tokenizer.from_tiktoken(tmp_path / "export").hash() == ours.hash()


@given(
    tokens=st.lists(st.text("abc", min_size=2, max_size=6), max_size=12, unique=True),
    text=st.text("abc ", max_size=60),
)
@example(tokens=["aba", "ab"], text="abab aba")
@example(tokens=["abc", "ab", "abca", "bc"], text="abcabc babcab")
@settings(deadline=None)
def test_any_ranks_give_the_ids_of_tiktoken(tokens, text):
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)}
    ranks.update({token.encode(): 256 + i for i, token in enumerate(tokens)})
    vocab = {i: token for token, i in ranks.items()}
    ours = Tokenizer(vocab, merges_of_ranks(ranks), ignore_merges=True)
    assert tiktoken_ranks(ours.definition) == ranks
    theirs = tiktoken.Encoding(
        "my", pat_str=to_fancy_regex("gpt2"), mergeable_ranks=ranks, special_tokens={}
    )
    assert ours.encode(text) == theirs.encode(text)


def test_a_format_without_ignore_merges_rejects_unmerged_words(tmp_path):
    with rejects(None, "b' strange'"):
        export_tokenizer(whole_word_tokenizer(), "gpt2", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    tokenizer = Tokenizer.of(trained("gpt2").definition.replaced(ignore_merges=True))
    export_tokenizer(tokenizer, "gpt2", tmp_path / "out")


def test_continued_training_rejects_unmerged_words(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("strange " * 30 + "the cat " * 20, "utf-8")
    whole_word_tokenizer().save(tmp_path / "whole")
    merged = trained("gpt2").definition.replaced(ignore_merges=True)
    Tokenizer.of(merged).save(tmp_path / "merged")
    arguments = ["--input", str(tmp_path / "text.txt"), "--vocab-size", "1505"]
    for name, status in (("whole", 2), ("merged", 0)):
        output = ["--continue", str(tmp_path / name), "--output", str(tmp_path / f"{name}-new")]
        assert main(["train-bpe", *arguments, *output]) == status
    assert "ignore_merges" in capsys.readouterr().err
    assert not (tmp_path / "whole-new").exists()
    assert len(Tokenizer.from_directory(tmp_path / "merged-new")) == 1505


def test_every_whole_word_becomes_its_token_with_merges_in_any_order():
    # The compiled encoder predicts, without merging, which of these words the merges make.
    chooser = random.Random(8)
    for _ in range(300):
        vocab = dict(BYTES)
        letters = [b"a", b"b", b"c"][: chooser.randint(1, 3)]
        made, merges = [*letters], []
        for _ in range(chooser.randint(1, 14)):
            left, right = chooser.choices(made, k=2)
            if (left, right) in merges or len(left + right) > 12:
                continue
            merges.append((left, right))
            if left + right not in made:
                made.append(left + right)
                vocab[len(vocab)] = left + right
        if chooser.random() < 0.3:
            chooser.shuffle(merges)
        tokenizer = Tokenizer(vocab, merges, ignore_merges=True, pattern=r"\S+|\s+", cache_size=0)
        for token_id, token in vocab.items():
            if token_id >= 256:
                assert tokenizer.encode(token.decode()) == [token_id], (merges, token)
