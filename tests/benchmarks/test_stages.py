"""The plan of `make stages`: every stage everywhere, and an interrupted run resumes."""

import argparse

import measurements
import pytest
import stage_jobs
import stages
from corpora import Corpus

from cs336_basics import TRAINERS
from cs336_basics.data.datasets import write_sample
from tests.benchmarks.test_report import merging


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    path = tmp_path / "owt_sample.txt"
    write_sample(path, 300_000)
    corpora = [Corpus("owt", path)]
    monkeypatch.setattr(stages, "common_corpora", lambda: corpora)
    return corpora


def test_plan_has_every_stage_at_every_size(corpora):
    slow, fast, counted = stages.plan(corpora)
    paths = {job.path for job in slow}
    assert len(paths) == stages.GROWTH_STEPS  # four smaller ones and the whole
    for stage in TRAINERS:
        assert {job.path for job in slow + fast if job.stage == stage} == paths
    whole = [j for j in slow + fast if j.path == corpora[0].path]
    for stage in TRAINERS:
        reached = {target for job in whole if job.stage == stage for target in job.targets}
        assert set(stages.targets(stages.VOCAB_SIZES)) <= reached
    timed = {job.stage for job in fast + counted if job.count and job.path == corpora[0].path}
    assert timed == set(TRAINERS)
    assert len({job.name for job in slow + fast + counted}) == len(slow + fast + counted)


def test_finished_jobs_are_not_run_again(corpora, tmp_path, monkeypatch):
    path = corpora[0].path
    jobs = [stage_jobs.Job("native", "owt", path, (n,), 1, count=True) for n in (20, 30)]
    options = argparse.Namespace(whole_below=60, extrapolate_after=60)
    said = []
    journal = stage_jobs.Journal(tmp_path / "journal.json", {"machine": "a"})
    stage_jobs.run_all(jobs[:1], 1, journal, options, said.append)
    journal = stage_jobs.Journal(tmp_path / "journal.json", {"machine": "a"})
    stage_jobs.run_all(jobs, 2, journal, options, said.append)
    assert ["20 merges" in text for text in said] == [True, False]
    assert ["30 merges" in text for text in said] == [False, True]
    other = stage_jobs.Journal(tmp_path / "journal.json", {"machine": "b"})
    assert not other.finished


def test_wrong_result_ends_the_run_before_its_time_is_kept(corpora, tmp_path, monkeypatch):
    monkeypatch.setattr(
        stage_jobs.training_rows, "expected_merges", lambda path: [(b"x", b"y")] * 20
    )
    jobs = [stage_jobs.Job("native", "owt", corpora[0].path, (20,), 1, count=True)]
    options = argparse.Namespace(whole_below=60, extrapolate_after=60)
    journal = stage_jobs.Journal(tmp_path / "journal.json", {})
    with pytest.raises(AssertionError, match="native learns other merges"):
        stage_jobs.run_all(jobs, 1, journal, options, print)
    assert not journal.finished


def test_rows_of_earlier_runs_are_dropped_from_comparisons_measured_whole(tmp_path, monkeypatch):
    path = tmp_path / "measurements.json"
    new, old = merging("heap", [3.0]), merging("heap", [9.0])
    old.bytes = 123
    ablation = measurements.Measurement("ablations", "owt", 1, 32_000, "x", [1.0], 1, "merges")
    measurements.write([old, ablation, new], path)
    monkeypatch.setattr(measurements, "read", lambda read=measurements.read: read(path))
    kept = []
    monkeypatch.setattr(measurements, "write", kept.extend)
    stages.keep_only({new.key})
    assert [row.key for row in kept] == [ablation.key, new.key]
