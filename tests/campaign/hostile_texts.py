"""Shapes of hostile texts, and what the row `time-of-hostile-texts` does with them.

python -m tests.campaign.hostile_texts "encode, dropout" emoji 100000 1000000
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cs336_basics import Tokenizer
from cs336_basics.bpe import get_trainer
from cs336_basics.counting import count_texts
from cs336_basics.splitting import Splitter, pretokenize
from cs336_basics.splitting.patterns.superwords import pattern_of_superwords
from cs336_basics.text.normalization import changed_runs
from cs336_basics.tokenizer import Dropout, encode_file
from cs336_basics.tokenizer.added_tokens import AddedToken
from cs336_basics.tokenizer.editing.prune import prune
from cs336_basics.tokenizer.streaming.streaming_decoder import StreamingDecoder
from cs336_basics.tokenizer.text_parts import parts_of
from tests.bpe.trainers import train
from tests.tokenizer.examples import END, TRAINING_TEXT, trained

MARKS = "\u0301\u0323\u0327\u0338\u0345\u05b0\u093c\u1dce"


def _of(unit: str) -> Callable[[int], str]:
    return lambda n: unit * (n // len(unit))


def _random(characters: str) -> Callable[[int], str]:
    codes = np.array(list(map(ord, characters)), "<u4")
    return lambda n: np.random.default_rng(1).choice(codes, n).tobytes().decode("utf-32-le")


def _fibonacci(length: int) -> str:
    """Return a word with many repetitions, but without any part four times in a row."""
    one, two = "a", "ab"
    while len(two) < length:
        one, two = two, two + one
    return two[:length]


SHAPES: dict[str, Callable[[int], str]] = {
    "one letter": _of("a"),
    "blanks": _of(" "),
    "line breaks": _of("\n"),
    "carriage returns": _of("\r"),
    "blank lines": _of(" \n"),
    "NULs": _of("\0"),
    "ab": _of("ab"),
    "aA": _of("aA"),
    "a b": _of("a b"),
    "one letter, then another": lambda n: "a" * (n - 1) + "b",
    "blanks, then a letter": lambda n: " " * (n - 1) + "x",
    "Fibonacci word": _fibonacci,
    "random letters": _random("ab"),
    "random Chinese": _random("".join(map(chr, range(0x4E00, 0x9FFF)))),
    "digits": _of("1234567890"),
    "emoji": _of("👩\u200d👩\u200d👧"),
    "joiners": _of("\u200d"),
    "combining marks": lambda n: "e" + "\u0301\u0323" * (n // 2),
    "unsorted marks": lambda n: "e" + "\u0301" * (n // 2) + "\u0323" * (n // 2),
    "random marks": lambda n: "e" + _random(MARKS)(n - 1),
    "long decompositions": _of("\ufdfa"),
    "Hangul jamo": _of("\u1100\u1161\u11a8"),
    "Devanagari": _of("\u0915\u094d"),
    "distinct words": lambda n: " ".join(f"{i * 2654435761 % 2**32:x}" for i in range(n // 9)),
    "special tokens": _of("<|endoftext|>"),
    "starts of special tokens": _of("<|endoftext|"),
    "starts of added tokens": _of("<m"),
    "apostrophes": _of("'s'"),
    "quotes": _of("\"'"),
    "Chinese": _of("猫は鼠"),
}

PATTERNS = ["gpt2", "o200k", r"\s*\n|.", r"(?:ab)+c|a*b|.|\s", r"(?:a|b)*c|\w|\W", r"(?<!\s)\s+|."]
"""The last one cannot be compiled."""


def _added() -> list[AddedToken | str]:
    flags = [
        AddedToken("<m>", special=False, lstrip=True),
        AddedToken("  ", rstrip=True),
        AddedToken("a", single_word=True),
        AddedToken("\n", lstrip=True, rstrip=True),
        AddedToken("<mm>", normalized=True),
        AddedToken("e\u0301", normalized=True),
        END,
    ]
    return [*flags, *("a" * k for k in range(2, 400)), *("ab" * k + "c" for k in range(1, 100))]


@functools.cache
def _tokenizer(kind: str = "") -> Tokenizer:
    if kind == "superwords":
        trainer = get_trainer("native")(superwords_from=300)
        vocab, merges = trainer.train_from_iterator([TRAINING_TEXT], 330, [END])
        return Tokenizer(vocab, merges, [END], pattern=pattern_of_superwords("gpt2"))
    if kind == "added":
        return Tokenizer(*trained(), _added(), normalizer="NFC")
    if kind == "python":
        return Tokenizer(*trained(), [END], backend="python")
    return Tokenizer(*trained(), [END], normalizer=kind or None)


def _decode_in_steps(text: str) -> None:
    decoder = StreamingDecoder(_tokenizer())
    for token_id in _tokenizer().encode(text):
        decoder.push(token_id)
    decoder.finish()


def _encode_file(text: str) -> None:
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        source = Path(folder, "text.txt")
        source.write_text(text, encoding="utf-8", newline="")
        encode_file(_tokenizer("NFC"), source, Path(folder, "ids.npy"), num_workers=1)


def _train(name: str) -> Callable[[str], object]:
    return lambda text: train(name, {text.encode(): 1, text[1:].encode(): 2}, 50)


def _train_superwords(text: str) -> None:
    get_trainer("native")(superwords_from=290).train_from_iterator([text], 320, [END])


def _parity(text: str) -> None:
    parts = [f"a {half}" for half in (text[: len(text) // 2], text[len(text) // 2 :])]
    counts = [count_texts([part], Splitter("gpt2", [END])) for part in parts]
    get_trainer("native")().train_parity_from_counts(counts, 290, [END], dev=counts)


WORKS: dict[str, Callable[[str], object]] = {
    **{
        f"split by {pattern}": lambda text, pattern=pattern: sum(
            1 for _ in pretokenize(text, pattern)
        )
        for pattern in PATTERNS
    },
    "encode": lambda text: _tokenizer().encode_array(text),
    "encode in Python": lambda text: _tokenizer("python").encode(text),
    "encode, NFC": lambda text: _tokenizer("NFC").encode_array(text),
    "encode, NFKD": lambda text: _tokenizer("NFKD").encode_array(text),
    "encode, added tokens": lambda text: _tokenizer("added").encode_array(text),
    "encode, superwords": lambda text: _tokenizer("superwords").encode_array(text),
    "encode, dropout": lambda text: _tokenizer().encode_batch_array([text], dropout=Dropout(0.1)),
    "encode with offsets, NFC": lambda text: _tokenizer("NFC").encode_with_offsets(text),
    "encode characters": lambda text: sum(1 for _ in _tokenizer("NFC").encode_iterable(text)),
    "encode characters, added tokens": lambda text: sum(
        1 for _ in _tokenizer("added").encode_iterable(text)
    ),
    "encode invalid bytes": lambda text: _tokenizer().encode_array(text.encode()[::-1] + b"\xe7"),
    "encode a file, NFC": _encode_file,
    "parts of the text, NFC": lambda text: parts_of(_tokenizer("NFC"), text),
    "changes of NFKD": lambda text: changed_runs(text, "NFKD"),
    "decode": lambda text: _tokenizer().decode(_tokenizer().encode(text)),
    "decode in steps": _decode_in_steps,
    "count": lambda text: count_texts([text], Splitter("gpt2", [END])),
    "count, NFKC": lambda text: count_texts([text], Splitter("gpt2", [END], "NFKC")),
    "train": _train("native"),
    "train heap": _train("heap"),
    "train memoryview": _train("memoryview"),
    "train superwords": _train_superwords,
    "train for parity": _parity,
    "prune": lambda text: prune(_tokenizer(), 320, {text.encode(): 1}),
}


if __name__ == "__main__":  # callgrind counts the instructions of each length
    WORKS[sys.argv[1]]("ab")  # trains tokenizers
    for length in map(int, sys.argv[3:]):
        child = os.fork()
        if not child:
            WORKS[sys.argv[1]](SHAPES[sys.argv[2]](length))
            os._exit(0)
        print(child, flush=True)
        assert os.waitpid(child, 0)[1] == 0
