"""Create Markdown tables from measurements, and fill blocks in documents with them.

A block looks like this:

    <!-- table: merging -->
    ...
    <!-- /table -->

The block's name is a key of TABLES. Every ratio in a table is a ratio of rates for the same work
(`measurements.faster`). `≈` marks extrapolated figures.
"""

import itertools
import re
import statistics
from functools import partial

from benchmarks.corpora import COMMON_BYTES, COMMON_VOCAB_SIZE
from benchmarks.report.measurements import faster
from benchmarks.stages import extrapolation
from cs336_basics import TRAINERS
from cs336_basics.commands.train_bpe import phase_lines

STAGES = tuple(TRAINERS)
SIMD_LEVELS = ("scalar", "neon", "avx2", "avx512")
COUNTING_STAGES = (
    "regex, serial", "regex, processes", "compiled, serial", "compiled, processes",
    *(f"compiled, 1 thread, {level}" for level in SIMD_LEVELS), "compiled, threads",
)  # fmt: skip
PHASES = {
    "reading and counting": "read",
    "setting up words": "set up",
    "counting pairs": "count",
    "finding the maximum": "find",
    "updating": "update",
    "building the vocabulary": "build",
}
"""Phase -> column heading."""
LOOP_PHASES = tuple(PHASES)[1:]
TEXTS = {"tinystories": "TinyStories", "owt": "OpenWebText", "sample": "embedded sample"}
WHOLE_SIZES = (10_000, 32_000)
SHARES = (1 / 32, 1 / 4)
"""Shares of the merges from which complete runs are predicted, to check extrapolation."""
STAGE_NAMES = {
    STAGES[0]: f"{STAGES[0]}, the definition in Python",
    STAGES[-1]: f"**{STAGES[-1]}, the default**",
}
"""Longer names of the stages, used in the summary."""
SERIES = {
    "tinystories": (("everything counted again at every merge", "2,187 s"),),
    "owt": (
        ("everything counted again at every merge", "more than 24 h"),
        ("incremental counts", "34,000 - 36,000 s"),
        ("processes for counting", "32,352 s"),
        ("a heap", "1,036 s"),
        ("Cython", "900 s"),
        ("C++ with hash maps", "350 s"),
        ("C++ with a heap", "206 - 258 s"),
    ),
}
"""Times for the whole corpora on 64 cores, from the public series that the stages are based on."""
PEER = " (peer)"
NOTHING = ["*Not measured yet; run `make stages`.*"]
BLOCK = re.compile(r"(<!-- table: ([^>]+?) -->\n).*?(<!-- /table -->)", re.DOTALL)


def fill(document, rows):
    """Return a document with its blocks filled.

    Raises:
        ValueError: If a block's name is unknown.
    """

    def filled(match):
        lines = lines_of(match[2], rows)
        return match[1] + "\n" + "\n".join(lines).strip("\n") + "\n\n" + match[3]

    return BLOCK.sub(filled, document)


def lines_of(name, rows):
    """Return the lines of the table with the given name."""
    if name not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, got {name!r}")
    return TABLES[name](rows) or NOTHING


# --- values --------------------------------------------------------------------------------------


