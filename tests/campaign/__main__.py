"""Run a campaign: `python -m tests.campaign --minutes 60`."""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.campaign import report
from tests.campaign.row import Row, all_rows
from tests.campaign.runner import Result, repeat_command, run_row
from tests.campaign.schedule import Schedule


def main(words: list[str] | None = None, rows: dict[str, Row] | None = None) -> int:
    """Run a campaign or repeat a case. Return the exit status."""
    rows = all_rows() if rows is None else rows
    parser = argparse.ArgumentParser("python -m tests.campaign", description=__doc__)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"rows to run (default: all): {', '.join(rows)}"
    )
    parser.add_argument("--minutes", type=float, default=60, help="time for all rows (60)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="rows that run at a time (%(default)s)"
    )
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
    return run(chosen, seed, options.minutes * 60, page, max(1, options.jobs))


def repeat(row: Row, seed: int, number: int) -> int:
    """Check one case in this process, with its traceback."""
    try:
        checked, notes = row.run(seed, number)
    except pytest.skip.Exception as skipped:
        print(f"{row.name}: case {number} is skipped: {skipped}")
    else:
        print(f"{row.name}: case {number} passed: {checked:,} {row.counts} {dict(notes) or ''}")
    return 0


def run(rows: dict[str, Row], seed: int, seconds: float, page: Path | None, jobs: int) -> int:
    """Run the rows, some at a time, share the time among them, and write the report."""
    print(f"seed {seed}; {report.machine()}", flush=True)
    start = time.monotonic()
    schedule = Schedule(list(rows.values()), start + seconds, jobs)
    stop = threading.Event()
    results: dict[str, Result] = {}

    def work() -> None:
        while not stop.is_set() and (found := schedule.next()):
            row, seconds_of_row = found
            print(f"{row.name}: {seconds_of_row:.0f} s", flush=True)
            result = run_row(row, seed, seconds_of_row, stop=stop)
            schedule.finished(row)
            results[row.name] = result
            lines = [report.line(row, result)]
            for case, message in result.failures:
                lines += [message.rstrip(), f"  {repeat_command(row.name, seed, case)}"]
            print("\n".join(lines), flush=True)

    # The threads only wait for the processes that check the cases.
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            for future in [pool.submit(work) for _ in range(jobs)]:
                future.result()
        except KeyboardInterrupt:
            print("\nstopped; no report is written", flush=True)
            return 130
        finally:
            stop.set()
    if page is not None:
        results = {name: results[name] for name in rows}
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
