"""min_frequency, max_token_length and tie_break, compared with other libraries."""

import json
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics import TRAINERS
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.bpe.rules import huggingface_byte_ranks
from cs336_basics.counting import count_text, count_texts, count_words
from cs336_basics.data.datasets import write_sample
from cs336_basics.splitting import Splitter
from tests.bpe.trainers import EOT, byte_characters, every_trainer, train
from tests.errors import rejects
from tests.texts import long_text

FAST = ("heap", "memoryview", "native")


@every_trainer
def test_limits_may_be_the_largest_64_bit_integer(name):
    counts = {b"abcdefgh": 3, b"aaaaaaaa": 2}
    assert train(name, counts, 9, min_frequency=2**63 - 1)[1] == []
    assert train(name, counts, 30, max_token_length=2**63 - 1) == train(name, counts, 30)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"min_frequency": -1}, InputError),
        ({"min_frequency": 1.5}, InputTypeError),
        ({"min_frequency": None}, InputTypeError),
        ({"max_token_length": 0}, InputError),
        ({"max_token_length": True}, InputTypeError),
        ({"max_token_length": 2**63}, InputError),
        ({"tie_break": "random"}, InputError),
        ({"num_workers": "many"}, InputTypeError),
        ({"num_workers": -1}, InputError),
        ({"trace": 5}, InputTypeError),
        ({"continue_from": 5}, InputTypeError),
        ({"splitting": "rgex"}, InputError),
    ],
)
def test_invalid_options_are_rejected(options, error):
    ((argument, value),) = options.items()
    for trainer in TRAINERS.values():
        with rejects(argument, value, kind=error):
            trainer(**options)


def test_an_invalid_pattern_and_an_unknown_option_are_rejected():
    for trainer in TRAINERS.values():
        with rejects("pattern", "'('"):
            trainer(pattern="(")
        with pytest.raises(TypeError):
            trainer(field="text")


def test_huggingface_byte_ranks_follow_the_alphabet():
    characters = byte_characters()
    order = sorted(range(256), key=characters.get)
    assert [huggingface_byte_ranks()[byte] for byte in order] == list(range(256))


# --- agreement with other libraries -------------------------------------------------------------


def huggingface_merges(texts, num_merges, *, special_tokens=(EOT,), **options):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False, use_regex=True)
    options = {"initial_alphabet": byte_level.alphabet(), **options}
    alphabet = len(options["initial_alphabet"] or set("".join(texts).encode()))
    tokenizer.train_from_iterator(
        texts,
        tokenizers.trainers.BpeTrainer(
            vocab_size=alphabet + len(special_tokens) + num_merges,
            special_tokens=list(special_tokens),
            show_progress=False,
            **options,
        ),
    )
    byte_of = {character: byte for byte, character in byte_characters().items()}
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(bytes(byte_of[c] for c in token) for token in pair) for pair in merges]


@given(
    text=st.text(st.sampled_from("aab  c\n'sé好0"), max_size=150),
    min_frequency=st.integers(0, 3),
    max_token_length=st.none() | st.integers(2, 8),
)
def test_equals_tokenizers_on_tie_heavy_text(text, min_frequency, max_token_length):
    # With a limit of n, tokens in `tokenizers` have at most n - 1 characters, but two bytes can
    # always be merged.
    its_limit = None if max_token_length is None else max_token_length + 1
    expected = huggingface_merges(
        [text], 60, min_frequency=min_frequency, max_token_length=its_limit
    )
    for name in TRAINERS:
        merges = train(
            name,
            count_text(text),
            60,
            tie_break="huggingface",
            min_frequency=min_frequency,
            max_token_length=max_token_length,
        )[1]
        assert merges == expected, name


CORPORA = Path(os.environ.get("CS336_DATA", "/nonexistent"))
MEGABYTES = {
    "blogs": 10,
    "code_python": 6,
    "multi_ar_openiti": 4,
    "multi_emoji": 2,
    "multi_ja_aozora": 4,
    "multi_misc": 4,
    "multi_zh_wiki": 4,
    "tinystories_ru": 6,
}


@cache
def documents_and_counts(kind):
    """Return generated documents, or 40 MB of text in many languages, and their word counts."""
    # The libraries disagree on letters added in recent Unicode versions. `long_text` has none.
    texts = long_text(2, 60_000).split(EOT) if kind == "generated" else []
    for name, megabytes in MEGABYTES.items() if kind == "many languages" else ():
        with open(CORPORA / f"{name}.txt", "rb") as file:
            text = file.read(megabytes * 1_000_000).decode("utf-8", "replace")
        texts += text.split(EOT)
    return texts, dict(count_texts(texts))


THREE = [EOT, "<|pad|>", "<|user|>"]

many_languages = pytest.param(
    "many languages",
    32_000,
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(
            not all((CORPORA / f"{name}.txt").exists() for name in MEGABYTES),
            reason=f"CS336_DATA does not name a directory with {', '.join(MEGABYTES)}",
        ),
    ],
)


@pytest.mark.parametrize(("kind", "num_merges"), [("generated", 1500), many_languages])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"min_frequency": 5}, {"min_frequency": 5}),
        ({"min_frequency": 500}, {"min_frequency": 500}),
        ({"max_token_length": 5}, {"max_token_length": 6}),
        # Without an initial alphabet, `tokenizers` uses the bytes that occur in the text, in the
        # same order.
        ({}, {"initial_alphabet": []}),
        # In `tokenizers`, the special tokens get the first ids, before the bytes.
        ({"special_tokens": THREE}, {"special_tokens": THREE}),
    ],
    ids=repr,
)
def test_equals_tokenizers_on_many_texts(kind, num_merges, ours, theirs):
    texts, word_counts = documents_and_counts(kind)
    expected = huggingface_merges(texts, num_merges, **theirs)
    for name in FAST if kind == "generated" else ("memoryview", "native"):
        merges = train(name, word_counts, num_merges, tie_break="huggingface", **ours)[1]
        # pytest would take hours to show the difference between the lists.
        assert len(merges) == len(expected)
        different = [i for i, pair in enumerate(merges) if pair != expected[i]]
        assert not different, (different[:5], merges[different[0]], expected[different[0]])


def test_equals_ffbpe(tmp_path):
    ffbpe = pytest.importorskip("ffbpe", reason="ffbpe is not installed: pip install ffbpe")
    path = tmp_path / "sample.txt"
    write_sample(path, 300_000)
    counts = count_words(path, Splitter(special_tokens=[EOT]))
    peer = ffbpe.BpeTrainer([EOT], unit="byte", tie_break="largest_content")
    peer.add_words({word.decode(): count for word, count in counts.items()})
    peer.train(2257)
    tokens = sorted(peer.vocab, key=peer.vocab.get)
    expected = [token for token in tokens if len(token) > 1 and token != EOT.encode()]
    for name in FAST:
        merges = TRAINERS[name]().train_from_counts(counts, 2257, [EOT])[1]
        assert [left + right for left, right in merges] == expected, name
