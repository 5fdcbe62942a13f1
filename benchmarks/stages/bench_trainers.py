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


def rounds_of(stage):
    return 3 if stage in trainer_run.UNSTOPPABLE else 1


def measure(benchmark, stage, corpus, request, targets, rounds):
    answers = []
    benchmark.pedantic(lambda: answers.append(trainer_run.run(request)), rounds=rounds)
    training_rows.check(stage, corpus.path, answers)
    for target in targets:
        attach(benchmark, *training_rows.rows(stage, corpus.name, corpus.path, answers, target))


@pytest.mark.parametrize("stage", TRAINERS)
def test_all_stages_to_their_end(benchmark, common_corpus, stage):
    benchmark.group = f"all stages to their end, {common_corpus}, {COMMON_VOCAB_SIZE:,} tokens"
    target = COMMON_VOCAB_SIZE - training_rows.FIRST_MERGE
    request = training_rows.request(stage, common_corpus.path, [target])
    measure(benchmark, stage, common_corpus, request, [target], rounds_of(stage))


@pytest.mark.parametrize("stage", TRAINERS)
def test_whole_corpus(benchmark, corpus, stage, max_seconds):
    benchmark.group = f"{corpus}, 10,000 and 32,000 tokens"
    if stage in trainer_run.UNSTOPPABLE:
        for target in TARGETS[:-1]:
            answers = [
                trainer_run.run(training_rows.request(stage, corpus.path, [target]))
                for _ in range(3)
            ]
            training_rows.check(stage, corpus.path, answers)
            attach(benchmark, *training_rows.rows(stage, corpus.name, corpus.path, answers, target))
    targets = TARGETS[-1:] if stage in trainer_run.UNSTOPPABLE else TARGETS
    request = training_rows.request(stage, corpus.path, targets, max_seconds=max_seconds)
    measure(benchmark, stage, corpus, request, targets, rounds_of(stage))
