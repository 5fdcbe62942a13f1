"""The sections of a report that compares tokenizers on corpora."""

from __future__ import annotations

import itertools
import math
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from cs336_basics._support.errors import InputError
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics._support.visible import visible
from cs336_basics.formats.compared_tokenizers import ComparedTokenizer
from cs336_basics.formats.comparison import Measured, longest_tokens, measure
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
from cs336_basics.reports.page import Chart, Quote, Section, Table, Tokens
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import count_steps, only_steps
from cs336_basics.tokenizer.description import described_parts

_MOST_LISTED = 20
_RANKS = [10**power for power in range(5)]
_BOUNDS = (1, 2, 10, 100, 1000)  # of the number of occurrences
_RANGES = ("once", "2–9 times", "10–99 times", "100–999 times", "1,000 times or more")
_POINTS_PER_DECADE = 20
_FINAL_SHARES = (0.0, 0.01, 0.1)


def tokenizer_sections(
    tokenizers: Sequence[ComparedTokenizer],
    corpora: Sequence[tuple[str, Corpus]],
    *,
    documents: int = 1000,
    separator: str = END_OF_TEXT,
) -> list[Section]:
    """Return the sections of a report on tokenizers.

    See `measure` for the arguments and the other errors.

    Raises:
        ValueError: If two tokenizers or two corpora have the same name.
    """
    for names in ([t.name for t in tokenizers], [name for name, _ in corpora]):
        for name in names:
            if names.count(name) > 1:
                raise InputError(
                    f"tokenizers and corpora must have different names, got {name!r} twice",
                    remedy="remove one",
                )
    measured = list(measure(tokenizers, corpora, documents=documents, separator=separator))
    groups = [list(group) for _, group in itertools.groupby(measured, lambda m: m.result.corpus)]
    counts = {t.name: Counter[int]() for t in tokenizers}
    scripts: dict[str, dict[str, WordTotals]] = {t.name: {} for t in tokenizers}
    rows = []
    for group in groups:
        words = count_words(group[0].documents)
        for one in group:
            found = Counter(itertools.chain.from_iterable(one.ids))
            totals = word_totals(one.tokenizer, words)
            rows.append(_figures(one, group[0], found, sum(totals.values(), WordTotals())))
            counts[one.tokenizer.name].update(found)
            of_tokenizer = scripts[one.tokenizer.name]
            for script, total in totals.items():
                of_tokenizer[script] = of_tokenizer.get(script, WordTotals()) + total
    sections = [
        _parts(tokenizers),
        _compression(tokenizers, rows),
        _scripts(scripts),
        _frequencies(counts),
        _tokens(tokenizers, counts),
        *_steps(tokenizers, counts),
    ]
    return sections + ([_overlap(tokenizers), _examples(groups)] if len(tokenizers) > 1 else [])


def _number(value: float, limits: tuple[float, float] | None = None) -> str:
    """Return a number with its interval, if any, or a dash for NaN."""
    shown = f" [{limits[0]:,.3f}, {limits[1]:,.3f}]" if limits else ""
    return f"{value:,.3f}{shown}" if math.isfinite(value) else "–"


def _word_figures(total: WordTotals) -> tuple[str, str, str]:
    share = f"{total.share_whole:.1%}" if total.words else "–"
    return f"{total.words:,}", _number(total.fertility), share


def _figures(
    one: Measured, first: Measured, counts: Mapping[int, int], words: WordTotals
) -> tuple[str, ...]:
    """Return the table row for a tokenizer on a corpus. Relative tokens are relative to `first`."""
    result = one.result
    sizes = [len(document.encode()) for document in one.documents]
    lengths, base = list(map(len, one.ids)), list(map(len, first.ids))
    return (
        result.corpus,
        result.tokenizer,
        f"{result.num_documents:,} of {result.all_documents:,}",
        f"{result.num_tokens:,}",
        _number(result.bytes_per_token, interval(sizes, lengths)),
        "–" if one is first else _number(sum(lengths) / sum(base), interval(lengths, base)),
        *_word_figures(words),
        _number(renyi_efficiency(counts.values(), one.tokenizer.num_tokens)),
        f"{result.megabytes_per_second:,.2f}",
        f"{result.changed_documents:,}",
    )