def time_text(seconds):
    """Return a time with three digits, in a suitable unit."""
    for limit, factor, unit in (
        (1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s"), (7_200, 1 / 60, "min"),
        (172_800, 1 / 3_600, "h"), (float("inf"), 1 / 86_400, "days"),
    ):  # fmt: skip
        if seconds < limit:
            return f"{three_digits(seconds * factor)} {unit}"
    raise ValueError(f"seconds must be a finite number, got {seconds}")


def three_digits(value):
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    digits = 2 if abs(value) < 9.995 else 1
    if abs(value) < 0.0995:
        return f"{value:.2g}"
    return f"{value:.{digits}f}"


def seconds_text(row):
    """Return the median time of a row's rounds, with the minimum and the maximum."""
    if len(row.seconds) == 1:
        return f"{median_text(row)} (1 round)"
    return f"{median_text(row)} ({time_text(min(row.seconds))} - {time_text(max(row.seconds))})"


def median_text(row):
    """Return the median time of a row."""
    return ("≈ " if row.is_extrapolated else "") + time_text(row.median)


def shares_texts(row, phases):
    """Return each phase's share of the total time."""
    medians = {phase: statistics.median(seconds) for phase, seconds in row.phases.items()}
    total = sum(medians.values())
    return [f"{medians[phase] / total:.0%}" if phase in medians else "" for phase in phases]


def times_text(row, than):
    """Return the ratio of two rates, such as `×12`, or "" if there is no second row."""
    if than is None:
        return ""
    mark = "≈ " if row.is_extrapolated or than.is_extrapolated else ""
    return f"{mark}×{three_digits(faster(row, than))}"


def text_name(corpus, num_bytes):
    size = f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"
    return f"{TEXTS.get(corpus, corpus)}, {size}"


def task_name(task):
    corpus, num_bytes, vocab_size = task
    return text_name(corpus, num_bytes) + (f", {vocab_size:,} tokens" if vocab_size else "")


def rate_text(row):
    return f"{three_digits(row.rate)} {row.unit}/s"


def megabytes(row):
    return "" if row.peak_memory is None else f"{row.peak_memory / 1e6:,.0f}"


def markdown(header, body):
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(cells) + " |" for cells in body),
        "",
    ]


# --- choosing rows -------------------------------------------------------------------------------


def of_comparison(rows, comparison):
    return [row for row in rows if row.comparison == comparison]


def tasks(rows):
    """Return the tasks (corpus, bytes, vocab_size) of the rows, TinyStories first."""
    order = list(TEXTS)
    found = {(row.corpus, row.bytes, row.vocab_size) for row in rows}
    return sorted(
        found, key=lambda t: (order.index(t[0]) if t[0] in order else 9, t[0], t[1], t[2] or 0)
    )


def at(rows, task):
    """Return the rows of a task by stage: stages in order, then libraries, slowest first."""
    found = [row for row in rows if (row.corpus, row.bytes, row.vocab_size) == task]
    ours = [row for row in found if not row.is_peer]
    order = (*STAGES, *COUNTING_STAGES)
    if all(row.stage in order for row in ours):  # rows are in recording order
        ours.sort(key=lambda row: order.index(row.stage))
    peers = sorted((row for row in found if row.is_peer), key=lambda row: row.rate)
    return {row.stage: row for row in [*ours, *peers]}


def largest_tasks(rows):
    """Return the tasks on the largest text of each corpus."""
    most = {}
    for corpus, num_bytes, _ in tasks(rows):
        most[corpus] = max(num_bytes, most.get(corpus, 0))
    return [t for t in tasks(rows) if t[1] == most[t[0]]]


def whole_tasks(rows):
    """Return the tasks on the largest text of each corpus, with the sizes in WHOLE_SIZES."""
    return largest_tasks([row for row in rows if row.vocab_size in WHOLE_SIZES])


def common_tasks(rows):
    """Return, for each corpus, the task that every stage completes."""
    candidates = [t for t in tasks(rows) if t[2] == COMMON_VOCAB_SIZE]
    return [
        min((t for t in candidates if t[0] == corpus), key=lambda t: abs(t[1] - wanted))
        for corpus, wanted in COMMON_BYTES.items()
        if any(t[0] == corpus for t in candidates)
    ]


def before(found, stage):
    """Return the row of the previous stage, or None."""
    ours = [name for name, row in found.items() if not row.is_peer]
    index = ours.index(stage) if stage in ours else 0
    return found[ours[index - 1]] if index else None


# --- tables --------------------------------------------------------------------------------------


def by_stage(columns, heading="stage"):
    """Return a table with a row per stage and a column for each pair of a title and a dict.

    A dict maps stages to texts. It need not have all stages, because CPUs differ in their SIMD
    levels. Other libraries come last.
    """
    if not columns:
        return []
    stages = dict.fromkeys(stage for _, texts in columns for stage in texts)
    body = [
        [stage, *(texts.get(stage, "") for _, texts in columns)]
        for stage in sorted(stages, key=lambda stage: stage.endswith(PEER))
    ]
    return markdown([heading, *(title for title, _ in columns)], body)


def texts_of(found, value):
    """Return a dict from the name of each stage to `value(row, previous row)`."""
    return {
        stage + PEER * row.is_peer: value(row, before(found, stage)) for stage, row in found.items()
    }


