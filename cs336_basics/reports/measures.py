"""Measures of how a tokenizer encodes documents, and of its vocabulary."""

from __future__ import annotations

import codecs
import itertools
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cs336_basics.formats.compared_tokenizers import Coder, ComparedTokenizer
from cs336_basics.reports.page import Tokens

RESAMPLES = 1000
ALPHA = 2.5
"""Order of the Rényi entropy that best predicts translation quality (Zouhar et al. 2023)."""

MIN_WORDS = 100
"""Minimum number of words for a script to be included in the Gini coefficient."""

_SCRIPTS = (
    "Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Armenian", "Georgian", "Devanagari",
    "Bengali", "Gurmukhi", "Gujarati", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala",
    "Thai", "Lao", "Tibetan", "Myanmar", "Khmer", "Ethiopic", "Mongolian", "Hangul", "Hiragana",
    "Katakana", "Han",
)  # fmt: skip
OTHER = "Other"
"""Name for all scripts that are not in the list."""

SHORTEST_LINE, LONGEST_LINE, MOST_LINES = 20, 120, 2000
"""Minimum and maximum length of an example line in characters, and maximum number of lines to
examine. Longer lines are truncated."""

_BLANK_TOKENS = (b"", "▁".encode())  # after whitespace is stripped
# Texts to put around a token that is not produced on its own.
_CONTEXTS = [
    (before, after) for before in ("", "a", " ", "1", ".", "\n") for after in ("", "a", " ", "1")
]


def interval(numerators: Sequence[int], denominators: Sequence[int]) -> tuple[float, float] | None:
    """Return the 95% confidence interval of a ratio of sums over documents.

    This is the percentile interval of a bootstrap over documents (Efron 1979). The draws
    depend only on the number of documents, so tokenizers are compared on the same draws.

    Returns:
        Lower and upper limit, or None if there are fewer than 2 documents.
    """
    number = len(numerators)
    if number < 2:
        return None
    generator = np.random.default_rng(0)
    values = np.array([numerators, denominators], np.float64)
    ratios = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        weights = np.bincount(generator.integers(number, size=number), minlength=number)
        above, below = values @ weights
        ratios[i] = above / below if below else np.nan
    low, high = np.nanpercentile(ratios, [2.5, 97.5])
    return float(low), float(high)


def renyi_efficiency(counts: Iterable[int], vocab_size: int, alpha: float = ALPHA) -> float:
    """Return the Rényi efficiency of a distribution of tokens (Zouhar et al. 2023).

    This is the Rényi entropy divided by the logarithm of the vocabulary size: 1 if all tokens are
    equally frequent, near 0 if few tokens make up the text.

    Args:
        counts: Number of occurrences of each token.
        vocab_size: Number of tokens in the vocabulary.
        alpha: Order of the entropy. It must not be 1.
    """
    found = np.array(list(counts), np.float64)
    if vocab_size < 2 or not found.sum():
        return math.nan
    shares = found / found.sum()
    return float(np.log((shares**alpha).sum()) / (1 - alpha) / math.log(vocab_size))


def gini(values: Sequence[float]) -> float:
    """Return the Gini coefficient of positive numbers: 0 if all are equal, near 1 if one dominates.

    Returns NaN for fewer than 2 numbers.
    """
    if len(values) < 2:
        return math.nan
    array: npt.NDArray[np.float64] = np.array(values, np.float64)
    differences = np.abs(array[:, None] - array).sum()
    return float(differences / (2 * len(array) ** 2 * array.mean()))


# --------------------------------------------------------------------- words


class WordTotals(NamedTuple):
    """Totals over words. `whole` is the number of words that are one token."""

    words: int = 0
    num_bytes: int = 0
    tokens: int = 0
    whole: int = 0

    def __add__(self, other: WordTotals) -> WordTotals:  # type: ignore[override]
        return WordTotals(*map(sum, zip(self, other, strict=True)))

    @property
    def fertility(self) -> float:
        """Tokens per word (Rust et al. 2021). NaN if there are no words."""
        return self.tokens / self.words if self.words else math.nan

    @property
    def share_whole(self) -> float:
        """Share of words that are one token. NaN if there are no words."""
        return self.whole / self.words if self.words else math.nan

    @property
    def bytes_per_token(self) -> float:
        """UTF-8 bytes per token. NaN if there are no words."""
        return self.num_bytes / self.tokens if self.tokens else math.nan


def count_words(documents: Iterable[str]) -> Counter[tuple[str, str]]:
    """Return how often each (script, word) pair occurs.

    A word is a run of letters and marks of one script. It includes the blank before it, if any,
    because tokenizers encode it together with the word.
    """
    import regex

    scripts = {script: rf"\p{{L}}&&\p{{Script={script}}}" for script in _SCRIPTS}
    scripts[OTHER] = r"\p{L}" + "".join(rf"--\p{{Script={script}}}" for script in _SCRIPTS)
    # Not `(?:[{letters}]\p{{M}}*)+`, which is equivalent, but takes memory for each character.
    runs = (
        rf"(?P<{script}> ?[{letters}][[{letters}]\p{{M}}]*)" for script, letters in scripts.items()
    )
    pattern = regex.compile("|".join(runs), regex.VERSION1)
    return Counter(
        (match.lastgroup, match[0])
        for document in documents
        for match in pattern.finditer(document)
    )


