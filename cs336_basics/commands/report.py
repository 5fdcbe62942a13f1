"""`python -m cs336_basics report`: one page about tokenizers and a run, as HTML or Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import Count, option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import (
    INPUT_HELP,
    TOKENIZERS_HELP,
    Command,
    CorporaOptions,
    Several,
)
from cs336_basics.commands._outputs import check_output


@dataclass(kw_only=True)
class Options(CorporaOptions):
    """Write a report that compares tokenizers on several corpora, as one file.

    The HTML page needs no other file and no network.
    """

    tokenizer: Several = option(TOKENIZERS_HELP, metavar="NAME")
    input: Several = option(INPUT_HELP + "; each one is a corpus")
    output: Several = option("files to write, each .html or .md")
    documents: Count = option("number of evenly spaced documents to take from each corpus", 1000)
    title: str = option("title of the report", "Tokenizer report")
    overwrite: bool = option("replace existing output", False)


def report(options: Options) -> None:
    """Measure the tokenizers and write the report."""
    from cs336_basics.formats.compared_tokenizers import open_tokenizer
    from cs336_basics.reports.page import render_html, render_markdown
    from cs336_basics.reports.tokenizer_report import tokenizer_sections

    renderers = {".html": render_html, ".md": render_markdown}
    for name in options.output:
        if Path(name).suffix not in renderers:
            raise ValueError(f"--output must end in .html or .md, got {short_repr(name)}")
    corpora = options.corpora()
    inputs = [file for _, corpus in corpora for file in corpus.files]
    for name in options.output:
        check_output("--output", name, options.overwrite, [*inputs, *options.tokenizer])
    tokenizers = [open_tokenizer(name) for name in options.tokenizer]
    sections = tokenizer_sections(
        tokenizers, corpora, documents=options.documents, separator=options.separator
    )
    for name in options.output:
        with atomic_writer(name, "w") as file:
            file.write(renderers[Path(name).suffix](options.title, sections))
        say(f"written to {name}")


COMMAND = Command(
    "report",
    Options,
    report,
    "report --tokenizer tokenizers/a tokenizers/b --input a.txt b.txt --output report.html",
    "report --tokenizer tokenizers/a gpt2 --input 'web/*.jsonl.gz' --field text \\\n"
    "      --output report.html report.md",
)
