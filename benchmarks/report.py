"""Turn the results of a benchmark run into the README's tables and plot.

    pytest benchmarks --benchmark-only --benchmark-json=benchmarks/results/latest.json
    python benchmarks/report.py benchmarks/results/latest.json

All tables go to benchmarks/results/tables.md. The most informative ones, for one corpus, replace
the text between `<!-- benchmarks:begin -->` and `<!-- benchmarks:end -->` in README.md. The plot
is benchmarks/results/trainers.svg.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
PLOT = HERE / "results" / "trainers.svg"
TABLES = HERE / "results" / "tables.md"
# Shown in the README: beginnings of group names, for the first corpus that was measured.
SHOWN = ("end to end", "count", "encode, ", "encode a document of 1,000 ", "decode")
CORPORA = ("tinystories", "owt", "sample")
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="the file that --benchmark-json wrote")
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    groups = defaultdict(list)
    for benchmark in results["benchmarks"]:
        groups[benchmark["group"]].append(benchmark)

    machine = results["machine_info"]
    lines = [
        f"Measured {results['datetime'][:10]} on {machine['cores']} cores of {machine['cpu']}, "
        f"Python {machine['python']}; medians. Made by:",
        "",
        "```",
        f"pytest benchmarks --benchmark-only --benchmark-json={options.results}",
        f"python benchmarks/report.py {options.results}",
        "```",
        "",
    ]
    corpus = next((c for c in CORPORA if any(f" {c}-" in group for group in groups)), "")
    PLOT.parent.mkdir(exist_ok=True)
    everything = list(lines)
    for group, benchmarks in groups.items():
        everything += table(group, benchmarks)
        if group.startswith(SHOWN) and f" {corpus}-" in group:
            lines += table(group, benchmarks)
    TABLES.write_text("# Benchmark results\n\n" + "\n".join(everything), encoding="utf-8")
    plot({g: b for g, b in groups.items() if g.startswith("merge loop")})
    lines += [f"![Merge loop of each trainer]({PLOT.relative_to(README.parent)})", ""]
    lines += [f"All tables: [{TABLES.name}]({TABLES.relative_to(README.parent)}).", ""]

    text = README.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        sys.exit(f"{README} has no {BEGIN} ... {END}: add the two markers where the tables belong")
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    README.write_text(head + BEGIN + "\n" + "\n".join(lines) + END + tail, encoding="utf-8")
    print(f"{len(groups)} tables written to {TABLES}, some to {README}, plot to {PLOT}")


def table(group, benchmarks):
    """Return a Markdown table: name, seconds, times the fastest, and the extra values."""
    fastest = min(b["stats"]["median"] for b in benchmarks)
    extras = [
        (key, title, form)
        for key, title, form in (
            ("megabytes_per_second", "MB/s", "{:,.1f}"),
            ("merges_per_second", "merges/s", "{:,.0f}"),
            ("tokens_per_second", "tokens/s", "{:,.0f}"),
            ("peak_memory", "peak MB", "{:,.0f}"),
        )
        if any(key in b["extra_info"] for b in benchmarks)
    ]
    lines = [
        f"**{group}**",
        "",
        "| | seconds | times the fastest |" + "".join(f" {title} |" for _, title, _ in extras),
        "|---|---|---|" + "---|" * len(extras),
    ]
    for benchmark in benchmarks:
        seconds = benchmark["stats"]["median"]
        cells = [name_of(benchmark), f"{seconds:.3g}", f"{seconds / fastest:.1f}"]
        for key, _, form in extras:
            value = benchmark["extra_info"].get(key)
            if key == "peak_memory" and value is not None:
                value /= 1e6
            if value is not None and 0 < value < 1:
                form = "{:.1g}"
            cells.append("" if value is None else form.format(value))
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def name_of(benchmark):
    params = benchmark["params"] or {}
    for key in ("trainer", "encoder", "attention", "num_workers"):
        if key in params:
            value = params[key]
            return f"{value} workers" if key == "num_workers" else str(value)
    return benchmark["name"]


def plot(groups):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # Otherwise the file would contain the date and random ids, and differ in every run.
    plt.rcParams["svg.hashsalt"] = "cs336_basics"
    names = list(dict.fromkeys(name_of(b) for bs in groups.values() for b in bs))
    figure, axes = plt.subplots(figsize=(8, 0.5 + 0.9 * len(groups)), layout="constrained")
    height = 0.8 / max(len(names), 1)
    for i, name in enumerate(names):
        for row, benchmarks in enumerate(groups.values()):
            seconds = [b["stats"]["median"] for b in benchmarks if name_of(b) == name]
            axes.barh(
                row + i * height, seconds or [0], height, color=f"C{i}", label=None if row else name
            )
    axes.set_yticks([row + 0.4 for row in range(len(groups))], list(groups))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("seconds (log scale; a missing bar was too slow to run)")
    axes.legend()
    figure.savefig(PLOT, metadata={"Date": None})


if __name__ == "__main__":
    main()
