"""Mixtures: several corpora, each with the share of the text that it provides.

On the command line and in a configuration, a corpus of a mixture is `PATH:WEIGHT`, such as
`reviews.jsonl:0.6`. Weights are relative: they are divided by their sum.
"""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.urls import is_url
from cs336_basics.text.storage import COMPRESSED_ENDINGS

_SMALLEST_SHARE = 1e-6


@dataclass(frozen=True)
class Portion:
    """A corpus of a mixture, and its share."""

    path: str
    """File, directory, glob or URL."""
    weight: float
    """Share of the mixture, between 0 and 1."""
    name: str
    """Short name, distinct in the mixture: letters, digits, `_` and `-`."""


def parse_mixture(words: Iterable[str], default_weight: str | None = None) -> tuple[Portion, ...]:
    """Return the corpora of a mixture.

    The path ends at the last colon, so it may be a URL or start with a drive such as `C:`.

    Args:
        words: `PATH:WEIGHT` for each corpus.
        default_weight: Weight of a corpus that is given without one, or None to require it.

    Raises:
        ValueError: If a word has no path or no weight, a weight is not a positive number, or a
            path is repeated.
    """
    found: list[tuple[str, float]] = []
    for word in words:
        path, colon, weight = word.rpartition(":")
        if default_weight is not None and not (path and _is_number(weight)):
            path, colon, weight = word, ":", default_weight
        if not colon or not path or not _is_number(weight):
            raise InputError(
                f"must be PATH:WEIGHT, such as reviews.jsonl:0.6, got {short_repr(word)}"
            )
        if not 0 < float(weight) < math.inf:
            raise InputError(
                f"must have positive and finite weights, got {short_repr(word)}",
                remedy="to leave a corpus out, remove it",
            )
        if path in (other for other, _ in found):
            raise InputError(f"must name each corpus once, got {short_repr(path)} twice")
        found.append((path, float(weight)))
    try:
        total = math.fsum(weight for _, weight in found)
    except OverflowError:
        raise InputError(
            "must have weights with a finite sum", remedy="write smaller ones, such as 0.6"
        ) from None
    names = corpus_names([path for path, _ in found])
    portions = tuple(
        Portion(path, weight / total, name)
        for (path, weight), name in zip(found, names, strict=True)
    )
    for portion in portions:
        if portion.weight < _SMALLEST_SHARE:
            raise InputError(
                f"must give each corpus a share of at least {_SMALLEST_SHARE}, got "
                f"{portion.weight:.3g} for {short_repr(portion.path)}"
            )
    return portions


def tempered_weights(
    weights: Sequence[float], sizes: Sequence[int], temperature: float
) -> list[float]:
    """Return weights that depend on the sizes of the corpora: weight * size^(1 / temperature).

    With a temperature of 1, corpora keep their sizes; the higher it is, the more equal their shares
    become. Conneau et al. 2020 (XLM-R, arXiv 1911.02116) use 1 / 0.3, and Xue et al. 2021 (mT5,
    arXiv 2010.11934) the same.

    Args:
        weights: Weight of each corpus.
        sizes: Number of bytes of each corpus.
        temperature: At least 1.

    Raises:
        ValueError: If the temperature is below 1 or not finite.
    """
    if not 1 <= temperature < math.inf:
        raise InputError(
            f"must be finite and at least 1, got {temperature}", argument="temperature"
        )
    return [weight * size ** (1 / temperature) for weight, size in zip(weights, sizes, strict=True)]


def corpus_names(paths: Sequence[str]) -> list[str]:
    """Return a short, distinct name for each corpus; see `Portion`."""
    return _distinct([_short_name(path) for path in paths])


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word


def _short_name(path: str) -> str:
    """Return the last part of a path that is no glob, without the endings of a file.

    >>> print(_short_name("web/*.jsonl.gz"), _short_name("ko.txt"), _short_name("code/"))
    web ko code
    """
    while glob.has_magic(path) and os.path.basename(path) and not os.path.exists(path):
        path = os.path.dirname(path)
    if not is_url(path):
        path = os.path.abspath(path)  # `.` and `*.txt` have the name of the working directory
    name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    name = os.path.splitext(name)[0]
    return re.sub(r"[^\w-]+", "_", name).strip("_") or "corpus"


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names with a number after each one that an earlier one equals."""
    found: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate.lower() in (other.lower() for other in found):  # names of directories
            number += 1
            candidate = f"{name}-{number}"
        found.append(candidate)
    return found