def with_gain(text, row, previous):
    gain = "" if row.is_peer else times_text(row, previous)
    return text + (f" **{gain}**" if gain else "")


def seconds_and_gain(row, previous):
    rounds = " (1 round)" if len(row.seconds) == 1 else ""
    return with_gain(median_text(row) + rounds, row, previous)


def rate_and_gain(row, previous):
    return with_gain(rate_text(row), row, previous)


def phase_table(found, line="stage", time_of=seconds_text):
    """Return the header and the lines of a task's table: time, rate, gains, phases and peak memory.

    Args:
        found: Stage -> row.
        line: "stage", or "variant" to add a column with notes.
        time_of: Function from a row to its time as text (default: with the range of the rounds).
    """
    first = next(iter(found.values()))
    phases = [p for p in PHASES if any(any(row.phases.get(p, [])) for row in found.values())]
    header = [line, "time", f"{first.unit}/s", "× previous", "× first",
              *(PHASES[p] for p in phases), "peak MB"]  # fmt: skip
    body = []
    for stage, row in found.items():
        gains = ["", ""]
        if not row.is_peer:
            gains = [times_text(row, before(found, stage)), times_text(row, first)]
        body.append([
            stage + PEER * row.is_peer, time_of(row), three_digits(row.rate),
            *gains, *shares_texts(row, phases), megabytes(row),
        ])  # fmt: skip
    if line == "variant":
        header.append("")
        body = [[*cells, row.note] for cells, row in zip(body, found.values(), strict=True)]
    return header, body


def printed_phases(rows):
    """Return the phases as `train-bpe --trainer heap` prints them, for the smallest web text."""
    found = [r for r in of_comparison(rows, "shipped") if (r.corpus, r.stage) == ("owt", "heap")]
    if not (common := common_tasks(found)):
        return []
    row = at(found, common[0])["heap"]
    timings = {phase: statistics.median(seconds) for phase, seconds in row.phases.items()}
    timings["total"] = sum(timings.values())
    return ["```text", "trainer: heap", *phase_lines(timings), "```"]


def end_to_end(rows):
    """Return times from file to vocabulary, with words counted as originally and as shipped."""
    counted, shipped = of_comparison(rows, "end-to-end"), of_comparison(rows, "shipped")
    lines = []
    for text, group in itertools.groupby(whole_tasks(shipped), lambda task: task[:2]):
        columns = []
        for task in group:
            for title, found in (
                (" tokens, counted as originally", counted),
                (", as shipped", shipped),
            ):
                texts = texts_of(at(found, task), seconds_and_gain)
                columns.append((f"{task[2]:,}{title}", texts))
        lines += [f"**{text_name(*text)}**", "", *by_stage(columns)]
    return lines


def summary(rows):
    """Return a table of training and encoding on the first and last tasks, with other libraries."""
    columns = []
    for title, comparison, wanted, text_of in (
        ("train", "shipped", whole_tasks, median_text),
        ("encode", "encoding", largest_tasks, rate_text),
    ):
        found = of_comparison(rows, comparison)
        all_tasks = wanted(found)
        for task in dict.fromkeys(all_tasks[:1] + all_tasks[-1:]):
            shown = at(found, task)
            if comparison == "encoding":  # the slowest and the fastest of our encoders
                ours = [stage for stage, row in shown.items() if not row.is_peer]
                ends = {STAGES[0]: shown[ours[0]], STAGES[-1]: shown[ours[-1]]} if ours else {}
                shown = ends | {stage: row for stage, row in shown.items() if row.is_peer}
            texts = {STAGE_NAMES.get(name, name): text_of(row) for name, row in shown.items()}
            columns.append((f"{title}: {task_name(task)}", texts))
    return by_stage(columns, "")


def growth(rows):
    """Return a table with the exponents of each stage's time, and the stage's peak memory."""
    found = of_comparison(rows, "merging")
    body = []
    for corpus in dict.fromkeys(t[0] for t in tasks(found)):
        for stage in STAGES:
            by_size, by_words, by_merges = growth_series(found, corpus, stage)
            if len(by_size) < 3:
                continue
            memory = [r for r in found if (r.corpus, r.stage) == (corpus, stage) and r.peak_memory]
            memory.sort(key=lambda r: r.bytes)
            body.append([
                f"{TEXTS.get(corpus, corpus)}, {stage}",
                exponent_text("bytes", by_size), exponent_text("words", by_words),
                exponent_text("merges", by_merges),
                f"{megabytes(memory[0])} - {megabytes(memory[-1])}" if memory else "",
            ])  # fmt: skip
    if not body:
        return []
    header = ["", "corpus size", "distinct words", "merges, whole corpus", "peak MB, range"]
    return markdown(header, body)


