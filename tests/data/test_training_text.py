"""The texts that a tokenizer can be trained on."""

from __future__ import annotations

import pytest

from cs336_basics.bpe import TRAINERS
from cs336_basics.bpe.parity import Parity
from cs336_basics.data.mixture import Portion
from cs336_basics.data.parity_sources import ParitySources
from cs336_basics.data.training_text import MOST_HASHED, CountedText, Mixture, describe_files
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from tests.errors import rejects

SIZE = 262


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "low.txt").write_text("low lower lowest " * 20)
    (tmp_path / "new.txt").write_text("new newer newest " * 5)
    return [Corpus(tmp_path / name) for name in ("low.txt", "new.txt")]


def trainer(**options):
    return TRAINERS["heap"](num_workers=1, **options)


def mixture(texts, *weights, **options):
    portions = (Portion(str(i), weight, f"text{i}") for i, weight in enumerate(weights))
    return Mixture(dict(zip(portions, map(CountedText, texts), strict=True)), **options)


def test_each_text_lists_all_files_and_the_corpora_to_measure(texts):
    files = [file for corpus in texts for file in corpus.files]
    assert CountedText(texts[0], ["counts.npz"]).files == [files[0], "counts.npz"]
    assert CountedText(None, ["counts.npz"]).corpora() == {}
    assert mixture(texts, 0.5, 0.5).files == files
    assert mixture(texts, 0.5, 0.5).corpora() == {"text0": texts[0], "text1": texts[1]}
    sources = ParitySources(["a", "b"], texts, texts[::-1], Parity())
    assert sources.files == files + files[::-1]
    assert sources.corpora() == {"a": texts[1], "b": texts[0]}


def test_learning_records_the_share_of_each_text(texts):
    mixed = mixture(texts, 0.25, 0.75, temperature=1.0)
    learned = mixed.learn(trainer(), SIZE, [])
    weights = [portion["weight"] for portion in learned.record["mixture"]]
    assert weights == pytest.approx([4 / 7, 3 / 7])  # four times as many bytes
    assert mixed.summary(learned.record) == ["mixture: text0 57.1%, text1 42.9%"]
    sources = ParitySources(["a", "b"], texts, texts, Parity())
    learned = sources.learn(trainer(), SIZE, [])
    merges = [source["merges"] for source in learned.record["parity"]["sources"]]
    assert sum(merges) == len(learned.merges) == SIZE - 256
    assert sources.summary(learned.record) == [
        f"merges chosen by each text: a {merges[0]}, b {merges[1]}"
    ]


def test_superwords_are_not_learned_from_counts(texts, tmp_path):
    superwords = trainer(superwords_from=258)
    CountedText(texts[0]).check(superwords)
    mixture(texts, 0.5, 0.5).check(superwords)
    saved = Mixture({Portion("a.npz", 1.0, "a"): CountedText(counts=["a.npz"])})
    for text in (
        CountedText(counts=["a.npz"]),
        CountedText(texts[0], save_counts="a.npz"),
        mixture(texts, 0.5, 0.5, save_counts="a.npz"),
        saved,
    ):
        text.check(trainer())
        with rejects("superwords_from", "258"):
            text.check(superwords)


def test_a_mixture_has_no_minimum_frequency(texts):
    with rejects("min_frequency", "2"):
        mixture(texts, 0.5, 0.5).check(trainer(min_frequency=2))
    with rejects("temperature", "0.5"):
        mixture(texts, 0.5, 0.5, temperature=0.5)


def test_counts_in_files_are_added(texts, tmp_path):
    path = str(tmp_path / "counts.npz")
    counts = CountedText(texts[0]).count(trainer(), Splitter())
    counts.save(path)
    both = CountedText(texts[0], [path]).count(trainer(), Splitter())
    assert dict(both) == {word: 2 * count for word, count in counts.items()}


def test_a_huge_file_is_recorded_without_a_hash(tmp_path):
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(MOST_HASHED + 1)  # a sparse file, which occupies no disk space
    assert describe_files([str(path), "s3://bucket/a.txt"]) == [
        {"path": str(path), "num_bytes": MOST_HASHED + 1, "sha256": None},
        {"path": "s3://bucket/a.txt"},
    ]
