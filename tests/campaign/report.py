"""The report of a campaign: docs/reliability.md."""

from __future__ import annotations

import datetime
import functools
import platform
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from cs336_basics._support.files import atomic_writer
from tests.campaign.promises import PROOFS, key_of, promises
from tests.campaign.row import Row
from tests.campaign.runner import Result, repeat_command

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"


def machine() -> str:
    """Return the CPU, the cores, the system and the version of Python."""
    from benchmarks.machine import machine_info

    info = machine_info()
    return (
        f"{info['cpu']}, {info['cores']} cores, {platform.system()}, Python {info['python']}, "
        f"regex {info['regex']}"
    )


def commit() -> str:
    """Return the commit of the checkout, with a note if files were changed since."""
    try:
        words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def figure(row: Row, result: Result) -> str:
    """Return what was checked, such as "1,000 texts in 100 cases, no failure"."""
    of = f" of {result.planned:,}" if result.planned is not None else ""
    failed = f"{len(result.failures)} failed" if result.failures else "no failure"
    parts = [f"{result.checked:,} {row.counts} in {result.cases:,}{of} cases", failed]
    if result.skipped:
        parts.append(f"{result.skipped.total():,} cases skipped")
    if result.unfinished:
        parts.append("the last one was not finished")
    return ", ".join(parts)


def line(row: Row, result: Result) -> str:
    """Return a row's line of a running campaign."""
    return f"{row.name:24} {figure(row, result)}, {result.seconds:.0f} s"


def write(
    page: Path, rows: dict[str, Row], results: dict[str, Result], seed: int, seconds: float
) -> None:
    """Write the report, completely or not at all."""
    with atomic_writer(page, "w") as file:
        file.write(text_of(rows, results, seed, seconds))


def text_of(rows: dict[str, Row], results: dict[str, Result], seed: int, seconds: float) -> str:
    """Return the page."""
    failures = sum(len(result.failures) for result in results.values())
    date = datetime.datetime.now(datetime.timezone.utc).date()
    outcome = f"Failures: {failures}; see below." if failures else "No case failed."
    paragraphs = [
        "# What was checked",
        "`make campaign BUDGET=60` checks what [guarantees.md](guarantees.md) promises for 60 "
        "minutes, and writes this page. Random cases are new in each campaign. Rows that a budget "
        "does not finish check other cases in the next campaign.",
        f"This campaign took {seconds / 60:.0f} minutes on {date}, with the seed {seed} and the "
        f"commit {commit()}: {machine()}. {outcome}",
        "## Promises",
        _promises(results),
        "## Rows",
        _rows(rows, results),
    ]
    if notes := _notes(results):
        paragraphs += ["## Counted, but not failures", notes]
    if failures:
        paragraphs += ["## Failures", _failures(results)]
    missing = _skipped(results)
    paragraphs += ["## Not checked on this machine", missing or "Nothing was skipped."]
    return (
        "\n\n".join(
            part if part.startswith(("|", "- ", "```")) else textwrap.fill(part, 120)
            for part in paragraphs
        )
        + "\n"
    )


def _state(result: Result | None) -> str:
    if result is None:
        return "not run"
    if result.failures:
        return "**failed**"
    if not result.cases:
        return "not finished" if result.unfinished else "skipped"
    return "passed" if result.planned is None or result.is_complete else "passed in part"


def _promises(results: dict[str, Result]) -> str:
    lines, section = [], None
    for promise in promises():
        if promise.section != section:
            section = promise.section
            lines.append(f"| {section} | proved by |\n| --- | --- |")
        proofs = PROOFS.get(key_of(promise) or "")
        if proofs is None:
            shown = "**nothing**"
        else:
            rows = [f"{name}: {_state(results.get(name))}" for name in proofs if "/" not in name]
            tests = [_link(name) for name in proofs if "/" in name]
            if tests:
                rows.append(f"single-tests ({', '.join(tests)}): "
                            f"{_state(results.get('single-tests'))}")  # fmt: skip
            shown = "; ".join(rows) or "no promise"
        sentence = promise.sentence.replace("|", "\\|")
        lines.append(f"| {sentence} | {shown} |")
    # A table for each section.
    return re.sub(r"\n(?=\| [^\n]* \| proved by \|)", "\n\n", "\n".join(lines))


def _link(test: str) -> str:
    file, _, name = test.partition("::")
    shown = (name or Path(file).stem).removeprefix("test_").replace("_", " ")
    return f"[{shown}](../{file})"


def _rows(rows: dict[str, Row], results: dict[str, Result]) -> str:
    lines = ["| row | what it shows | checked | seconds |", "| --- | --- | --- | ---: |"]
    for name, result in results.items():
        title = rows[name].title.replace("|", "\\|")
        lines.append(f"| {name} | {title} | {figure(rows[name], result)} | {result.seconds:,.0f} |")
    return "\n".join(lines)


def _notes(results: dict[str, Result]) -> str:
    lines = [
        f"- {name}: " + "; ".join(f"{number:,} {_plain(note)}" for note, number in notes)
        for name, result in results.items()
        if (notes := [n for n in sorted(result.notes.items()) if not n[0].startswith("skipped: ")])
    ]
    return "\n".join(lines)


def _skipped(results: dict[str, Result]) -> str:
    lines = []
    for name, result in results.items():
        reasons = set(result.skipped)
        reasons |= {n.removeprefix("skipped: ") for n in result.notes if n.startswith("skipped: ")}
        lines += [f"- {name}: {_plain(reason)}" for reason in sorted(reasons)]
        if result.planned is not None and not result.is_complete:
            left = result.planned - result.cases - result.skipped.total() - len(result.failures)
            lines += [
                f"- {name}: {left:,} of {result.planned:,} cases, because the time was up"
            ] * (left > 0)
    return "\n".join(lines)


def _failures(results: dict[str, Result]) -> str:
    lines = []
    for name, result in results.items():
        for case, message in result.failures:
            last = message.strip().splitlines()[-1]
            lines.append(f"- {name}: {_plain(last)}. To repeat it: "
                         f"`{repeat_command(name, result.seed, case)}`")  # fmt: skip
    return "\n".join(lines)


_ABSOLUTE_PATH = re.compile(r"(?<![\w.:/<])(?:[A-Za-z]:)?(?:[\\/][\w.+@~-]+)+[\\/]([\w.+@~-]+)")


@functools.cache
def _directories() -> list[str]:
    """Return the directories that messages name with a prefix, as in `-I/home/me/project`."""
    here = [ROOT, Path.cwd(), Path.home(), tempfile.gettempdir(), sys.prefix, sys.base_prefix]
    found = {str(path) for name in here for path in (Path(name), Path(name).resolve())}
    return sorted((path for path in found if Path(path).name), key=len, reverse=True)


def _plain(text: str) -> str:
    """Return text without the directories of this machine, and without effect in Markdown."""
    from cs336_basics._support.visible import markdown_text

    shown = _ABSOLUTE_PATH.sub(r"\1", " ".join(text.split()))
    for directory in _directories():
        shown = re.sub(rf"{re.escape(directory)}(?:[\\/]|(?![\w.+@~-]))", "", shown)
    return markdown_text(shown[:300])
