"""Record the results of a benchmark run and rewrite all tables and plots.

    pytest benchmarks --benchmark-only --benchmark-json=benchmarks/results/latest.json
    python -m benchmarks.report.pages benchmarks/results/latest.json

The results are stored as rows in benchmarks/results/measurements.json, where they replace rows with
the same task and stage. All tables are written to benchmarks/results/tables.md, and some of them
also to the marked blocks in PAGES. The plots are in benchmarks/results. Without an argument, tables
and plots are rewritten from the recorded rows.
"""

import argparse
import json
from pathlib import Path

from benchmarks.machine import PAGES, ROOT
from benchmarks.report import measurements, plots, tables
from benchmarks.report.measurements import Measurement

SECTIONS = {
    "summary": "Summary: the first stage, the last one, and other libraries",
    "common": "From the start, at sizes that every stage can finish",
    "merging": "Merging, whole corpora: seconds, and **times** the rate of the previous stage",
    "merging-phases": "Merging, phase by phase",
    "end-to-end": "From the start: reading, counting and merging, with other libraries",
    "end-to-end-phases": "From the start, phase by phase",
    "counting": "Counting: rates, and **times** the rate of the previous stage",
    "encoding": "Encoding: rates, and **times** the rate of the previous stage",
    "decoding": "Decoding ten million ids",
    "real-tokenizers": "Published tokenizers, with the libraries of their owners",
    "growth": "Growth: time as a power of the size",
    "extrapolated": "Errors of extrapolated times, checked on completed runs",
    "full-size": "Texts with the size of whole corpora",
    "ablations": "Ablations",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?", help="file that --benchmark-json wrote")
    options = parser.parse_args()
    if options.results:
        rows = rows_of_file(options.results)
        measurements.record(rows, "pytest benchmarks --benchmark-only")
        print(f"{len(rows)} measurements recorded in {measurements.FILE.name}")
    print(f"written: {', '.join(write_all())}")


def rows_of(infos):
    """Return the rows that `measurements.attach` added to benchmarks, given their extra_info."""
    return [Measurement(**row) for info in infos for row in info.get("measurements", [])]


def rows_of_file(path):
    """Return the rows in a file that --benchmark-json wrote."""
    benchmarks = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    return rows_of(benchmark["extra_info"] for benchmark in benchmarks)


def write_all(root=ROOT):
    """Write tables and plots, and return the names of the files."""
    results = root / "benchmarks" / "results"
    rows = measurements.read(results / measurements.FILE.name)
    lines = ["# Benchmark results", "", *tables.lines_of("machine", rows)]
    for name, title in SECTIONS.items():
        lines += [f"## {title}", "", *tables.lines_of(name, rows)]
        if name in plots.PLOTS:
            lines += [f"![{title}]({name}.svg)", ""]
    (results / "tables.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    written = ["tables.md"]
    for document in PAGES:
        path = root / document.relative_to(ROOT)
        if path.exists():
            text = path.read_text(encoding="utf-8")
            path.write_text(tables.fill(text, rows), encoding="utf-8")
            written.append(path.name)
    return [*written, *plots.plot_all(rows, results)]


if __name__ == "__main__":
    main()
