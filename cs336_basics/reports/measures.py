"""Measures of a tokenizer on the documents of a corpus, and of its vocabulary."""

from __future__ import annotations

import codecs
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cs336_basics.formats.compared_tokenizers import Coder, ComparedTokenizer

RESAMPLES = 1000
ALPHA = 2.5
"""Order of the Rényi entropy that predicts translation quality best (Zouhar et al. 2023)."""

MIN_WORDS = 100
"""A script with fewer words is not part of the Gini coefficient."""

_SCRIPTS = (
    "Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Armenian", "Georgian", "Devanagari",
    "Bengali", "Gurmukhi", "Gujarati", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala",
    "Thai", "Lao", "Tibetan", "Myanmar", "Khmer", "Ethiopic", "Mongolian", "Hangul", "Hiragana",
    "Katakana", "Han",
)  # fmt: skip
OTHER = "Other"
"""Stands for all scripts that are not in the list."""

_BLANK_TOKENS = (b"", "▁".encode())  # without white space
# Texts around a token that is not produced alone.
_CONTEXTS = [
    (before, after) for before in ("", "a", " ", "1", ".", "\n") for after in ("", "a", " ", "1")
]


def interval(numerators: Sequence[int], denominators: Sequence[int]) -> tuple[float, float] | None:
    """Return the 95% confidence interval of a ratio of sums over documents.

    It is the percentile interval of a bootstrap that draws documents (Efron 1979). The draws
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

    It is the Rényi entropy divided by the logarithm of the vocabulary size: 1 if all tokens are
    equally frequent, near 0 if few tokens make up the text.

    Args:
        counts: Occurrences of each token.
        vocab_size: Number of tokens in the vocabulary.
        alpha: Order of the entropy. Must not be 1.
    """
    found = np.array(list(counts), np.float64)
    if vocab_size < 2 or not found.sum():
        return math.nan
    shares = found / found.sum()
    return float(np.log((shares**alpha).sum()) / (1 - alpha) / math.log(vocab_size))


def gini(values: Sequence[float]) -> float:
    """Return the Gini coefficient of positive numbers: 0 if all are equal, near 1 if one has all.

    Returns NaN for fewer than 2 numbers.
    """
    if len(values) < 2:
        return math.nan
    array: npt.NDArray[np.float64] = np.array(values, np.float64)
    differences = np.abs(array[:, None] - array).sum()
    return float(differences / (2 * len(array) ** 2 * array.mean()))


# --------------------------------------------------------------------- words


@dataclass(frozen=True)
class WordTotals:
    """Totals over words, of which `whole` are one token."""

    words: int = 0
    num_bytes: int = 0
    tokens: int = 0
    whole: int = 0

    def __add__(self, other: WordTotals) -> WordTotals:
        return WordTotals(
            self.words + other.words,
            self.num_bytes + other.num_bytes,
            self.tokens + other.tokens,
            self.whole + other.whole,
        )

    @property
    def fertility(self) -> float:
        """Tokens per word (Rust et al. 2021)."""
        return self.tokens / self.words

    @property
    def share_whole(self) -> float:
        """Share of words that are one token."""
        return self.whole / self.words

    @property
    def bytes_per_token(self) -> float:
        """UTF-8 bytes per token."""
        return self.num_bytes / self.tokens


def count_words(documents: Iterable[str]) -> Counter[tuple[str, str]]:
    """Return how often each pair of script and word occurs.

    A word is a run of letters and marks of one script. It includes the blank before it, if any,
    because tokenizers encode it together with the word.
    """
    import regex

    scripts = {script: rf"\p{{L}}&&\p{{Script={script}}}" for script in _SCRIPTS}
    scripts[OTHER] = r"\p{L}" + "".join(rf"--\p{{Script={script}}}" for script in _SCRIPTS)
    runs = (rf"(?P<{script}> ?(?:[{letters}]\p{{M}}*)+)" for script, letters in scripts.items())
    pattern = regex.compile("|".join(runs), regex.VERSION1)
    return Counter(
        (match.lastgroup, match[0])
        for document in documents
        for match in pattern.finditer(document)
    )


def word_totals(
    tokenizer: ComparedTokenizer, words: Mapping[tuple[str, str], int]
) -> dict[str, WordTotals]:
    """Return the totals of each script. Every distinct word is encoded once, alone."""
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

    A token is tried alone and between other characters. A token that is part of a character, such
    as the first two bytes of one, cannot be tried; it counts as unreachable only if no valid UTF-8
    contains its bytes. Special tokens are left out, and so are single bytes of the second kind.

    Land and Bartolo (2024) distinguish the same kinds.
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
    """Return whether bytes occur in some valid UTF-8, perhaps within or across characters."""
    rest = data.lstrip(bytes(range(0x80, 0xC0)))  # the end of a character
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(rest)
    except UnicodeDecodeError:
        return False
    begun = decoder.getstate()[0]  # the decoder waits for the end of a surrogate, too
    is_surrogate = begun[:1] == b"\xed" and begun[1:2] >= b"\xa0"
    return len(data) - len(rest) <= 3 and not is_surrogate


# --------------------------------------------------------------------- examples


@dataclass(frozen=True)
class Example:
    """A line of text and its tokens in each tokenizer.

    Attributes:
        line: The text.
        tokens: The tokens of each tokenizer.
        marked: For each tokenizer, the indices of the tokens that start where at least one other
            tokenizer has no token start.
    """

    line: str
    tokens: list[list[bytes]]
    marked: list[frozenset[int]]


def different_lines(
    tokenizers: Sequence[ComparedTokenizer],
    documents: Iterable[str],
    number: int = 3,
    *,
    longest: int = 120,
    most_lines: int = 2000,
) -> list[Example]:
    """Return the lines of documents that tokenizers cut most differently.

    Args:
        tokenizers: Tokenizers to compare.
        documents: Documents with the lines. At most one line of each is chosen.
        number: Maximum number of lines.
        longest: Number of characters after which a line is cut.
        most_lines: Number of lines to examine.
    """
    coders = [tokenizer.make() for tokenizer in tokenizers]
    best: list[tuple[float, int, Example]] = []
    num_lines = 0
    for index, document in enumerate(documents):
        of_document: tuple[float, int, Example] | None = None
        for line in document.splitlines():
            line = line.strip()[:longest].strip()
            if len(line) < longest // 6:
                continue
            num_lines += 1
            example = _example(tokenizers, coders, line)
            score = sum(map(len, example.marked)) / len(line)
            if score and (of_document is None or score > of_document[0]):
                of_document = score, -index, example
            if num_lines >= most_lines:
                break
        best += [of_document] if of_document else []
        if num_lines >= most_lines:
            break
    best.sort(key=lambda found: found[:2], reverse=True)
    return [example for *_, example in best[:number]]


def _example(
    tokenizers: Sequence[ComparedTokenizer], coders: Sequence[Coder], line: str
) -> Example:
    tokens = [
        [tokenizer.vocab.get(token_id, b"?") for token_id in coder.encode(line)]
        for tokenizer, coder in zip(tokenizers, coders, strict=True)
    ]
    data = line.encode()
    starts = []  # none of a tokenizer that changes the text
    for found in tokens:
        offsets = np.cumsum([0, *map(len, found)])[:-1].tolist()
        starts.append(offsets if b"".join(found) == data else [])
    known = [set(offsets) for offsets in starts if offsets]
    shared = set.intersection(*known) if known else set()
    marked = [
        frozenset(i for i, offset in enumerate(offsets) if offset not in shared)
        for offsets in starts
    ]
    return Example(line, tokens, marked)