def growth_series(rows, corpus, stage):
    """Return three ascending lists: (bytes, seconds), (words, seconds) and (merges, seconds)."""
    own = [row for row in rows if (row.corpus, row.stage) == (corpus, stage)]
    sized = sorted(
        (r for r in own if r.vocab_size == COMMON_VOCAB_SIZE and not r.is_extrapolated),
        key=lambda r: r.bytes,
    )
    by_merges = {}
    whole = max((r.bytes for r in own), default=0)
    for row in own:
        if row.bytes != whole:
            continue
        for merges, phases, _ in row.checkpoints:  # all from one run, so that the curve never falls
            by_merges.setdefault(merges, sum(phases.values()))
        if not row.checkpoints and not row.is_extrapolated:
            by_merges[row.work] = row.median
    return (
        [(r.bytes, r.median) for r in sized],
        [(r.words, r.median) for r in sized if r.words],
        sorted(by_merges.items()),
    )


def exponent_text(name, points):
    """Return the fitted power, such as `bytes^0.43`."""
    if name == "merges":  # the first merges are not typical
        points = [p for p in points if p[0] >= points[-1][0] / 32]
    if len(points) < 3:
        return ""
    return f"{name}^{extrapolation.exponent(*zip(*points, strict=True)):.2f}"


def checked_extrapolations(rows):
    """Predict the times of completed runs from their first merges.

    Yield (row, share, seconds): the predicted time, from the last checkpoint within this share of
    the merges.
    """
    longest = {}
    for row in of_comparison(rows, "merging"):
        if row.checkpoints and not row.is_extrapolated:
            key = (row.corpus, row.bytes, row.stage)
            longest[key] = max(row, longest.get(key, row), key=lambda row: row.work)
    for row, share in itertools.product(longest.values(), SHARES):
        part = [c for c in row.checkpoints if c[0] <= row.work * share]
        if part and part[-1][0] >= 16:
            phases = extrapolation.extrapolated(row.stage, part, row.checkpoints[-1][2])
            yield row, share, sum(phases.values())


def extrapolated(rows):
    """Return a table of extrapolation errors, by stage."""
    errors = {}
    for row, share, predicted in checked_extrapolations(rows):
        errors.setdefault((row.stage, share), []).append(predicted / row.median - 1)
    body = [
        [stage, f"1 in {1 / share:.0f}", str(len(found)), f"{statistics.median(found):+.0%}",
         f"{min(found):+.0%} to {max(found):+.0%}"]
        for stage, share in itertools.product(STAGES, SHARES)
        if (found := errors.get((stage, share)))
    ]  # fmt: skip
    header = ["stage", "merges measured", "runs", "error, median", "error, range"]
    return markdown(header, body) if body else []


def full_size(rows):
    """Return the public series' times on 64 cores, and the stages' times on this machine."""
    lines = []
    rows = of_comparison(rows, "full-size")
    for task in tasks(rows):
        corpus, num_bytes, vocab_size = task
        body = [[name, seconds, "", "", ""] for name, seconds in SERIES.get(corpus, ())]
        for stage, row in at(rows, task).items():
            seconds = seconds_text(row)
            if len(row.seconds) == 2:  # the bounds of a predicted time
                seconds = f"≈ {time_text(min(row.seconds))} to {time_text(max(row.seconds))}"
            body.append([f"**{stage}**", "", seconds, megabytes(row), row.note])
        header = ["", "public series, 64 cores", f"here, {vocab_size:,} tokens", "peak MB", ""]
        lines += [f"**Like {text_name(corpus, num_bytes)}**", "", *markdown(header, body)]
    return lines


