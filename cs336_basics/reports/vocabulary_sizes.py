"""Compare the sizes that a vocabulary could have: compression, weights and unused tokens."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.reports.charts import chart
from cs336_basics.reports.measures import gini
from cs336_basics.reports.page import Chart, Section, Table
from cs336_basics.text import Corpus
from cs336_basics.text.paths import PathsLike
from cs336_basics.tokenizer import Tokenizer, count_tokens, never_used

STEP = 1000
"""Number of tokens whose gain is compared with the stated share."""


class SizeFigures(NamedTuple):
    """Figures of one size."""

    vocab_size: int
    bytes_per_token: dict[str, float]
    """For each source."""
    overall: float
    """Bytes per token of all sources together."""
    gini: float
    """Gini coefficient of the bytes per token of the sources, or NaN for a single source."""
    never_used: int
    """Number of tokens that occur in no source, apart from single bytes and special tokens."""
    embedding_weights: int
    """Number of weights in the embedding."""


class SizeComparison(NamedTuple):
    """Figures of several sizes."""

    figures: list[SizeFigures]
    least_gain: float
    enough: int | None
    """The smallest size after which another STEP tokens increase the bytes per token by less than
    `least_gain`, or None if every step up to the largest size gains more."""

    def header(self) -> list[str]:
        """Return the header of a table."""
        sources = list(self.figures[0].bytes_per_token)
        one = ["bytes/token"] if len(sources) == 1 else [*sources, "all", "Gini"]
        return ["tokens", *one, "never used", "embedding weights"]

    def rows(self) -> list[list[str]]:
        """Return the rows of a table."""
        rows = []
        for figures in self.figures:
            shown = [f"{value:.3f}" for value in figures.bytes_per_token.values()]
            if len(shown) > 1:
                shown += [f"{figures.overall:.3f}", f"{figures.gini:.4f}"]
            numbers = (figures.never_used, figures.embedding_weights)
            rows.append([f"{figures.vocab_size:,}", *shown, *(f"{n:,}" for n in numbers)])
        return rows

    def conclusion(self) -> str:
        """Return a sentence about the size that is enough."""
        gain = f"{self.least_gain:.2%}"
        if self.enough is None:
            largest = self.figures[-1].vocab_size
            return f"up to {largest:,} tokens, another {STEP:,} always gain {gain} or more"
        return f"after {self.enough:,} tokens, another {STEP:,} gain less than {gain}"

    def section(self, text: str) -> Section:
        """Return a section of a report. `text` says on which text the figures were measured."""
        series = {
            source: [(f.vocab_size, f.bytes_per_token[source]) for f in self.figures]
            for source in self.figures[0].bytes_per_token
        }
        title = "Bytes per token against the size of the vocabulary"
        drawn = chart(series, title=title, x="tokens", y="bytes per token", log="x")
        return Section(
            "Sizes of the vocabulary",
            [
                f"Measured on {text}: {self.conclusion()}.",
                Chart(drawn),
                Table(tuple(self.header()), [tuple(row) for row in self.rows()]),
            ],
        )


def compare_sizes(
    tokenizer: Tokenizer,
    sizes: Sequence[int],
    sources: Mapping[str, Corpus | PathsLike],
    *,
    d_model: int = 512,
    least_gain: float = 0.01,
    num_workers: int | None = None,
) -> SizeComparison:
    """Compare sizes of a vocabulary on texts that it was not trained on.

    Args:
        tokenizer: Tokenizer of the largest size. The smaller ones are its `truncated` versions.
        sizes: Sizes to compare. A size above the tokenizer's is replaced by the tokenizer's.
        sources: Mapping from names to texts.
        d_model: Size of an embedding.
        least_gain: Share by which another STEP tokens must increase the bytes per token.
        num_workers: See `count_tokens`.

    Raises:
        ValueError: If there are no sizes or sources, a source has no text, `least_gain` is not
            between 0 and 1, or `truncated` raises one.
    """
    if not sizes:
        raise InputError("must not be empty", argument="sizes")
    if not sources:
        raise InputError("must not be empty", argument="sources")
    d_model = checked_integer("d_model", d_model, 1)
    if not 0 < least_gain < 1:
        raise InputError(
            f"must be between 0 and 1, got {short_repr(least_gain)}", argument="least_gain"
        )
    corpora = {name: Corpus.of(source) for name, source in sources.items()}
    sizes = sorted({min(size, tokenizer.vocab_size) for size in sizes})

    @functools.cache
    def measured(size: int) -> SizeFigures:
        return _measured(tokenizer.truncated(size), corpora, d_model, num_workers)

    def gains_too_little(step: int) -> bool:
        size = sizes[0] + step * STEP
        return measured(size + STEP).overall < measured(size).overall * (1 + least_gain)

    # The gain falls as the vocabulary grows, so the size is found by bisection.
    steps = range((sizes[-1] - sizes[0]) // STEP)
    first = bisect.bisect_left(steps, True, key=gains_too_little)
    enough = sizes[0] + first * STEP if first < len(steps) else None
    return SizeComparison([measured(size) for size in sizes], least_gain, enough)


def _measured(
    tokenizer: Tokenizer, corpora: Mapping[str, Corpus], d_model: int, num_workers: int | None
) -> SizeFigures:
    """Return the figures of one size; see `compare_sizes`."""
    lengths = np.zeros(tokenizer.vocab_size, np.int64)
    for token_id, token in tokenizer.vocab.items():
        lengths[token_id] = len(token)
    total = np.zeros(tokenizer.vocab_size, np.int64)
    rates = {}
    for name, corpus in corpora.items():
        counts = count_tokens(tokenizer, corpus, num_workers=num_workers)
        if not counts.sum():
            raise InputError("has no text", argument="sources", place=name)
        rates[name] = float(counts @ lengths / counts.sum())
        total += counts
    return SizeFigures(
        tokenizer.vocab_size,
        rates,
        float(total @ lengths / total.sum()),
        gini(list(rates.values())),
        len(never_used(tokenizer, total)),
        tokenizer.vocab_size * d_model,
    )
