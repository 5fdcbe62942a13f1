"""The benchmark of generation divides equal work by the clock that its options choose."""

import itertools
import sys
import time

import pytest
import torch

from benchmarks.models import lm_generation

PROMPTS = torch.zeros(2, 3, dtype=torch.int64)


def test_a_rate_is_the_tokens_of_all_prompts_by_the_given_clock():
    times = itertools.accumulate(
        [5, 2, 100, 4, 100, 1, 100, 8]
    )  # what is between runs is not timed
    run = dict.fromkeys(["a", "b"], lambda prompts, number: [[7] * number] * len(prompts))
    speeds = lm_generation.measure(run, PROMPTS, 8, 2, clock=lambda: next(times))
    assert speeds == {"a": [8, 16], "b": [4, 2]}


def test_unequal_work_is_not_measured():
    with pytest.raises(AssertionError):
        lm_generation.measure({"a": lambda prompts, number: [[7]]}, PROMPTS, 8, 1)


@pytest.mark.parametrize("in_cpu_time", [False, True])
def test_cpu_time_is_measured_with_one_thread(monkeypatch, in_cpu_time):
    threads, measured = [2], []
    kinds = dict.fromkeys(lm_generation.CACHES, None)
    monkeypatch.setattr(lm_generation, "generators", lambda *_: kinds)
    monkeypatch.setattr(lm_generation, "check", lambda *_: None)
    monkeypatch.setattr(lm_generation, "report", lambda *_: None)
    monkeypatch.setattr(torch, "set_num_threads", threads.append)

    def measure(run, prompts, new_tokens, rounds, clock):
        measured.append((clock, threads[-1]))
        return {kind: [1.0] for kind in run}

    monkeypatch.setattr(lm_generation, "measure", measure)
    words = ["lm_generation", "--shape", "tiny", "--batch-size", "1", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", words + ["--cpu-time"] * in_cpu_time)
    lm_generation.main()
    assert measured == [(time.process_time, 1) if in_cpu_time else (time.perf_counter, 2)]
