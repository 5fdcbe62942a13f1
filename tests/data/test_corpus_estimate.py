"""The estimate for a corpus: rates of a piece, growth of distinct words, and limits."""

from __future__ import annotations

import dataclasses
import random

import pytest

from cs336_basics.data import corpus_estimate
from cs336_basics.data.corpus_estimate import Cluster, Rates, estimate_rows, measure_rates
from tests.errors import rejects

RATES = Rates(
    num_bytes=10**6,
    counting=1e8,
    num_words=1000,
    word_bytes=8.0,
    growth=0.5,
    merging=1e-6,
    encoding=5e7,
    bytes_per_token=4.0,
    bytes_per_id=2,
)


def rows_by_name(*args):
    return {name: (number, limit) for name, number, _, limit in estimate_rows(*args)}


def test_the_slower_of_cores_and_network_is_the_limit():
    cores = rows_by_name(RATES, 1e12, Cluster(nodes=2, cores=5))
    assert cores["counting"] == (pytest.approx(1e12 / (1e8 * 10)), "cores")
    assert cores["encoding"] == (pytest.approx(1e12 / (5e7 * 10)), "cores")
    slow = rows_by_name(RATES, 1e12, Cluster(nodes=2, cores=5, network=0.8))  # 0.1 GB/s each
    assert slow["counting"] == (pytest.approx(1e12 / 2e8), "network")
    assert slow["token files"][0] == pytest.approx(5e11)
    assert slow["encoding"] == (pytest.approx(1.5e12 / 2e8), "network")  # token files are written
    fast = rows_by_name(RATES, 1e12, Cluster(nodes=2, cores=5, network=1000))
    assert fast["counting"] == cores["counting"]


def test_words_grow_as_a_power_and_have_a_limit():
    rows = rows_by_name(RATES, 1e12, Cluster(nodes=4, cores=1))
    assert rows["distinct words"][0] == pytest.approx(1000 * 1e6**0.5)
    assert rows["memory for counting"][0] == pytest.approx(50 * 1000 * 250_000**0.5)
    assert rows["merging"] == (pytest.approx(1.0), "one core of one machine")
    longer = dataclasses.replace(RATES, word_bytes=2**32 / 1e6)
    assert "4 GiB" in rows_by_name(longer, 1e12, Cluster(1, 1))["merging"][1]


def test_rates_are_those_of_the_start_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_estimate, "PIECE_SIZE", 40_000)
    draw = random.Random(0)
    lines = [" ".join(str(draw.randrange(10**6)) for _ in range(10)) for _ in range(1000)]
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines))
    rates = measure_rates(text, 300)
    assert 39_000 < rates.num_bytes <= 40_000
    piece = text.read_text()[: rates.num_bytes].split()
    assert 0.9 * len(set(piece)) < rates.num_words < 1.3 * len(set(piece))
    assert 0.8 < rates.growth <= 1.05  # nearly every number is new
    assert 0 < rates.merging < 1
    assert min(rates.counting, rates.encoding) > 1e4
    assert 1 < rates.bytes_per_token < 7
    assert rates.bytes_per_id == 2


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", ""),
        (b"<|endoftext|>" * 100, ""),
        (b"word " * 300 + b"\xff", 1500),
    ],
    ids=["empty", "special tokens", "not UTF-8"],
)
def test_unusable_text_is_an_error_that_names_the_file(content, named, tmp_path):
    text = tmp_path / "bad.txt"
    text.write_bytes(content)
    with rejects(None, named, place="bad.txt"):
        measure_rates(text, 300)


@pytest.mark.parametrize(
    "content",
    [
        "漢字仮名" * 1000,  # no place to divide it
        "<|endoftext|>" * 200 + " word" * 1000,  # the first eighth has no words
        '{"text": "once upon a time"}\n' * 100,
        "one two three\n" * 200 + "<|endoftext|>",  # the only special token is at the end
    ],
    ids=["no spaces", "no words first", "JSON Lines", "one document"],
)
def test_any_text_has_rates(content, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_estimate, "PIECE_SIZE", 10_001)  # inside a character
    text = tmp_path / "text.txt"
    text.write_text(content, encoding="utf-8")
    rates = measure_rates(text, 300)
    assert rates.num_words > 0
    assert 0 <= rates.growth < 10
    assert rates.words_in(rates.num_bytes) == pytest.approx(rates.num_words)
