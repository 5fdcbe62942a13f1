"""Vocabularies, texts and strategies that several test files here use."""

from __future__ import annotations

import functools
import itertools
import os
import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from cs336_basics._support.text import END_OF_TEXT as END
from cs336_basics.bpe import train_bpe
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.reference import encode_text

DATA = os.environ.get("CS336_DATA")

_REAL_TEXTS = [
    "tinystories_valid", "owt_sample", "rfc", "code_python", "code_c_js", "docs_linux_rst",
    "tinystories_ru", "multi_zh_wiki", "multi_ja_aozora", "multi_ar_openiti", "multi_es_wiki",
    "multi_emoji", "multi_misc", "blogs", "enwiki", "c4_sample", "fairytales",
]  # fmt: skip

# The files of real text that CS336_DATA holds, without .txt; tests of them have tests of our own
# texts next to them.
CORPORA = [name for name in _REAL_TEXTS if DATA and Path(DATA, f"{name}.txt").is_file()] or [
    pytest.param("none", marks=pytest.mark.skip(reason="needs real text, .txt, in CS336_DATA"))
]

# The example of the course.
COURSE_VOCAB = {
    0: b" ", 1: b"a", 2: b"c", 3: b"e", 4: b"h", 5: b"t",
    6: b"th", 7: b" c", 8: b" a", 9: b"the", 10: b" at",
}  # fmt: skip
COURSE_MERGES = [(b"t", b"h"), (b" ", b"c"), (b" ", b"a"), (b"th", b"e"), (b" a", b"t")]

BYTES = {byte: bytes([byte]) for byte in range(256)}

TRAINING_TEXT = (
    "It's the cat that ate the rat. They'll say: \"we've seen 1234 cats!\"  \n\n\tNothing else.\r\n"
    "Über naïve Käse, déjà vu; Ёлка и ёжик; 猫は鼠を食べた。 🎉🎉🎉 👩‍👩‍👧 ...   ---   ===\n"
    "the theatre then gathers others; 100 1000 10000; aaaa aaaaaaaa; hahaha hahahaha\n"
) * 3

# Difficult for tokenizers: white space of every kind next to everything else, apostrophes, complete
# and broken special tokens, characters of every length in UTF-8.
SPECIALS = [END, END + END, "<|", "a b", "\n\n", "é"]
FRAGMENTS = [
    *" \n\t\r\u00a0\u3000\u2028\u0085\u200b",
    *"abtheAZ019'.,!?-_<|>\x00\ufeff\ufffd",
    *"éßñЖ猫かक\u0301½Ⅷ²🎉👩\u200d\U0010ffff",
    "'s", "'ll", "'LL", " the", "  ", "\r\n", "endoftext", "<|endof", "aaaa", *SPECIALS,
]  # fmt: skip

TELLTALES = [bytes([byte]) for byte in sorted(set(" \n\r\t.!'<|>a1\u00a0\u3000".encode()))]

tricky_texts = st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join)


@functools.cache
def trained(pattern: str = "gpt2") -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Return a vocabulary trained on TRAINING_TEXT, with merges that show where text was split.

    A trained vocabulary has few merges of white space and punctuation, so that a wrong split
    between them would give the right ids. Here any two bytes of TELLTALES merge.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "text.txt")
        path.write_text(TRAINING_TEXT, encoding="utf-8", newline="")
        with warnings.catch_warnings():
            # A pattern without a scanner is slow, and a warning says so.
            warnings.simplefilter("ignore")
            vocab, merges = train_bpe(path, 340, [], trainer="heap", num_workers=1, pattern=pattern)
    tokens = set(vocab.values())
    for left, right in itertools.product(TELLTALES, repeat=2):
        if left + right not in tokens:
            vocab[len(vocab)] = left + right
            merges.append((left, right))
    return vocab, merges


def small_tokenizer(
    special_tokens: tuple[str, ...] = (END,), pattern: str = "gpt2", **options: Any
) -> Tokenizer:
    """Return a tokenizer with the vocabulary of `trained`; `options` are passed on to it."""
    return Tokenizer(*trained(pattern), list(special_tokens), pattern=pattern, **options)


def reference_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of a text by the reference functions, which share nothing with encoders."""
    return encode_text(
        text, tokenizer.vocab, tokenizer.merges, tokenizer.special_tokens, tokenizer.pattern
    )


def skip_unless_available(backend: str) -> str:
    """Return the backend, or skip the test where the extensions are not built."""
    if backend == "native":
        pytest.importorskip(
            "cs336_basics.tokenizer.encoders._encoder", reason="extensions are not built"
        )
    return backend


def edited_merges(seed: int) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Return a vocabulary that no trainer makes: merges over a, b, c in any order, ids shuffled.

    A merge may come before those that make its tokens, and several merges may make one token.
    """
    chooser = random.Random(seed)
    tokens = [b"a", b"b", b"c"]
    merges: list[tuple[bytes, bytes]] = []
    for _ in range(chooser.randint(1, 25)):
        pair = chooser.choice(tokens), chooser.choice(tokens)
        if pair not in merges and len(pair[0] + pair[1]) <= 8:
            merges.append(pair)
            if pair[0] + pair[1] not in tokens:
                tokens.append(pair[0] + pair[1])
    chooser.shuffle(merges)
    ids = chooser.sample(range(1000), len(tokens))
    return dict(zip(ids, tokens, strict=True)), merges


def data_file(name: str) -> Path:
    """Return a file of CS336_DATA, or skip the test where it is not there."""
    if not DATA:
        pytest.skip(f"needs {name}: set CS336_DATA to the directory that holds it")
    path = Path(DATA, name)
    if not path.is_file():
        pytest.skip(f"needs {name}, which is not in CS336_DATA ({DATA})")
    return path
