"""The reference is checked on small examples, and our encoders against other libraries."""

from __future__ import annotations

import functools
import itertools
import random
import unicodedata
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.bpe import train_bpe
from cs336_basics.data.datasets import sample_documents
from cs336_basics.formats.byte_strings import token_to_string
from cs336_basics.formats.gpt2.pair import load_merges, load_vocab
from cs336_basics.pretokenization import PATTERNS
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.encoders.backends import BACKENDS
from cs336_basics.tokenizer.reference import (
    encode_text,
    merge_pretoken,
    merge_pretoken_in_order,
)
from tests.texts import TEXTS, long_text
from tests.tokenizer.examples import (
    CORPORA,
    COURSE_MERGES,
    COURSE_VOCAB,
    END,
    FRAGMENTS,
    TRAINING_TEXT,
    data_file,
    trained,
)


def test_the_example_of_the_course_is_encoded():
    assert encode_text("the cat ate", COURSE_VOCAB, COURSE_MERGES) == [9, 7, 1, 5, 10, 3]


def test_the_longest_special_token_is_cut_out_first():
    vocab = {**COURSE_VOCAB, 11: b"tt", 12: b"tta"}
    ids = encode_text("ttattec", vocab, COURSE_MERGES, ["tt", "tta"])
    assert ids == [12, 11, 3, 2]


def test_merges_in_order_give_the_same_tokens_in_a_trained_vocabulary():
    vocab, merges = trained()
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    for word in {*TRAINING_TEXT.split(" "), "aaaaaaaa", "hahahaha", " \n\r\t.", ""}:
        expected = merge_pretoken(word.encode(), ranks)
        assert merge_pretoken_in_order(word.encode(), merges) == expected
        assert set(expected) <= set(vocab.values())
    # In an edited vocabulary, (ab, c) may precede (a, b), the merge that produces its left token.
    edited = [(b"ab", b"c"), (b"a", b"b")]
    assert merge_pretoken_in_order(b"abc", edited) == [b"ab", b"c"]
    assert merge_pretoken(b"abc", {pair: rank for rank, pair in enumerate(edited)}) == [b"abc"]


tiktoken = pytest.importorskip("tiktoken")

tokenizers = pytest.importorskip("tokenizers")

ALL_CHARACTERS = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def matched_by_tiktoken(pattern: str) -> set[str]:
    # If the tokens are single bytes, the ids are the UTF-8 bytes of all matches. Other text is
    # dropped.
    ranks = {bytes([byte]): byte for byte in range(256)}
    encoding = tiktoken.Encoding("", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return set(bytes(encoding.encode_ordinary(ALL_CHARACTERS)).decode())


def matched_by_tokenizers(pattern: str) -> set[str]:
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
    found: set[str] = set()
    for start in range(0, len(ALL_CHARACTERS), 4096):  # the time grows faster than the length
        words = split.pre_tokenize_str(ALL_CHARACTERS[start : start + 4096])
        found.update(*(word for word, _ in words))
    return found


@functools.cache
def classed_differently() -> frozenset[str]:
    different: set[str] = set()
    for pattern in (r"\p{L}+", r"\p{M}+", r"\p{N}+", r"\s+"):
        ours = set("".join(regex.findall(pattern, ALL_CHARACTERS)))
        different |= ours ^ matched_by_tiktoken(pattern)
        different |= ours ^ matched_by_tokenizers(pattern)
    return frozenset(different)


@dataclass(frozen=True)
class Peers:
    """One vocabulary in each of our backends, in tiktoken and in tokenizers."""

    ours: dict[str, Tokenizer]
    tiktoken: Any
    tokenizers: Any

    def assert_agreement(self, text: str) -> None:
        ids = self.tiktoken.encode(text, allowed_special="all")
        assert self.tokenizers.encode(text).ids == ids
        for backend, tokenizer in self.ours.items():
            assert tokenizer.encode(text) == ids, backend
            assert tokenizer.decode(ids) == text, backend


def make_peers(vocab: dict[int, bytes], merges: list[tuple[bytes, bytes]], pattern: str) -> Peers:
    ours = {
        backend: Tokenizer(vocab, merges, [END], pattern=pattern, backend=backend)
        for backend in BACKENDS
        if backend != "native" or find_spec("cs336_basics.tokenizer.encoders._encoder")
    }
    end_id = ours["python"].special_token_id(END)
    encoding = tiktoken.Encoding(
        "ours",
        pat_str=PATTERNS[pattern],
        mergeable_ranks={token: i for i, token in vocab.items() if i != end_id},
        special_tokens={END: end_id},
    )
    model = tokenizers.models.BPE(
        {token_to_string(token): i for i, token in vocab.items()},
        [tuple(map(token_to_string, merge)) for merge in merges],
    )
    tokenizer = tokenizers.Tokenizer(model)
    # In tokenizers' regular expressions, `$` also matches before a line feed.
    expression = tokenizers.Regex(PATTERNS[pattern].replace("$", r"\z"))
    split = tokenizers.pre_tokenizers.Split(expression, "isolated")
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, byte_level])
    tokenizer.add_special_tokens([tokenizers.AddedToken(END, normalized=False)])
    return Peers(ours, encoding, tokenizer)


@functools.cache
def training_text() -> str:
    stories = END.join(itertools.islice(sample_documents(), 150))
    return END.join([stories, *TEXTS.values(), long_text(1, 60_000)])


