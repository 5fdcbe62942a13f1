"""Examples, a reference implementation and helpers for the tests of the trainers."""

import re
import warnings
from collections import Counter
from itertools import pairwise

import pytest

from cs336_basics import TRAINERS
from tests.test_package import EXTENSION_NAMES

EOT = "<|endoftext|>"

# The course's example, split at whitespace.
WORKED_EXAMPLE = {b"low": 5, b"lower": 2, b"widest": 3, b"newest": 6}
WORKED_MERGES = [
    tuple(merge.encode().split())
    for merge in (
        "s t", "e st", "o w", "l ow", "w est", "n e",
        "ne west", "w i", "wi d", "wid est", "low e", "lowe r",
    )
]  # fmt: skip

COMPILED_TRAINERS = {
    name: trainer.__module__
    for name, trainer in TRAINERS.items()
    if trainer.__module__ in EXTENSION_NAMES
}
"""Modules of the trainers whose extensions are built, by the trainers' names."""

PYTHON_TRAINERS = [
    name for name, trainer in TRAINERS.items() if trainer.is_built and name not in COMPILED_TRAINERS
]

every_trainer = pytest.mark.parametrize("name", TRAINERS)


def train(name, word_counts, num_merges, special_tokens=(), **options):
    """Train without showing warnings. Return the vocabulary and the merges."""
    trainer = TRAINERS[name](**options)
    size = trainer.start.num_ids + num_merges
    size += sum(token.encode() not in trainer.start.tokens.values() for token in special_tokens)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trainer.train_from_counts(word_counts, size, special_tokens)


def traced(name, word_counts, num_merges, **options):
    """Return the merges and the trace of a training run."""
    trace = []
    merges = train(name, word_counts, num_merges, trace=trace.append, **options)[1]
    return merges, trace


def byte_characters():
    """Return the characters that represent bytes in GPT-2, computed from their definition."""
    characters, beyond = {}, 256
    for byte in range(256):
        if ord("!") <= byte <= ord("~") or ord("¡") <= byte <= ord("¬") or byte >= ord("®"):
            characters[byte] = chr(byte)
        else:
            characters[byte] = chr(beyond)
            beyond += 1
    return characters


def specified_merges(
    word_counts,
    num_merges,
    *,
    min_frequency=1,
    tie_break="lexicographic",
    before=(),
    **limits,
):
    """Return the merges that BPE's definition requires, computed independently of the trainers.

    `before` contains the existing merges if a vocabulary is continued.
    """
    characters = byte_characters()
    ids = {bytes([b]): i for i, b in enumerate(sorted(range(256), key=characters.get))}
    ids.update({left + right: 256 + rank for rank, (left, right) in enumerate(before)})
    words = [([bytes([b]) for b in word], count) for word, count in word_counts.items() if count]
    for pair in before:
        merge_everywhere(words, *pair)
    merges = []
    while len(merges) < num_merges:
        counts = Counter()
        for symbols, count in words:
            for left, right in pairwise(symbols):
                if is_allowed(left, right, **limits):
                    counts[left, right] += count
        if not counts or max(counts.values()) < min_frequency:
            break
        tied = [pair for pair, count in counts.items() if count == max(counts.values())]
        if tie_break == "lexicographic":
            left, right = max(tied)
        else:
            left, right = min(tied, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        merges.append((left, right))
        ids[left + right] = len(ids)
        merge_everywhere(words, left, right)
    return merges


def is_allowed(
    left,
    right,
    *,
    max_token_length=None,
    max_words=None,
    whole_characters=False,
    forbid=None,
    veto=None,
):
    """Return whether the limits allow a merge. A veto must not depend on the count."""
    token = left + right
    text = token.decode(errors="replace")
    parts = re.findall(rb"^[\x80-\xbf]+|[^\x80-\xbf][\x80-\xbf]*", token)
    return not (
        (max_token_length is not None and len(token) > max_token_length)
        or (max_words is not None and len(re.findall(r"\S+", text)) > max_words)
        or (whole_characters and len(parts) > 1 and any(not is_utf8(part) for part in parts))
        or (forbid is not None and re.search(forbid, text))
        or (veto is not None and veto(left, right, 1))
    )


def is_utf8(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def merge_everywhere(words, left, right):
    """Merge a pair in each list of symbols, in place. Return the number of merged occurrences."""
    number = 0
    for symbols, _ in words:
        i = 0
        while i < len(symbols) - 1:
            if symbols[i] == left and symbols[i + 1] == right:
                symbols[i : i + 2] = [left + right]
                number += 1
            i += 1
    return number