def word_totals(
    tokenizer: ComparedTokenizer, words: Mapping[tuple[str, str], int]
) -> dict[str, WordTotals]:
    """Return the totals for each script. Every distinct word is encoded once, on its own."""
    encode = tokenizer.make().encode
    totals: dict[str, WordTotals] = {}
    for (script, word), count in words.items():
        tokens = (tokenizer.vocab.get(token_id, b"?") for token_id in encode(word))
        number = max(1, sum(token.strip() not in _BLANK_TOKENS for token in tokens))
        size = len(word.strip(" ").encode())
        added = WordTotals(count, count * size, count * number, count * (number == 1))
        totals[script] = totals.get(script, WordTotals()) + added
    return totals


# --------------------------------------------------------------------- vocabulary


def unreachable_tokens(tokenizer: ComparedTokenizer) -> tuple[list[bytes], list[bytes]]:
    """Return the tokens that no text produces, and the tokens that are parts of characters.

    A token is tried on its own and between other characters. A token that is only part of a
    character cannot be tried. It counts as unreachable only if no valid UTF-8 contains its bytes.
    Special tokens are left out. Single bytes are not listed as parts of characters.

    Land and Bartolo (2024) distinguish the same kinds of tokens.
    """
    coder = tokenizer.make()
    unreachable, partial = [], []
    for token_id in sorted(tokenizer.vocab.keys() - tokenizer.special):
        token = tokenizer.vocab[token_id]
        try:
            text = token.decode()
        except UnicodeDecodeError:
            if not is_part_of_utf8(token):
                unreachable.append(token)
            elif len(token) > 1:
                partial.append(token)
            continue
        if not any(_yields(coder, a + text + b, token_id) for a, b in _CONTEXTS):
            unreachable.append(token)
    return unreachable, partial


def _yields(coder: Coder, text: str, token_id: int) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the pattern may not match the text
            return token_id in coder.encode(text)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException:  # a byte without a token, or a Rust panic
        return False


def is_part_of_utf8(data: bytes) -> bool:
    """Return whether bytes can occur in valid UTF-8, even within or across characters."""
    rest = data.lstrip(bytes(range(0x80, 0xC0)))  # the end of a character
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(rest)
    except UnicodeDecodeError:
        return False
    begun = decoder.getstate()[0]  # the decoder also waits for the end of a surrogate
    is_surrogate = begun[:1] == b"\xed" and begun[1:2] >= b"\xa0"
    return len(data) - len(rest) <= 3 and not is_surrogate


# --------------------------------------------------------------------- examples


def different_lines(
    tokenizers: Sequence[ComparedTokenizer], documents: Iterable[str], number: int = 3
) -> list[tuple[str, list[Tokens]]]:
    """Return the lines that tokenizers split most differently, at most one from each document.

    Returns:
        Pairs of a line and its tokens in each tokenizer. The tokens that start where another
        tokenizer has no boundary are marked.
    """
    coders = [tokenizer.make() for tokenizer in tokenizers]
    lines = (
        (index, line.strip()[:LONGEST_LINE])
        for index, document in enumerate(documents)
        for line in document.splitlines()
        if len(line.strip()) >= SHORTEST_LINE
    )
    best: dict[int, tuple[float, str, list[Tokens]]] = {}  # by document
    for index, line in itertools.islice(lines, MOST_LINES):
        cut = _cut(tokenizers, coders, line)
        share = sum(len(tokens.marked) for tokens in cut) / len(line)
        if share > best.get(index, (0,))[0]:
            best[index] = share, line, cut
    ranked = sorted(best.values(), key=lambda found: -found[0])
    return [(line, cut) for _, line, cut in ranked[:number]]


def _cut(
    tokenizers: Sequence[ComparedTokenizer], coders: Sequence[Coder], line: str
) -> list[Tokens]:
    tokens = [
        [tokenizer.vocab.get(token_id, b"?") for token_id in coder.encode(line)]
        for tokenizer, coder in zip(tokenizers, coders, strict=True)
    ]
    starts = [[0, *itertools.accumulate(map(len, found))][:-1] for found in tokens]
    kept = [b"".join(found) == line.encode() for found in tokens]  # false if the text changes
    known = [set(offsets) for offsets, is_kept in zip(starts, kept, strict=True) if is_kept]
    shared = set.intersection(*known) if known else set()
    return [
        Tokens(
            found, True, frozenset(i for i, s in enumerate(offsets) if is_kept and s not in shared)
        )
        for found, offsets, is_kept in zip(tokens, starts, kept, strict=True)
    ]