@pytest.fixture(scope="module", params=["gpt2", "cl100k", "the files of GPT-2"])
def peers(request, tmp_path_factory):
    """Return `gpt2_peers`, or a vocabulary trained with a split pattern, in all libraries."""
    if request.param == "the files of GPT-2":
        return request.getfixturevalue("gpt2_peers")
    directory = tmp_path_factory.mktemp(request.param)
    text = directory / "text.txt"
    text.write_text(training_text(), encoding="utf-8", newline="")
    vocab, merges = train_bpe(text, 1500, [END], num_workers=1, pattern=request.param)
    return make_peers(vocab, merges, request.param)


@pytest.fixture(scope="module")
def gpt2_peers():
    """Return GPT-2's vocabulary in all libraries. This project does not include its files."""
    vocab = load_vocab(data_file("gpt2_vocab.json"))
    merges = load_merges(data_file("gpt2_merges.txt"))
    return make_peers(vocab, merges, "gpt2")


def without_differences(text: str) -> str:
    return "".join(character for character in text if character not in classed_differently())


@functools.cache
def characters_without_differences() -> str:
    return without_differences(ALL_CHARACTERS)


def test_only_characters_of_late_unicode_versions_are_classed_differently():
    categories = {unicodedata.category(character) for character in classed_differently()}
    if unicodedata.unidata_version.startswith("14."):
        assert categories <= {"Cn"}
    assert all(unicodedata.ucd_3_2_0.category(c) == "Cn" for c in classed_differently())
    assert len(classed_differently()) < 30_000


# Arbitrary characters, mixed with fragments that the patterns treat differently.
agreed = st.characters(exclude_categories=["Cs"]).filter(lambda c: c not in classed_differently())

random_texts = st.lists(
    st.text(agreed, max_size=8) | st.sampled_from([*FRAGMENTS, " Hello", "'re", "1234", "    "]),
    max_size=25,
).map("".join)

CHOSEN_TEXTS = [
    "",
    "Hello, how are you?",
    f"Hello{END} world {END}{END}\n{END}",
    "I'll can't WE'LL it's 's'd 've'",
    "  leading, trailing  ",
    "\n\n\n \t \r\n a\n b\r\rc \u00a0\u3000d",
    "a" * 1000,
    " " * 1000,
    "\n" * 1000 + "x",
    "héllò 🙃 猫 👩‍👩‍👧 x²½Ⅷ",
    "\x00\x01\x7f\ufffd\ufeff",
]


@given(text=random_texts)
@settings(max_examples=150, deadline=None)
def test_random_texts_get_the_ids_of_tiktoken_and_tokenizers(peers, text):
    peers.assert_agreement(text)


@pytest.mark.parametrize("text", [*CHOSEN_TEXTS, *TEXTS.values()])
def test_chosen_texts_get_the_ids_of_tiktoken_and_tokenizers(peers, text):
    peers.assert_agreement(without_differences(text))


@pytest.mark.parametrize("seed", range(3))
def test_long_mixed_texts_get_the_ids_of_tiktoken_and_tokenizers(peers, seed):
    peers.assert_agreement(without_differences(long_text(seed, 10_000)))


def test_a_batch_and_an_array_get_the_ids_of_tiktoken(peers):
    texts = [without_differences(text) for text in TEXTS.values()]
    expected = peers.tiktoken.encode_batch(texts, allowed_special="all")
    for tokenizer in peers.ours.values():
        assert tokenizer.encode_batch(texts) == expected
        assert [tokenizer.encode_array(text).tolist() for text in texts] == expected


def slices(name, number, size):
    """Yield random parts of a real text without the characters that libraries treat differently."""
    chooser = random.Random(name)
    path = data_file(f"{name}.txt")
    with open(path, "rb") as file:
        for _ in range(number):
            file.seek(chooser.randrange(path.stat().st_size))
            yield without_differences(file.read(size).decode("utf-8", errors="replace"))


@pytest.mark.parametrize("name", CORPORA)
def test_slices_of_real_text_get_the_ids_of_gpt2(gpt2_peers, name):
    for text in slices(name, 3, 30_000):
        gpt2_peers.assert_agreement(text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_random_texts_get_the_ids_of_gpt2(gpt2_peers, seed):
    chooser = random.Random(seed)
    anywhere = characters_without_differences()
    fragments = [without_differences(f) for f in FRAGMENTS]
    fragments += [" Hello", "'re", "1234", "    ", " the", "ing"]
    for _ in range(20_000):
        text = [
            chooser.choice(fragments) if chooser.random() < 0.8 else chooser.choice(anywhere)
            for _ in range(chooser.randint(1, 25))
        ]
        gpt2_peers.assert_agreement("".join(text))


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_real_text_gets_the_ids_of_tiktoken(gpt2_peers, name):
    text = without_differences(data_file(f"{name}.txt").read_bytes().decode("utf-8", "replace"))
    ours = gpt2_peers.ours["native"]
    ids = ours.encode_array(text, num_workers=2)
    expected = gpt2_peers.tiktoken.encode_to_numpy(text, allowed_special="all")
    # The arrays are too large for pytest to show in a failed assertion.
    assert (len(ids), bool((ids == expected).all())) == (len(expected), True)
    assert ours.decode_bytes(ids) == text.encode()


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_real_text_gets_the_ids_of_tokenizers(gpt2_peers, name):
    with open(data_file(f"{name}.txt"), "rb") as file:
        text = file.read(4_000_000).decode("utf-8", errors="replace")
    text = without_differences(text)
    same = gpt2_peers.ours["native"].encode(text) == gpt2_peers.tokenizers.encode(text).ids
    assert same
