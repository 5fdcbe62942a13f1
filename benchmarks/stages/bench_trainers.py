"""The stages compared, from the file to the vocabulary: each with the counting of its time.

Every round is a process of its own, `trainer_run.py`, so that its peak memory is measured too; the
time that pytest-benchmark shows includes the start of the process, the tables' times do not. The
merges are compared with those of another trainer before a time is kept.

- `test_all_stages_to_their_end`: a text and a vocabulary that all stages can finish.
- `test_whole_corpus`: 10,000 and 32,000 tokens. A stage that needs more than `--max-seconds` is
  measured for that long and its time extrapolated, which tables mark with `≈`; `make stages`
  measures longer.
"""

import pytest

from benchmarks.corpora import COMMON_VOCAB_SIZE
from benchmarks.report.measurements import attach
from benchmarks.stages import trainer_run, training_rows
from cs336_basics import TRAINERS

TARGETS = tuple(size - training_rows.FIRST_MERGE for size in (10_000, 32_000))


def measure(benchmark, stage, corpus, targets, max_seconds=1e9):
    # A compiled loop has no checkpoint on its way, so each target is a run of its own.
    compiled = stage in trainer_run.UNSTOPPABLE
    parts = [[target] for target in targets] if compiled else [targets]
    requests = [training_rows.request(stage, corpus.path, part, max_seconds=max_seconds)
                for part in parts]  # fmt: skip
    rounds = []
    benchmark.pedantic(
        lambda: rounds.append([trainer_run.run(request) for request in requests]),
        rounds=3 if compiled else 1,
    )
    for part, answers in zip(parts, zip(*rounds, strict=True), strict=True):
        training_rows.check(stage, corpus.path, answers)
        for target in part:
            rows = training_rows.rows(stage, corpus.name, corpus.path, answers, target)
            attach(benchmark, *rows)


@pytest.mark.parametrize("stage", TRAINERS)
def test_all_stages_to_their_end(benchmark, common_corpus, stage):
    benchmark.group = f"all stages to their end, {common_corpus}, {COMMON_VOCAB_SIZE:,} tokens"
    measure(benchmark, stage, common_corpus, [COMMON_VOCAB_SIZE - training_rows.FIRST_MERGE])


@pytest.mark.parametrize("stage", TRAINERS)
def test_whole_corpus(benchmark, corpus, stage, max_seconds):
    benchmark.group = f"{corpus}, 10,000 and 32,000 tokens"
    measure(benchmark, stage, corpus, TARGETS, max_seconds)
