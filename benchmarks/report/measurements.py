"""The measurements behind every table and plot: `benchmarks/results/measurements.json`.

A measurement is a row of a table: one stage on one task. Its key is (comparison, corpus, bytes,
vocab_size, stage). Recording a measurement replaces the measurement with the same key.

| field | meaning |
|---|---|
| `comparison` | a name in COMPARISONS |
| `corpus`, `bytes` | the text, such as `owt`, and its size |
| `vocab_size` | size of the vocabulary; None for counting |
| `stage` | `heap`, `compiled, 1 thread, avx2`, `tokenizers` ... |
| `seconds` | list of the durations of the rounds in seconds, in order |
| `work`, `unit` | work done in one round: a number of `MB` (10^6 bytes of text) or `merges` |
| `phases` | phase of `BPE_Trainer.timings` -> list of its durations in seconds, one per round |
| `peak_memory` | in bytes, of a process that does nothing else; None if not measured |
| `words` | number of distinct words in the text |
| `measured` | None for a completed run, otherwise the work done before the run was stopped; |
| | `seconds` and `phases` are then extrapolated (`extrapolation.py`), marked with `≈` in tables |
| `checkpoints` | `[merges, {phase: seconds so far}, {unit: work so far}]` of one run, in order |
| `is_peer` | True for another library, whose bar is gray in plots |
| `note` | a remark for the reader, such as how results were compared; may be empty |
| `machine`, `date`, `command` | where, when and how it was measured; set by `record` |

Compare rates (work / median seconds), not seconds. To record ablations:

    record([Measurement("ablations", "owt", path.stat().st_size, 32_000, "native, no prefetching",
                        seconds=[0.41, 0.40, 0.43], work=31_743, unit="merges",
                        phases={"counting pairs": [...], "updating": [...]})],
           command="python -m benchmarks.stages.ablations")
"""

import datetime
import json
import statistics
from dataclasses import asdict, dataclass, field

from benchmarks.machine import RESULTS, machine_info
from cs336_basics._support.files import atomic_writer

FILE = RESULTS / "measurements.json"

COMPARISONS = (
    "merging",  # from counted words to merges; unit merges
    "end-to-end",  # from a file to a vocabulary, counted as when the stage was new; unit MB
    "shipped",  # from a file to a vocabulary, with default counting; also other libraries; unit MB
    "counting",  # from a file to counted words; unit MB
    "encoding",  # from text to ids; unit MB
    "decoding",  # from ids to text; unit MB
    "real-tokenizers",  # from text to ids, with published tokenizers; unit MB
    "ablations",  # from counted words to merges, with one idea of the loop changed; unit merges
    "full-size",  # training on a generated text as large as a whole corpus
)

UNITS = ("MB", "merges")


@dataclass
class Measurement:
    """A row of a table. The module docstring describes the fields."""

    comparison: str
    corpus: str
    bytes: int
    vocab_size: int | None
    stage: str
    seconds: list[float]
    work: float
    unit: str
    phases: dict[str, list[float]] = field(default_factory=dict)
    peak_memory: int | None = None
    words: int | None = None
    measured: float | None = None
    checkpoints: list = field(default_factory=list)
    is_peer: bool = False
    note: str = ""
    machine: str = ""
    date: str = ""
    command: str = ""

    def __post_init__(self):
        rounds = {len(seconds) for seconds in (self.seconds, *self.phases.values())}
        if self.comparison not in COMPARISONS or self.unit not in UNITS or len(rounds) > 1:
            raise ValueError(f"{self}: unknown comparison or unit, or unequal numbers of rounds")

    @property
    def key(self):
        return (self.comparison, self.corpus, self.bytes, self.vocab_size, self.stage)

    @property
    def median(self):
        return statistics.median(self.seconds)

    @property
    def rate(self):
        """Units of work per second."""
        return self.work / self.median

    @property
    def is_extrapolated(self):
        return self.measured is not None


def faster(measurement, than):
    """Return the ratio of the rates of two measurements."""
    if measurement.unit != than.unit:
        raise ValueError(
            f"rates must have the same unit, got {measurement.unit}/s for {measurement.key} and "
            f"{than.unit}/s for {than.key}"
        )
    return measurement.rate / than.rate


def read(path=FILE):
    """Return all measurements, in the order they were first recorded."""
    if not path.exists():
        return []
    return [Measurement(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def record(measurements, command, path=FILE):
    """Write measurements to the file, and keep existing measurements with other keys.

    An extrapolated row does not replace a row from a longer measurement on the same machine.
    """
    machine = machine_name()
    today = datetime.date.today().isoformat()
    rows = {row.key: row for row in read(path)}
    for row in measurements:
        row.machine, row.date, row.command = machine, today, command
        if supersedes(row, rows.get(row.key)):
            rows[row.key] = row
    write(rows.values(), path)


def supersedes(new, old):
    """Return whether a row replaces another row with the same key."""
    if old is None or not new.is_extrapolated or new.machine != old.machine:
        return True
    return old.is_extrapolated and new.measured >= old.measured


def attach(benchmark, *measurements):
    """Add rows to a pytest-benchmark benchmark, for `pages.py` to record."""
    rows = [asdict(row) for row in measurements]
    benchmark.extra_info.setdefault("measurements", []).extend(rows)


def attach_rate(benchmark, comparison, corpus, vocab_size, stage, num_bytes, **fields):
    """Add the row of a benchmark that processes `num_bytes` bytes of a corpus in each round."""
    seconds = list(benchmark.stats.stats.data)
    task = (comparison, corpus.name, corpus.num_bytes, vocab_size, stage)
    attach(benchmark, Measurement(*task, seconds, num_bytes / 1e6, "MB", **fields))


def write(measurements, path=FILE):
    """Rewrite the file with one line per row, six significant digits and no default values."""
    lines = []
    for row in measurements:
        fields = {k: v for k, v in asdict(row).items() if v or k == "vocab_size"}
        fields = json.loads(json.dumps(fields), parse_float=rounded)
        lines.append(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))
    with atomic_writer(path, "w") as file:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


def rounded(digits):
    value = float(digits)
    return int(value) if value.is_integer() else float(f"{value:.6g}")


def machine_name():
    info = machine_info()
    return f"{info['cores']} cores of {info['cpu']}, Python {info['python']}"
