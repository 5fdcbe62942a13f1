"""GPT-2's vocabulary: the same ids as tiktoken and as Hugging Face's tokenizers.

The three split alike, but not with the same Unicode tables: what was assigned a letter or a number
lately is one for `regex` and not yet for the other two. So the comparison leaves out the characters
that they class differently, which are found by asking each of them, and not assumed: a character is
left out if, and only if, `\\p{L}`, `\\p{N}` or `\\s` matches it for one and not for another. The
first test asserts what these are: characters that Unicode 14 (2021) had not assigned.
"""

from __future__ import annotations

import functools
import random
import unicodedata

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.pretokenization import PATTERNS
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.vocab_files import load_vocab
from tests.tokenizer.examples import CORPORA, END, FRAGMENTS, data_file

tiktoken = pytest.importorskip("tiktoken")
tokenizers = pytest.importorskip("tokenizers")

ALL_CHARACTERS = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def matched_by_tiktoken(pattern: str) -> set[str]:
    # With bytes for tokens, the ids are the UTF-8 of what the pattern matches; the rest is dropped.
    ranks = {bytes([byte]): byte for byte in range(256)}
    encoding = tiktoken.Encoding("", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return set(bytes(encoding.encode_ordinary(ALL_CHARACTERS)).decode())


def matched_by_tokenizers(pattern: str) -> set[str]:
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
    return {character for word, _ in split.pre_tokenize_str(ALL_CHARACTERS) for character in word}


@functools.cache
def classed_differently() -> frozenset[str]:
    different: set[str] = set()
    for pattern in (r"\p{L}", r"\p{N}", r"\s"):
        ours = set(regex.findall(pattern, ALL_CHARACTERS))
        different |= ours ^ matched_by_tiktoken(pattern)
        different |= ours ^ matched_by_tokenizers(pattern)
    return frozenset(different)


@functools.cache
def ours() -> Tokenizer:
    vocab, merges = data_file("gpt2_vocab.json"), data_file("gpt2_merges.txt")
    return Tokenizer.from_files(vocab, merges, [END])


@functools.cache
def tiktokens():
    ranks = {token: i for i, token in load_vocab(data_file("gpt2_vocab.json")).items()}
    special_tokens = {END: ranks.pop(END.encode())}
    return tiktoken.Encoding(
        "gpt2", pat_str=PATTERNS["gpt2"], mergeable_ranks=ranks, special_tokens=special_tokens
    )


@functools.cache
def hugging_faces():
    model = tokenizers.models.BPE.from_file(
        str(data_file("gpt2_vocab.json")), str(data_file("gpt2_merges.txt"))
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([tokenizers.AddedToken(END, normalized=False)])
    return tokenizer


def assert_agreement(text: str) -> None:
    ids = ours().encode(text)
    assert ids == tiktokens().encode(text, allowed_special="all")
    assert ids == hugging_faces().encode(text).ids
    assert ours().decode(ids) == text


def without_differences(text: str) -> str:
    return "".join(character for character in text if character not in classed_differently())


def test_only_characters_of_late_unicode_versions_are_classed_differently():
    categories = {unicodedata.category(character) for character in classed_differently()}
    if unicodedata.unidata_version.startswith("14."):
        assert categories <= {"Cn"}
    assert all(unicodedata.ucd_3_2_0.category(c) == "Cn" for c in classed_differently())
    assert len(classed_differently()) < 30_000


# Any character, and often those that matter to the pattern.
agreed = st.characters(exclude_categories=["Cs"]).filter(lambda c: c not in classed_differently())
texts = st.lists(
    st.text(agreed, max_size=8) | st.sampled_from([*FRAGMENTS, " Hello", "'re", "1234", "    "]),
    max_size=25,
).map("".join)


@given(text=texts)
@settings(max_examples=300, deadline=None)
def test_random_texts_get_the_ids_of_tiktoken_and_tokenizers(text):
    assert_agreement(text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_random_texts_get_the_ids_of_tiktoken_and_tokenizers(seed):
    chooser = random.Random(seed)
    anywhere = without_differences(ALL_CHARACTERS)
    fragments = [without_differences(f) for f in FRAGMENTS]
    fragments += [" Hello", "'re", "1234", "    ", " the", "ing"]
    for _ in range(20_000):
        pieces = [
            chooser.choice(fragments) if chooser.random() < 0.8 else chooser.choice(anywhere)
            for _ in range(chooser.randint(1, 25))
        ]
        assert_agreement("".join(pieces))


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_chosen_texts_get_the_ids_of_tiktoken_and_tokenizers(text):
    assert_agreement(text)


@pytest.mark.parametrize("name", CORPORA)
def test_slices_of_real_text_get_the_ids_of_tiktoken_and_tokenizers(name):
    chooser = random.Random(name)
    path = data_file(f"{name}.txt")
    with open(path, "rb") as file:
        for _ in range(3):
            file.seek(chooser.randrange(path.stat().st_size))
            text = file.read(30_000).decode("utf-8", errors="replace")
            assert_agreement(without_differences(text))


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_real_text_gets_the_ids_of_tiktoken(name):
    text = without_differences(data_file(f"{name}.txt").read_bytes().decode("utf-8", "replace"))
    ids = ours().encode_array(text, num_workers=2)
    expected = tiktokens().encode_to_numpy(text, allowed_special="all")
    # (Not left to pytest to explain: the arrays are large.)
    assert (len(ids), bool((ids == expected).all())) == (len(expected), True)
    assert ours().decode_bytes(ids) == text.encode()


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_real_text_gets_the_ids_of_tokenizers(name):
    with open(data_file(f"{name}.txt"), "rb") as file:
        text = file.read(4_000_000).decode("utf-8", errors="replace")
    text = without_differences(text)
    same = ours().encode(text) == hugging_faces().encode(text).ids
    assert same
