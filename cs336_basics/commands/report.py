"""`python -m cs336_basics report`: one page about tokenizers and a run, as HTML or Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import Count, option
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import (
    CHECKPOINT,
    CORPORA_HELP,
    OVERWRITE,
    TOKENIZERS_HELP,
    Command,
    CorporaOptions,
    Several,
)
from cs336_basics.commands._outputs import check_output


@dataclass(kw_only=True)
class Options(CorporaOptions):
    """Write a report as one file: a comparison of tokenizers on corpora, a run, or both.

    The HTML page is self-contained.
    """

    tokenizer: Several = option(f"{TOKENIZERS_HELP} (default: the run's)", (), metavar="NAME")
    input: Several = option(CORPORA_HELP, ())
    run: str | None = option(
        "run directory to report on: losses, samples and under-trained tokens", None, metavar="DIR"
    )
    checkpoint: str | None = CHECKPOINT
    output: Several = option("files to write, each .html or .md")
    documents: Count = option("number of evenly spaced documents to take from each corpus", 1000)
    title: str | None = option("title of the report", None)
    overwrite: bool = OVERWRITE

    def __post_init__(self) -> None:
        """Check the extensions of the output files, and that there is something to report."""
        super().__post_init__()
        for name in self.output:
            if Path(name).suffix not in (".html", ".md"):
                raise InputError(
                    f"must end in .html or .md, got {short_repr(name)}", argument="output"
                )
        if self.input and not self.tokenizer and self.run is not None:
            self.tokenizer = (str(RunDirectory(self.run).tokenizer),)
        if self.checkpoint is not None and self.run is None:
            raise InputError(("requires ", Argument("run")), argument="checkpoint")
        if bool(self.tokenizer) != bool(self.input) or not (self.input or self.run):
            raise InputError("pass --tokenizer and --input, or --run, or --run and --input")


def report(options: Options) -> None:
    """Measure the tokenizers, examine the run, and write the report."""
    from cs336_basics.reports.page import Section, render_html, render_markdown

    corpora = options.corpora()
    inputs = [file for _, corpus in corpora for file in corpus.files]
    for index, name in enumerate(options.output):
        others = [*inputs, *options.tokenizer, *options.output[:index]]
        check_output("output", name, options.overwrite, others)
    sections: list[Section] = []
    if options.run is not None:
        from cs336_basics.reports.run_report import run_sections

        sections += run_sections(options.run, options.checkpoint or "last")
    if options.tokenizer:
        from cs336_basics.formats.compared_tokenizers import open_tokenizer
        from cs336_basics.reports.tokenizer_report import tokenizer_sections

        sections += tokenizer_sections(
            [open_tokenizer(name) for name in options.tokenizer],
            corpora,
            documents=options.documents,
            separator=options.separator,
        )
    title = options.title or ("Run report" if options.run is not None else "Tokenizer report")
    for name in options.output:
        render = render_html if Path(name).suffix == ".html" else render_markdown
        with atomic_writer(name, "w") as file:
            file.write(render(title, sections))
        say(f"written to {name}")


COMMAND = Command(
    "report",
    Options,
    report,
    "report --tokenizer tokenizers/a tokenizers/b --input a.txt b.txt --output report.html",
    "report --run runs/my --output run.html",
    "report --run runs/my --checkpoint best --output run.html",
    "report --tokenizer tokenizers/a gpt2 --input 'web/*.jsonl.gz' --field text \\\n"
    "      --output report.html report.md",
    uses_torch=True,
)
