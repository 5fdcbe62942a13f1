"""`python -m cs336_basics compare`: compare tokenizers from several libraries on the same text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cs336_basics._support.messages import counted
from cs336_basics._support.validation import Count, option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import TOKENIZERS_HELP, Command, CorporaOptions, Several
from cs336_basics.commands._tables import table_lines

if TYPE_CHECKING:
    from cs336_basics.formats.compared_tokenizers import ComparedTokenizer
    from cs336_basics.formats.comparison import Result


@dataclass(kw_only=True)
class Options(CorporaOptions):
    """Compare tokenizers: bytes per token, speed in one thread, and the longest tokens.

    Documents that change when they are encoded and decoded are reported below the table.
    """

    tokenizer: Several = option(TOKENIZERS_HELP, metavar="NAME")
    documents: Count = option("number of evenly spaced documents to take from each corpus", 10)
    gigabytes: float = option(
        "size in GB of the text for the hours column; the default is the size of the Pile",
        825.0,
        rare=True,
        gt=0,
    )
    format: Literal["table", "json"] = option("output format", "table")


def compare(options: Options) -> None:
    """Run the comparison, and print a table or JSON."""
    from cs336_basics.formats import comparison
    from cs336_basics.formats.compared_tokenizers import open_tokenizer

    tokenizers = [open_tokenizer(name) for name in options.tokenizer]
    measured = comparison.measure(
        tokenizers,
        options.corpora(listed=options.format == "table"),
        documents=options.documents,
        gigabytes=options.gigabytes,
        separator=options.separator,
    )
    results = [each.result for each in measured]
    if options.format == "json":
        say(json.dumps(_as_json(tokenizers, results, options.gigabytes), indent=2))
        return
    for line in _table(results, options.gigabytes):
        say(line)
    say("")
    say(f"the {comparison.NUM_LONGEST} longest tokens, special tokens excluded:")
    for tokenizer in tokenizers:
        shown = " ".join(map(_quoted, comparison.longest_tokens(tokenizer)))
        size = counted(tokenizer.num_tokens, "token")
        say(f"{tokenizer.name} ({tokenizer.library}, {size}): {shown}")


def _table(results: Sequence[Result], gigabytes: float) -> list[str]:
    """Return the results as lines of text."""
    hours = f"hours for {gigabytes:g} GB"
    header = ("corpus", "tokenizer", "documents", "bytes", "tokens", "bytes/token", "MB/s", hours)
    rows = [
        (
            result.corpus,
            result.tokenizer,
            f"{result.num_documents:,} of {result.all_documents:,}",
            f"{result.num_bytes:,}",
            f"{result.num_tokens:,}",
            f"{result.bytes_per_token:.3f}",
            f"{result.megabytes_per_second:,.2f}",
            f"{result.hours:,.2f}",
        )
        for result in results
    ]
    lines = table_lines(header, rows, num_names=2)
    for result in results:
        if result.changed_documents:
            lines.append(
                f"{result.tokenizer} changes {result.changed_documents:,} of the "
                f"{result.num_documents:,} documents in {result.corpus}"
            )
    timed = "megabyte of each corpus"
    if len({result.corpus for result in results}) == 1:
        timed = f"{counted(results[0].timed_bytes, 'byte')} of {results[0].corpus}"
    lines.append(f"speed: CPU time of one thread with cold caches on the first {timed}")
    return lines


def _as_json(
    tokenizers: Sequence[ComparedTokenizer], results: Sequence[Result], gigabytes: float
) -> dict[str, object]:
    from cs336_basics.formats.comparison import longest_tokens

    return {
        "gigabytes": gigabytes,
        "tokenizers": [
            {
                "name": tokenizer.name,
                "library": tokenizer.library,
                "num_tokens": tokenizer.num_tokens,
                "longest_tokens": [
                    token.decode("utf-8", "backslashreplace") for token in longest_tokens(tokenizer)
                ],
            }
            for tokenizer in tokenizers
        ],
        "results": [dataclasses.asdict(result) for result in results],
    }


def _quoted(token: bytes) -> str:
    """Return the repr of the token's text, or of its bytes if they are not valid UTF-8."""
    try:
        return repr(token.decode())
    except UnicodeDecodeError:
        return repr(token)


COMMAND = Command(
    "compare",
    Options,
    compare,
    "compare --tokenizer tokenizers/a tokenizers/b --input a.txt b.txt",
    "compare --tokenizer tokenizers/a gpt2 llama/tokenizer.json --input 'web/*.jsonl.gz' \\\n"
    "      --field text --documents 1000 --format json",
)