def _parts(tokenizers: Sequence[ComparedTokenizer]) -> Section:
    header = ("tokenizer", "library", "tokens")
    sizes = [(t.name, t.library, f"{t.num_tokens:,}") for t in tokenizers]
    parts = [
        (compared.name, part, text)
        for compared in tokenizers
        if compared.tokenizer is not None
        for part, text in described_parts(compared.tokenizer.definition).items()
    ]
    blocks: list[str | Table | Chart | Quote] = [Table(header, sizes)]
    if parts:
        blocks += [
            "A text passes the parts of a tokenizer in this order:",
            Table(("tokenizer", "part", "value"), parts),
        ]
    return Section("Tokenizers", blocks)


def _compression(
    tokenizers: Sequence[ComparedTokenizer], rows: Sequence[tuple[str, ...]]
) -> Section:
    header = (
        "corpus,tokenizer,documents,tokens,bytes per token,relative tokens,words,fertility,"
        "words of one token,Rényi efficiency,MB/s,changed documents"
    )
    return Section(
        "Compression and speed",
        [
            "Intervals are 95% confidence intervals over documents (bootstrap). Relative tokens "
            f"are the number of tokens per token of {tokenizers[0].name} on the same documents. "
            "Fertility is the number of tokens per word. A word is a run of letters of one script, "
            "with the space before it; in scripts without spaces, it may be a whole phrase. The "
            f"Rényi efficiency (order {ALPHA}; Zouhar et al. 2023) is near 1 if all tokens are "
            "equally frequent. Speed is measured in one thread with cold caches, on "
            f"{platform.machine()} with {os.cpu_count()} cores. Changed documents differ "
            "from the original after decoding.",
            Table(header.split(","), rows),
        ],
    )


def _scripts(totals: Mapping[str, Mapping[str, WordTotals]]) -> Section:
    first = next(iter(totals.values()))
    rows = [
        (script, name, *_word_figures(total), _number(total.bytes_per_token))
        for script in sorted(first, key=lambda script: -first[script].words)
        for name, by_script in totals.items()
        for total in [by_script[script]]
    ]
    fairness = []
    for name, by_script in totals.items():
        used = [t.bytes_per_token for t in by_script.values() if t.words >= MIN_WORDS]
        fairness.append((name, str(len(used)), _number(gini(used))))
    header = ("script", "tokenizer", "words", "fertility", "words of one token", "bytes per token")
    return Section(
        "Scripts",
        [
            "The Gini coefficient of bytes per token is 0 if the tokenizer serves all scripts "
            f"equally well. Scripts with fewer than {MIN_WORDS} words are left out.",
            Table(("tokenizer", "scripts", "Gini coefficient"), fairness),
            "Words of all corpora by script:",
            Table(header, rows),
        ],
    )


def _frequencies(counts: Mapping[str, Counter[int]]) -> Section:
    series, rows = {}, []
    for name, found in counts.items():
        shares = [count / found.total() for _, count in found.most_common()]
        last = _POINTS_PER_DECADE * math.log10(len(shares))
        steps = (10 ** (i / _POINTS_PER_DECADE) for i in range(math.ceil(last) + 1))
        ranks = sorted({min(len(shares), round(step)) for step in steps})
        series[name] = [(rank, shares[rank - 1]) for rank in ranks]
        cells = (f"{shares[rank - 1]:.4%}" if rank <= len(shares) else "–" for rank in _RANKS)
        rows.append((name, *cells))
    title = "Share of all tokens against rank, logarithmic axes"
    drawn = chart(series, title=title, x="rank of the token", y="share of all tokens", log="xy")
    header = ("tokenizer", *(f"rank {rank:,}" for rank in _RANKS))
    return Section("Frequency against rank", [f"{title}.", Chart(drawn), Table(header, rows)])


