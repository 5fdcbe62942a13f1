"""Run a campaign: `python -m tests.campaign --minutes 60`."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.campaign import report
from tests.campaign.row import Row, all_rows
from tests.campaign.runner import Result, repeat_command, run_row


def main(words: list[str] | None = None, rows: dict[str, Row] | None = None) -> int:
    """Run a campaign or repeat a case. Return the exit status."""
    rows = all_rows() if rows is None else rows
    parser = argparse.ArgumentParser("python -m tests.campaign", description=__doc__)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"rows to run (default: all): {', '.join(rows)}"
    )
    parser.add_argument("--minutes", type=float, default=60, help="time for all rows (60)")
    parser.add_argument("--seed", type=int, help="seed of all cases (default: a new one)")
    parser.add_argument("--case", type=int, help="check this case of one row again")
    parser.add_argument(
        "--report",
        type=Path,
        help=f"page to write (default: docs/{report.PAGE.name} if all rows run)",
    )
    options = parser.parse_args(words)
    if unknown := set(options.rows) - set(rows):
        parser.error(f"no such row: {', '.join(sorted(unknown))}; the rows are {', '.join(rows)}")
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    if options.case is not None:
        if len(options.rows) != 1:
            parser.error("--case needs the name of one row")
        return repeat(rows[options.rows[0]], seed, options.case)
    chosen = {name: rows[name] for name in options.rows or rows}
    page = options.report or (None if options.rows else report.PAGE)
    return run(chosen, seed, options.minutes * 60, page)


def repeat(row: Row, seed: int, number: int) -> int:
    """Check one case in this process, with its traceback."""
    try:
        checked, notes = row.run(seed, number)
    except pytest.skip.Exception as skipped:
        print(f"{row.name}: case {number} is skipped: {skipped}")
    else:
        print(f"{row.name}: case {number} passed: {checked:,} {row.counts} {dict(notes) or ''}")
    return 0


def run(rows: dict[str, Row], seed: int, seconds: float, page: Path | None) -> int:
    """Run the rows, share the time among them, and write the report."""
    # What a finite row leaves of its time goes to the rows after it. The rows with the largest
    # shares come last, because their cases, files of tests, can use all of it.
    order = sorted(rows.values(), key=lambda row: (row.share, row.cases is None))
    print(f"seed {seed}; {report.machine()}", flush=True)
    start = time.monotonic()
    results: dict[str, Result] = {}
    try:
        for number, row in enumerate(order):
            left = seconds - (time.monotonic() - start)
            share = row.share / sum(later.share for later in order[number:])
            seconds_of_row = max(0, left) * share
            print(f"{row.name}: {number + 1} of {len(order)}, {seconds_of_row:.0f} s", flush=True)
            result = run_row(row, seed, seconds_of_row)
            results[row.name] = result
            print(report.line(row, result), flush=True)
            for case, message in result.failures:
                print(f"{message.rstrip()}\n  {repeat_command(row.name, seed, case)}", flush=True)
    except KeyboardInterrupt:
        print(f"\nstopped in the row {row.name}; no report is written", flush=True)
        return 130
    if page is not None:
        report.write(page, rows, results, seed, time.monotonic() - start)
        print(f"wrote {page}")
    failed = sum(len(result.failures) for result in results.values())
    print(f"{failed} failures" if failed else "no failures")
    return 1 if failed else 0


if __name__ == "__main__":
    # SIGTERM stops a campaign like Ctrl-C, which shells let background processes ignore.
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, signal.default_int_handler)
    sys.exit(main())