def stage_table(stage, rows):
    """Return a stage's table: its cost per merge, its phases' shares of the time, and its gain."""
    found = of_comparison(rows, "merging")
    body = []
    for task in whole_tasks(found):
        stages = at(found, task)
        if stage not in stages:
            continue
        row = stages[stage]
        body.append([
            text_name(task[0], task[1]), f"{task[2]:,}",
            seconds_text(row), time_text(1 / row.rate),
            *shares_texts(row, LOOP_PHASES), times_text(row, before(stages, stage)), megabytes(row),
        ])  # fmt: skip
    header = ["text", "tokens", "merge loop", "per merge", *(PHASES[p] for p in LOOP_PHASES),
              "× previous", "peak MB"]  # fmt: skip
    return markdown(header, body) if body else []


def real_tokenizers(rows):
    """Return a table per text and machine: loading and encoding with published tokenizers.

    The stage of a row is "TOKENIZER: LIBRARY"; its phases are loading, and the cold and warm times.
    """
    found = of_comparison(rows, "real-tokenizers")
    lines = []
    for text in dict.fromkeys((row.machine, row.corpus, row.bytes) for row in found):
        own = [row for row in found if (row.machine, row.corpus, row.bytes) == text]
        body, base = [], {}
        for row in own:
            name, library = row.stage.split(": ", 1)
            medians = {phase: statistics.median(row.phases[phase]) for phase in row.phases}
            cells = [library, time_text(medians["loading"])]
            for phase in ("cold", "warm"):
                rate = row.work / medians[phase]
                if row.is_peer:
                    ratio = base[name][phase] / rate
                    cells.append(f"{three_digits(rate)} (×{three_digits(ratio)})")
                else:
                    base.setdefault(name, {})[phase] = rate
                    cells.append(three_digits(rate))
            title = "" if row.is_peer else f"{name}, {row.vocab_size:,} tokens"
            body.append([title, *cells, row.note])
        header = ["tokenizer", "library", "load", "cold MB/s", "warm MB/s", "ids"]
        lines += [f"**{text_name(*text[1:])}**", "", *machine_lines(own), *markdown(header, body)]
    return lines


def machine(rows):
    """Return lines about the measurements, except those that are said beside their table."""
    return machine_lines([row for row in rows if row.comparison != "real-tokenizers"])


def machine_lines(rows):
    """Return lines with the machines, dates and commands of measurements."""
    lines = []
    for name in dict.fromkeys(row.machine for row in rows):
        own = [row for row in rows if row.machine == name]
        dates = sorted({row.date for row in own})
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        commands = ", ".join(f"`{command}`" for command in dict.fromkeys(r.command for r in own))
        lines += [
            f"Measured on {name}, {when}, using {commands}. Times are medians; a range shows the "
            "fastest and the slowest round. `≈` marks times extrapolated from the start of a run.",
            "",
        ]
    return lines


def pivoted(comparison, wanted, value):
    """Return a table with a row per stage and a column per task."""

    def table(rows):
        found = of_comparison(rows, comparison)
        return by_stage(
            [(task_name(task), texts_of(at(found, task), value)) for task in wanted(found)]
        )

    return table


def by_phase(comparison, wanted, line="stage"):
    """Return a table per task."""

    def table(rows):
        found = of_comparison(rows, comparison)
        lines = []
        for task in wanted(found):
            lines += [f"**{task_name(task)}**", "", *markdown(*phase_table(at(found, task), line))]
        return lines

    return table


TABLES = {
    "machine": machine,
    "summary": summary,
    "common": by_phase("end-to-end", common_tasks),
    "merging": pivoted("merging", whole_tasks, seconds_and_gain),
    "merging-phases": by_phase("merging", whole_tasks),
    "end-to-end": end_to_end,
    "phases of heap": printed_phases,
    "end-to-end-phases": by_phase("end-to-end", whole_tasks),
    "counting": pivoted("counting", largest_tasks, rate_and_gain),
    "encoding": pivoted("encoding", largest_tasks, rate_and_gain),
    "decoding": pivoted("decoding", largest_tasks, rate_and_gain),
    "real-tokenizers": real_tokenizers,
    "growth": growth,
    "extrapolated": extrapolated,
    "full-size": full_size,
    "ablations": by_phase("ablations", tasks, "variant"),
    **{f"stage: {stage}": partial(stage_table, stage) for stage in STAGES},
}
