"""The report on a run: its figures, under-trained tokens and damaged files."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tests.commands.small_run import fill_weights
from tests.errors import rejects

torch = pytest.importorskip("torch", reason="needs torch to train a run")

from cs336_basics.checkpoints.run_dir import RunDirectory  # noqa: E402
from cs336_basics.reports.page import (  # noqa: E402
    Chart,
    Quote,
    Table,
    Tokens,
    render_html,
    render_markdown,
)
from cs336_basics.reports.run_report import (  # noqa: E402
    distance_from_unused,
    run_sections,
    unused_ids,
)
from cs336_basics.tokenizer import Tokenizer, count_token_file  # noqa: E402
from tests.tokenizer.examples import BYTES  # noqa: E402


@pytest.fixture
def run(run_path, tmp_path):
    return RunDirectory(shutil.copytree(run_path, tmp_path / "run"))


def by_title(run):
    return {section.title: section.blocks for section in run_sections(run.path)}


def only(kind, blocks):
    return [block for block in blocks if isinstance(block, kind)]


def test_the_card_has_the_figures_of_the_run(run):
    sections = by_title(run)
    assert list(sections) == ["Run run", "Samples", "Under-trained tokens", "Configuration"]
    (table,), (chart,) = (only(kind, sections["Run run"]) for kind in (Table, Chart))
    facts = dict(table.rows)
    rows = run.read_metrics()
    val = [row for row in rows if "val_loss" in row]
    assert facts["steps"] == "12 of 12"
    assert facts["tokens trained on"] == f"{12 * 4 * 16:,}"
    assert facts["tokens per second"] == f"{12 * 4 * 16 / run.seconds():,.0f}"
    assert facts["validation loss"] == f"{val[-1]['val_loss']:.4f}"
    assert facts["perplexity"] == f"{val[-1]['val_perplexity']:.4f}"
    assert facts["bits per byte, without special tokens"] == f"{val[-1]['val_bits_per_byte']:.4f}"
    assert facts["best validation loss"] == "{:.4f} at step {}".format(*run.best()[:2])
    assert [len(name.split(", SHA-256")) for name in facts].count(2) == 2
    first, last = (line.count(",") for line in chart.svg.split('points="')[1:])
    assert (first, last) >= (len(val), len(val))
    texts = [quote.text for quote in only(Quote, sections["Samples"])]
    assert texts == [run.sample(step).read_text() for step in (6, 12)]
    assert only(Quote, sections["Configuration"])[0].text == run.config.read_text()


def test_links_among_the_samples_are_omitted(run):
    expected = by_title(run)["Samples"]
    for step in (0, 99):
        run.sample(step).symlink_to(run.metrics.absolute())
    assert by_title(run)["Samples"] == expected


def test_suspected_tokens_are_sorted_and_have_their_counts(run):
    blocks = by_title(run)["Under-trained tokens"]
    (table,), (_,) = (only(kind, blocks) for kind in (Table, Chart))
    tokenizer = Tokenizer.from_directory(run.tokenizer)
    counts = count_token_file(tokenizer, run.data / "train.npy")
    distances = [float(row[2]) for row in table.rows]
    assert distances == sorted(distances)
    for token_id, cell, _, count in table.rows:
        assert cell == Tokens([tokenizer.vocab[int(token_id)]])
        assert count == f"{counts[int(token_id)]:,}"
    (run.data / "train.npy").unlink()  # as if the token files were elsewhere
    (uncounted,) = only(Table, by_title(run)["Under-trained tokens"])
    assert [row[:3] for row in table.rows] == list(uncounted.rows)


def test_rows_that_were_moved_alike_are_near():
    generator = torch.Generator().manual_seed(0)
    head = torch.randn(300, 16, generator=generator)
    common = torch.randn(16, generator=generator)
    rare = list(range(0, 300, 7))
    head[rare] = common + 0.1 * head[rare]
    distance = distance_from_unused(head.bfloat16(), rare[:5])
    assert set(np.argsort(distance)[: len(rare)].tolist()) == set(rare)
    assert distance[rare].max() < 0.1
    with rejects(None):
        distance_from_unused(head, [])
    head[3, 3] = torch.nan
    with rejects(None, "weights"):
        distance_from_unused(head, [1])


def test_unused_ids_are_impossible_bytes_and_ids_without_a_token():
    vocab = {**BYTES, 256: b"\xff\xff", 258: b"ab"}
    expected = [0xC0, 0xC1, *range(0xF5, 0x100), 257, 259]
    assert unused_ids(Tokenizer(vocab, []), 260) == expected
    assert unused_ids(Tokenizer({0: b"a"}, []), 1) == []


def test_a_run_without_checkpoint_sample_or_evaluation(run):
    shutil.rmtree(run.checkpoints)
    shutil.rmtree(run.samples)
    first = run.metrics.read_text().splitlines()[0]
    run.metrics.write_text(first + "\n")
    sections = by_title(run)
    assert list(sections) == ["Run run", "Configuration"]
    facts = dict(only(Table, sections["Run run"])[0].rows)
    assert facts["best validation loss"] == facts["perplexity"] == "–"


def test_diverged_weights_are_not_measured(run):
    checkpoint = fill_weights(run.path, torch.nan)
    (text,) = by_title(run)["Under-trained tokens"]
    assert text.startswith(f"Not measured: {checkpoint}: weight ")


def test_hostile_files_of_a_run_stay_text(run):
    run.sample(99).write_bytes(b"<script>alert(1)</script>\n```\n\x1b[2J\xff" + b"x" * 100_000)
    with run.config.open("a") as file:
        file.write("\n# <script>alert(2)</script>\n")
    row = {"step": 13, "tokens": 1, "val_loss": 1e308, "train_loss": float("nan")}
    with run.metrics.open("a") as file:
        file.write(json.dumps(row) + "\n")
    sections = run_sections(run.path)
    page, text = render_html("x", sections), render_markdown("x", sections)
    assert "<script" not in page
    assert len(page) < 200_000
    assert all(line.startswith("    ") for line in text.split("\n") if "<script" in line)
    assert "\x1b" not in page + text


def test_other_directories_and_damaged_metrics_are_rejected(run, tmp_path):
    with rejects(None, tmp_path):
        run_sections(tmp_path)
    run.metrics.write_text("[]\n{}\n")
    with rejects(None, "metrics"):
        run_sections(run.path)
