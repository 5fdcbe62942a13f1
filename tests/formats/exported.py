"""Tokenizers and texts for testing exports."""

from __future__ import annotations

import functools
import random
import re
import tempfile
import warnings
from pathlib import Path

from cs336_basics.bpe import train_bpe
from cs336_basics.formats import TOKENIZER_FORMATS
from cs336_basics.splitting.patterns.named_patterns import PATTERNS as NAMED
from cs336_basics.tokenizer import Tokenizer
from tests.texts import TEXTS, long_text
from tests.tokenizer.examples import END, FRAGMENTS, byte_tokenizer, data_file
from tests.tokenizer.test_reference import (
    characters_without_differences,
    without_differences,
)

SPECIAL = [END, "<|end of text|>", "<|im_start|>", "<|im_end|>", "Ä終»"]
"""Special tokens, including some from chat models, with spaces, and with multi-byte characters."""

PATTERNS = {
    **{name: name for name in NAMED},
    # This pattern does not match all characters.
    "partial": r" ?[A-Za-z]+|\p{N}{1,2}|[^\sA-Za-z\p{N}]+",
}

PUBLISHED = "the files of GPT-2"
"""Name of GPT-2's vocabulary in tests with every pattern. The files are not in this project."""

READERS = {
    to: getattr(Tokenizer, f"from_{to}")
    for to in TOKENIZER_FORMATS
    if hasattr(Tokenizer, f"from_{to}")
}
"""Functions that read an exported directory, for each format that can also be imported."""

CHATS = [
    "<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>",
    f"{END}{END}a{END} b<|end of text|><|end of text|> <|end  of text|>{END}",
    "Ä終»Ä終»Ä 終Ä終 »<|im_start|<|im_start|>>",
]


@functools.cache
def trained(pattern):
    """Return a tokenizer with 1,500 ids, trained on the test texts with a pattern, or GPT-2's."""
    if pattern == PUBLISHED:
        return Tokenizer.from_gpt2(data_file("gpt2_vocab.json"), data_file("gpt2_merges.txt"))
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = Path(directory, "text.txt")
        text.write_text(END.join([*TEXTS.values(), long_text(1, 60_000)]), "utf-8", newline="")
        vocab, merges = train_bpe(text, 1500, SPECIAL, num_workers=1, pattern=PATTERNS[pattern])
    return Tokenizer(vocab, merges, SPECIAL, pattern=PATTERNS[pattern])


@functools.cache
def exportable(name):
    """Return a trained tokenizer or GPT-2's, without the tokens that GGUF cannot represent."""
    found = trained(name)
    if name != "cl100k":
        return found
    kept = {bytes([byte]) for byte in range(256)}
    merges = []
    for left, right in found.merges:
        if {left, right} <= kept and not re.search(rb"[\r\n][^\r\n]+\Z", left + right):
            merges.append((left, right))
            kept.add(left + right)
    return byte_tokenizer(*SPECIAL, merges=merges, pattern="cl100k")


def chosen_texts():
    """Return short texts whose characters belong to the same classes in all libraries."""
    return ["", *CHATS, *map(without_differences, [*TEXTS.values(), long_text(5, 5_000)])]


def random_texts(seed, number):
    """Yield random texts, including fragments that tokenizers often encode differently."""
    chooser = random.Random(seed)
    characters = characters_without_differences()
    fragments = [without_differences(fragment) for fragment in FRAGMENTS]
    fragments += [*SPECIAL, " Hello", "'re", "'LL", "1234", "    ", " the", "ing", "<|im_"]
    for _ in range(number):
        yield "".join(
            chooser.choice(fragments) if chooser.random() < 0.8 else chooser.choice(characters)
            for _ in range(chooser.randint(1, 25))
        )


def damaged(file, number):
    """Damage a file in `number` ways, one after the other, and yield after each of them."""
    content = file.read_bytes()
    chooser = random.Random(0)
    for index in range(number):
        changed = bytearray(content)
        if index % 2:
            del changed[chooser.randrange(len(content)) :]
        else:
            at = chooser.randrange(min(len(content), 400))
            changed[at : at + 4] = chooser.choice([b"\xff" * 4, bytes(4)])
        file.write_bytes(changed)
        yield index
