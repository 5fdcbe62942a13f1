"""The sections of a report that compares tokenizers on corpora."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import os
import platform
from collections import Counter
from collections.abc import Sequence

from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.formats.compared_tokenizers import ComparedTokenizer
from cs336_basics.formats.comparison import Measured, longest_tokens, measure
from cs336_basics.pretokenization import Corpus
from cs336_basics.reports.charts import chart
from cs336_basics.reports.measures import (
    ALPHA,
    MIN_WORDS,
    WordTotals,
    count_words,
    different_lines,
    gini,
    interval,
    renyi_efficiency,
    unreachable_tokens,
    word_totals,
)
from cs336_basics.reports.page import Chart, Section, Table, Tokens

_MOST_LISTED = 20
_BOUNDS = (1, 2, 10, 100, 1000)  # of the number of occurrences
_POINTS_PER_DECADE = 20


def tokenizer_sections(
    tokenizers: Sequence[ComparedTokenizer],
    corpora: Sequence[tuple[str, Corpus]],
    *,
    documents: int = 1000,
    separator: str = END_OF_TEXT,
) -> list[Section]:
    """Return the sections of a report on tokenizers.

    Args:
        tokenizers: Tokenizers from `open_tokenizer`, with different names.
        corpora: Pairs of name and corpus.
        documents: Number of documents to sample from each corpus, at equal distances.
        separator: Separator of the documents in plain text.

    Raises:
        ValueError: If two tokenizers or two corpora have the same name, or `compare` raises it.
        FileNotFoundError, OSError, ImportError: If `compare` raises them.
    """
    for names in ([t.name for t in tokenizers], [name for name, _ in corpora]):
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"names must differ, got {name!r} twice; remove one")
    measured = list(measure(tokenizers, corpora, documents=documents, separator=separator))
    groups = [list(group) for _, group in itertools.groupby(measured, lambda m: m.result.corpus)]
    words = [count_words(group[0].documents) for group in groups]
    totals = [
        [word_totals(m.tokenizer, found) for m in group]
        for group, found in zip(groups, words, strict=True)
    ]
    counts = {t.name: Counter[int]() for t in tokenizers}
    for one in measured:
        counts[one.tokenizer.name].update(itertools.chain.from_iterable(one.ids))
    return [
        _overview(tokenizers),
        _compression(groups, totals),
        _scripts(tokenizers, totals),
        _frequencies(tokenizers, counts),
        _tokens(tokenizers, counts),
        *([_overlap(tokenizers)] if len(tokenizers) > 1 else []),
        *([_examples(groups)] if len(tokenizers) > 1 else []),
    ]


def number(value: float, digits: int = 3) -> str:
    """Return a number as text, or a dash for NaN."""
    return f"{value:,.{digits}f}" if math.isfinite(value) else "–"


def _percent(value: float) -> str:
    return f"{value:.1%}" if math.isfinite(value) else "–"


def _overview(tokenizers: Sequence[ComparedTokenizer]) -> Section:
    rows = [(t.name, t.library, f"{t.num_tokens:,}", f"{len(t.special):,}") for t in tokenizers]
    return Section(
        "Tokenizers", [Table(("tokenizer", "library", "tokens", "special tokens"), rows)]
    )


def _compression(
    groups: Sequence[Sequence[Measured]], totals: Sequence[Sequence[dict[str, WordTotals]]]
) -> Section:
    size_rows, word_rows = [], []
    for group, of_group in zip(groups, totals, strict=True):
        sizes = [len(document.encode()) for document in group[0].documents]
        first = list(map(len, group[0].ids))
        for one, by_script in zip(group, of_group, strict=True):
            result, lengths = one.result, list(map(len, one.ids))
            relative = "–"
            if one is not group[0]:
                relative = _with_interval(sum(lengths) / sum(first), interval(lengths, first))
            size_rows.append(
                (
                    result.corpus,
                    result.tokenizer,
                    f"{result.num_documents:,} of {result.all_documents:,}",
                    f"{result.num_bytes:,}",
                    f"{result.num_tokens:,}",
                    _with_interval(result.bytes_per_token, interval(sizes, lengths)),
                    relative,
                    f"{result.changed_documents:,}",
                )
            )
            total = functools.reduce(operator.add, by_script.values(), WordTotals())
            counts = Counter(itertools.chain.from_iterable(one.ids))
            word_rows.append(
                (
                    result.corpus,
                    result.tokenizer,
                    f"{total.words:,}",
                    number(total.fertility if total.words else math.nan),
                    _percent(total.share_whole if total.words else math.nan),
                    number(renyi_efficiency(counts.values(), one.tokenizer.num_tokens)),
                    number(result.megabytes_per_second, 2),
                )
            )
    base = groups[0][0].tokenizer.name
    return Section(
        "Compression and speed",
        [
            "Intervals are 95% confidence intervals over documents (bootstrap). Relative tokens "
            f"are the tokens for each token of {base} on the same documents: below 1, the "
            "tokenizer needs fewer. Changed documents are not the same after decoding.",
            Table(
                ("corpus", "tokenizer", "documents", "bytes", "tokens", "bytes per token",
                 "relative tokens", "changed documents"),
                size_rows,
            ),
            "Fertility is the number of tokens per word. A word is a run of letters of one script, "
            "with the blank before it; in scripts without blanks it can be a whole phrase. The "
            f"Rényi efficiency (order {ALPHA}; Zouhar et al. 2023) is near 1 if all tokens are "
            "equally frequent. It uses the tokens of the sample, so compare it only between "
            "tokenizers on the same corpus. Speed is for one thread with cold caches, on "
            f"{platform.machine()} with {os.cpu_count()} cores.",
            Table(
                ("corpus", "tokenizer", "words", "fertility", "words of one token",
                 "Rényi efficiency", "MB/s"),
                word_rows,
            ),
        ],
    )  # fmt: skip


def _with_interval(value: float, limits: tuple[float, float] | None) -> str:
    return number(value) + (f" [{number(limits[0])}, {number(limits[1])}]" if limits else "")


def _scripts(
    tokenizers: Sequence[ComparedTokenizer], totals: Sequence[Sequence[dict[str, WordTotals]]]
) -> Section:
    by_tokenizer: list[dict[str, WordTotals]] = [{} for _ in tokenizers]
    for of_group in totals:
        for merged, found in zip(by_tokenizer, of_group, strict=True):
            for script, total in found.items():
                merged[script] = merged.get(script, WordTotals()) + total
    scripts = sorted(by_tokenizer[0], key=lambda script: -by_tokenizer[0][script].words)
    rows = [
        (
            script,
            tokenizer.name,
            f"{merged[script].words:,}",
            number(merged[script].bytes_per_token),
            number(merged[script].fertility),
            _percent(merged[script].share_whole),
        )
        for script in scripts
        for tokenizer, merged in zip(tokenizers, by_tokenizer, strict=True)
    ]
    fairness = []
    for tokenizer, merged in zip(tokenizers, by_tokenizer, strict=True):
        used = [total.bytes_per_token for total in merged.values() if total.words >= MIN_WORDS]
        fairness.append((tokenizer.name, str(len(used)), number(gini(used))))
    return Section(
        "Scripts",
        [
            "Words of all corpora by script.",
            Table(
                ("script", "tokenizer", "words", "bytes per token", "fertility",
                 "words of one token"),
                rows,
            ),
            "The Gini coefficient of bytes per token is 0 if the tokenizer serves all scripts "
            f"equally well. Scripts with fewer than {MIN_WORDS} words are left out.",
            Table(("tokenizer", "scripts", "Gini coefficient"), fairness),
        ],
    )  # fmt: skip


def _frequencies(
    tokenizers: Sequence[ComparedTokenizer], counts: dict[str, Counter[int]]
) -> Section:
    series, rows = {}, []
    for tokenizer in tokenizers:
        found = counts[tokenizer.name]
        total = sum(found.values())
        shares = [count / total for _, count in found.most_common()]
        ranks = sorted(
            {
                min(len(shares), round(10 ** (i / _POINTS_PER_DECADE)))
                for i in range(1 + math.ceil(_POINTS_PER_DECADE * math.log10(len(shares))))
            }
        )
        series[tokenizer.name] = [(rank, shares[rank - 1]) for rank in ranks]
        tenfold = (10**power for power in range(5))
        rows.append(
            (
                tokenizer.name,
                *(f"{shares[r - 1]:.4%}" if r <= len(shares) else "–" for r in tenfold),
            )
        )
    title = "Share of all tokens against rank, logarithmic axes"
    drawn = chart(series, title=title, x="rank of the token", y="share of all tokens", log="xy")
    header = ("tokenizer", *(f"rank {10**power:,}" for power in range(5)))
    return Section("Frequency against rank", [f"{title}.", Chart(drawn), Table(header, rows)])


def _tokens(tokenizers: Sequence[ComparedTokenizer], counts: dict[str, Counter[int]]) -> Section:
    used_rows, listed = [], []
    for tokenizer in tokenizers:
        found = counts[tokenizer.name]
        ids = [
            token_id
            for token_id in sorted(tokenizer.vocab.keys() - tokenizer.special)
            if len(tokenizer.vocab[token_id]) > 1
        ]
        unused = [tokenizer.vocab[token_id] for token_id in ids if not found[token_id]]
        rare = sorted((found[token_id], -token_id) for token_id in ids if found[token_id])
        unreachable, partial = unreachable_tokens(tokenizer)
        reached = [sum(found[token_id] >= bound for token_id in ids) for bound in _BOUNDS]
        used_rows.append(
            (
                tokenizer.name,
                f"{len(ids):,}",
                f"{len(unused):,}",
                *(f"{more - less:,}" for more, less in itertools.pairwise([*reached, 0])),
                f"{len(unreachable):,}",
                f"{len(partial):,}",
            )
        )
        listed += [
            (tokenizer.name, "longest", Tokens(longest_tokens(tokenizer))),
            (tokenizer.name, "unused", Tokens(unused[:_MOST_LISTED])),
            (
                tokenizer.name,
                "rarest",
                Tokens([tokenizer.vocab[-i] for _, i in rare[:_MOST_LISTED]]),
            ),
            (tokenizer.name, "unreachable", Tokens(unreachable[:_MOST_LISTED])),
            (tokenizer.name, "parts of characters", Tokens(partial[:_MOST_LISTED])),
        ]
    ranges = [
        f"{low}–{high - 1} times" if high - low > 1 else "once"
        for low, high in itertools.pairwise(_BOUNDS)
    ]
    return Section(
        "Unused, rare and unreachable tokens",
        [
            "How many tokens of more than one byte occur how often in the sampled documents. "
            "Unreachable tokens are produced by no text: the tokenizer encodes them as other "
            "tokens, alone and between other characters, or no valid UTF-8 has their bytes. Parts "
            "of characters are tokens that are not complete UTF-8.",
            Table(
                ("tokenizer", "tokens", "unused", *ranges, f"{_BOUNDS[-1]} times or more",
                 "unreachable", "parts of characters"),
                used_rows,
            ),
            f"At most {_MOST_LISTED} of each kind. A blank is shown as ·, a line end as ↵, a byte "
            "of an incomplete character as <e7>.",
            Table(("tokenizer", "kind", "tokens"), listed),
        ],
    )  # fmt: skip


def _overlap(tokenizers: Sequence[ComparedTokenizer]) -> Section:
    sets = [set(tokenizer.tokens) for tokenizer in tokenizers]
    rows = [
        (
            tokenizer.name,
            *(
                f"{len(own & other):,} ({len(own & other) / max(1, len(own)):.1%})"
                for other in sets
            ),
        )
        for tokenizer, own in zip(tokenizers, sets, strict=True)
    ]
    return Section(
        "Vocabulary overlap",
        [
            "How many tokens of the tokenizer in a row the tokenizer in a column has, too.",
            Table(("", *(tokenizer.name for tokenizer in tokenizers)), rows),
        ],
    )


def _examples(groups: Sequence[Sequence[Measured]]) -> Section:
    rows: list[tuple[str, str, str | Tokens]] = []
    for group in groups:
        tokenizers = [one.tokenizer for one in group]
        for example in different_lines(tokenizers, group[0].documents):
            rows += [(group[0].result.corpus, "text", example.line)]
            rows += [
                (group[0].result.corpus, tokenizer.name, Tokens(tokens, True, marked))
                for tokenizer, tokens, marked in zip(
                    tokenizers, example.tokens, example.marked, strict=True
                )
            ]
    return Section(
        "Examples",
        [
            "Lines that the tokenizers cut most differently. A mark is at the start of a token "
            "where another tokenizer has no boundary.",
            Table(("corpus", "tokenizer", "tokens"), rows),
        ],
    )
