"""Vocabularies, texts and strategies shared by the tests in this folder."""

from __future__ import annotations

import functools
import itertools
import os
import random
import tempfile
import warnings
from collections.abc import Iterable
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

# The names, without .txt, of real texts in CS336_DATA. If these files are missing, the tests that
# use them are skipped. Other tests cover the same behavior with synthetic texts.
CORPORA = [name for name in _REAL_TEXTS if DATA and Path(DATA, f"{name}.txt").is_file()] or [
    pytest.param("none", marks=pytest.mark.skip(reason="needs real texts (*.txt) in CS336_DATA"))
]

# The example from the course.
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

# Fragments that are difficult for tokenizers: all kinds of whitespace, apostrophes, complete and
# broken special tokens, and characters of every UTF-8 length.
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
    """Return a vocabulary, trained on TRAINING_TEXT, where any two bytes of TELLTALES merge.

    Trained vocabularies have few merges of whitespace and punctuation, so splitting these in the
    wrong place would not change the ids. The additional merges reveal wrong splits.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "text.txt")
        path.write_text(TRAINING_TEXT, encoding="utf-8", newline="")
        with warnings.catch_warnings():
            # Patterns that the scanner does not support are slow and cause a warning.
            warnings.simplefilter("ignore")
            vocab, merges = train_bpe(path, 340, [], trainer="heap", num_workers=1, pattern=pattern)
    tokens = set(vocab.values())
    for left, right in itertools.product(TELLTALES, repeat=2):
        if left + right not in tokens:
            vocab[len(vocab)] = left + right
            merges.append((left, right))
    return vocab, merges


def with_all_bytes(vocab: dict[int, bytes]) -> dict[int, bytes]:
    """Return a vocabulary that also has every byte, as the native backend requires."""
    missing = sorted(set(BYTES.values()).difference(vocab.values()))
    return {**vocab, **dict(enumerate(missing, max(vocab) + 1))}


def byte_tokenizer(
    *special_tokens: str, merges: Iterable[tuple[bytes, bytes]] = (), **options: Any
) -> Tokenizer:
    """Return a tokenizer with the 256 bytes, followed by merged tokens and special tokens."""
    vocab = dict(BYTES)
    for left, right in merges:
        vocab[len(vocab)] = left + right
    return Tokenizer(vocab, list(merges), list(special_tokens), **options)


def small_tokenizer(
    special_tokens: tuple[str, ...] = (END,), pattern: str = "gpt2", **options: Any
) -> Tokenizer:
    """Return a tokenizer with the vocabulary from `trained`."""
    return Tokenizer(*trained(pattern), list(special_tokens), pattern=pattern, **options)


def reference_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return a text's ids, computed by the reference functions, which do not use an encoder."""
    arguments = tokenizer.definition.arguments()
    del arguments["post_processor"], arguments["length_settings"]  # `encode` does not apply them
    return encode_text(text, **arguments)


def skip_unless_available(backend: str) -> str:
    """Return the backend, or skip the test if it needs extensions that are not built."""
    if backend == "native":
        pytest.importorskip(
            "cs336_basics.tokenizer.encoders._encoder", reason="extensions are not built"
        )
    return backend


def edited_merges(seed: int) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Return a vocabulary with random ids, and random merges of the letters a, b and c.

    Unlike in a trained vocabulary, a merge may precede the merges that produce its tokens, and
    several merges may produce the same token.
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
    return with_all_bytes(dict(zip(ids, tokens, strict=True))), merges


def data_file(name: str) -> Path:
    """Return the path to a file in CS336_DATA, or skip the test if the file is missing."""
    if not DATA:
        pytest.skip(f"needs {name}: set CS336_DATA to its directory")
    path = Path(DATA, name)
    if not path.is_file():
        pytest.skip(f"needs {name}, which is not in CS336_DATA ({DATA})")
    return path