def _tokens(tokenizers: Sequence[ComparedTokenizer], counts: Mapping[str, Counter[int]]) -> Section:
    used, listed = [], []
    for tokenizer in tokenizers:
        vocab, found = tokenizer.vocab, counts[tokenizer.name]
        ids = [i for i in sorted(vocab.keys() - tokenizer.special) if len(vocab[i]) > 1]
        unused = [vocab[i] for i in ids if not found[i]]
        rarest = sorted((i for i in ids if found[i]), key=lambda i: (found[i], -i))
        unreachable, partial = unreachable_tokens(tokenizer)
        reached = [*(sum(found[i] >= bound for i in ids) for bound in _BOUNDS), 0]
        in_ranges = (more - less for more, less in itertools.pairwise(reached))
        sizes = (len(ids), len(unused), *in_ranges, len(unreachable), len(partial))
        used.append((tokenizer.name, *(f"{size:,}" for size in sizes)))
        kinds = {
            "longest": longest_tokens(tokenizer),
            "unused": unused,
            "rarest": [vocab[i] for i in rarest],
            "unreachable": unreachable,
            "parts of characters": partial,
        }
        listed += [
            (tokenizer.name, kind, Tokens(tokens[:_MOST_LISTED]) if tokens else "–")
            for kind, tokens in kinds.items()
        ]
    header = ("tokenizer", "tokens", "unused", *_RANGES, "unreachable", "parts of characters")
    return Section(
        "Unused, rare and unreachable tokens",
        [
            "The table groups tokens of more than one byte by how often they occur in the sampled "
            "documents. No text produces an unreachable token: its text is encoded as other "
            "tokens, both alone and between other characters, or no valid UTF-8 contains its "
            "bytes. Parts of characters are tokens that are not complete UTF-8.",
            Table(header, used),
            f"At most {_MOST_LISTED} tokens of each kind are listed. A space is shown as ·, a line "
            "feed as ↵, and a byte of an incomplete character as <e7>.",
            Table(("tokenizer", "kind", "tokens"), listed),
        ],
    )


def _steps(
    tokenizers: Sequence[ComparedTokenizer], counts: Mapping[str, Counter[int]]
) -> list[Section]:
    """Return a section about tokens as steps, for the tokenizers whose merges are known."""
    rows: list[tuple[str, ...]] = []
    listed: list[tuple[str, str, str, str]] = []
    for compared in tokenizers:
        tokenizer = compared.tokenizer
        if tokenizer is None:
            continue
        final = np.zeros(tokenizer.vocab_size, np.int64)
        for token_id, number in counts[compared.name].items():
            final[token_id] = number
        steps = count_steps(tokenizer, final)
        are_steps = np.flatnonzero(steps)
        shares = final[are_steps] / (final[are_steps] + steps[are_steps])
        numbers = (len(are_steps), *((shares <= share).sum() for share in _FINAL_SHARES))
        rows.append((compared.name, *(f"{number:,}" for number in numbers)))
        residue = sorted(only_steps(tokenizer, final), key=lambda i: -steps[i])
        listed += [
            (compared.name, visible(tokenizer.vocab[i]), f"{final[i]:,}", f"{steps[i]:,}")
            for i in residue[:_MOST_LISTED]
        ]
    if not rows:
        return []
    header = ("tokenizer", "steps", *(f"final {share:.0%} or less" for share in _FINAL_SHARES))
    return [
        Section(
            "Tokens as steps",
            [
                "A token is a step where a merge produces it and another one merges it further. "
                "Residue tokens are mostly steps and rarely final (Sun et al. 2026). The columns "
                "count the tokens that are steps in the sampled documents, and those of them with "
                "at most this share of final occurrences.",
                Table(header, rows),
                f"The {_MOST_LISTED} most frequent steps that are never final:",
                Table(("tokenizer", "token", "final", "step"), listed),
            ],
        )
    ]


def _overlap(tokenizers: Sequence[ComparedTokenizer]) -> Section:
    sets = {tokenizer.name: set(tokenizer.tokens) for tokenizer in tokenizers}
    rows = [
        (
            name,
            *(f"{len(own & s):,} ({len(own & s) / max(1, len(own)):.1%})" for s in sets.values()),
        )
        for name, own in sets.items()
    ]
    text = "Each cell shows how many tokens of the row's tokenizer the column's tokenizer also has."
    return Section("Vocabulary overlap", [text, Table(("", *sets), rows)])


def _examples(groups: Sequence[Sequence[Measured]]) -> Section:
    rows: list[tuple[str, str, str | Tokens]] = []
    for group in groups:
        corpus, tokenizers = group[0].result.corpus, [one.tokenizer for one in group]
        for line, cut in different_lines(tokenizers, group[0].documents):
            rows.append((corpus, "text", line))
            rows += [(corpus, t.name, tokens) for t, tokens in zip(tokenizers, cut, strict=True)]
    text = (
        "These are the lines that the tokenizers split most differently. Tokens that start where "
        "another tokenizer has no boundary are marked."
    )
    return Section("Examples", [text, Table(("corpus", "tokenizer", "tokens"), rows)])
