"""The texts that a tokenizer can be trained on.

`CountedText` is a corpus, word counts in files, or both. `Mixture` is several of these, each with a
weight. `ParitySources` (`parity_sources.py`) is several corpora that are compressed equally well.
Each lists its files, checks whether a trainer can learn from it, and trains.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.files import sha256_file
from cs336_basics._support.paths import printable_path
from cs336_basics._support.urls import is_url
from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.reference import Pair
from cs336_basics.counting import Sample, WordCounts
from cs336_basics.data.mixture import Portion, tempered_weights
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus

MOST_HASHED = 1 << 30
"""Maximum size in bytes of an input file whose hash is recorded."""


class Learned(NamedTuple):
    """The result of training."""

    vocab: dict[int, bytes]
    merges: list[Pair]
    record: dict[str, Any]
    """Description of the text for training.json."""


class TrainingText(Protocol):
    """Text that a tokenizer can be trained on."""

    @property
    def files(self) -> list[str]:
        """All files that training reads."""

    def corpora(self) -> dict[str, Corpus]:
        """Return the texts on which the tokenizer can be measured, by name."""

    def check(self, trainer: BPE_Trainer) -> None:
        """Raise ValueError if the trainer cannot learn from this text."""

    def learn(
        self, trainer: BPE_Trainer, vocab_size: int, special_tokens: Sequence[str]
    ) -> Learned:
        """Train on the text; see `BPE_Trainer.train`."""

    def summary(self, record: Mapping[str, Any]) -> list[str]:
        """Return lines about the share of each text, given the record of training."""


@dataclass(frozen=True)
class CountedText:
    """A corpus, word counts in files, or both."""

    corpus: Corpus | None = None
    counts: Sequence[str] = ()
    """Files written by `WordCounts.save`, added to the counts of `corpus`."""
    save_counts: str | None = None
    """File to write the sum of all counts to. An existing file is replaced."""
    ray: str | None = None
    """Address of the Ray cluster to count with, as in `ray_cluster`. None counts without Ray."""
    partial_counts: str | None = None
    """Directory for partial counts; see `count_words`."""

    @property
    def files(self) -> list[str]:
        """The files of the corpus, and those with counts."""
        return [*(self.corpus.files if self.corpus else ()), *self.counts]

    def corpora(self) -> dict[str, Corpus]:
        """Return the corpus, if there is one."""
        return {} if self.corpus is None else {"text": self.corpus}

    def check(self, trainer: BPE_Trainer) -> None:
        """Raise ValueError if the trainer learns superwords, but there are word counts."""
        if trainer.sample is not None and self.corpus is None:
            raise InputError(("requires ", Argument("paths")), argument="sample")
        if trainer.superwords and (self.counts or self.save_counts):
            leave_out = "leave out ", Argument("counts"), " and ", Argument("save_counts")
            raise trainer.superwords.need_text(leave_out)

    def learn(
        self, trainer: BPE_Trainer, vocab_size: int, special_tokens: Sequence[str]
    ) -> Learned:
        """Train on the sum of the counts."""
        record: dict[str, Any] = {"corpus": describe_files(self.files)}
        if trainer.sample is not None and self.corpus is not None:
            record["sample"] = describe_sample(trainer.sample, self.corpus)

        def count(splitter: Splitter) -> WordCounts:
            return _saved(self.count(trainer, splitter), self.save_counts)

        vocab, merges = trainer.train_counted(count, vocab_size, special_tokens)
        return Learned(vocab, merges, record)

    def count(
        self, trainer: BPE_Trainer, splitter: Splitter, sample: Sample | None = None
    ) -> WordCounts:
        """Return the sum of the corpus's word counts and the counts in files.

        Args:
            sample: Sample of the corpus to count instead of the trainer's.
        """
        addends = []
        for file in self.counts:
            addends.append(WordCounts.load(file))
            try:
                addends[-1].check_made_with(splitter)
            except InputError as error:
                raise error.at(os.fspath(file)) from None
        if self.corpus is not None:
            found = trainer.count_words(
                self.corpus,
                splitter,
                ray_address=self.ray,
                partial_counts=self.partial_counts,
                sample=sample,
            )
            addends.append(found)
        total = WordCounts.combined(addends)
        if self.counts:
            total.check_num_bytes()
        return total

    def summary(self, record: Mapping[str, Any]) -> list[str]:
        """Return a line about the sample, if there is one."""
        return [f"sample: {_sampled(record)}"] if "sample" in record else []


@dataclass(frozen=True)
class Mixture:
    """Texts with their shares of the bytes; see `WordCounts.mixed`."""

    parts: Mapping[Portion, CountedText]
    temperature: float | None = None
    """Makes shares depend on the sizes of the texts; see `tempered_weights`."""
    save_counts: str | None = None
    """See `CountedText`."""

    def __post_init__(self) -> None:
        if self.temperature is not None:
            tempered_weights([], [], self.temperature)  # checks it

    @property
    def files(self) -> list[str]:
        """The files of all texts."""
        return [file for part in self.parts.values() for file in part.files]

    def corpora(self) -> dict[str, Corpus]:
        """Return the corpora by the name of their portion."""
        return {
            portion.name: corpus
            for portion, part in self.parts.items()
            for corpus in part.corpora().values()
        }

    def check(self, trainer: BPE_Trainer) -> None:
        """Raise ValueError if the trainer needs the text, or counts that are not multiplied."""
        if trainer.sample is not None and self.temperature is not None:
            raise InputError(
                "cannot be given with a temperature, because the sizes of the texts would be those "
                "of their samples",
                argument="sample",
                remedy="give the weights",
            )
        saved = [file for part in self.parts.values() for file in part.counts]
        if trainer.superwords and saved:
            raise trainer.superwords.need_text(f"pass the text of {saved[0]}")
        if trainer.superwords and self.save_counts:
            raise trainer.superwords.need_text(("leave out ", Argument("save_counts")))
        if trainer.min_frequency > 1:
            raise InputError(
                "must be 1 for a mixture, whose counts are multiplied, got "
                f"{trainer.min_frequency}",
                argument="min_frequency",
            )

    def learn(
        self, trainer: BPE_Trainer, vocab_size: int, special_tokens: Sequence[str]
    ) -> Learned:
        """Train on the counts of all texts, multiplied so that each text has its share."""
        mixed: list[dict[str, Any]] = [
            {
                "name": portion.name,
                "weight": portion.weight,
                "corpus": describe_files(part.files),
            }
            for portion, part in self.parts.items()
        ]
        samples = [
            None if trainer.sample is None else trainer.sample.portion(portion.weight)
            for portion in self.parts
        ]
        for entry, part, sample in zip(mixed, self.parts.values(), samples, strict=True):
            if sample is not None and part.corpus is not None:
                entry["sample"] = describe_sample(sample, part.corpus)

        def count(splitter: Splitter) -> WordCounts:
            counts = [
                part.count(trainer, splitter, sample)
                for part, sample in zip(self.parts.values(), samples, strict=True)
            ]
            weights = [portion.weight for portion in self.parts]
            if self.temperature is not None:
                sizes = [words.num_bytes for words in counts]
                weights = tempered_weights(weights, sizes, self.temperature)
                for portion, weight in zip(mixed, weights, strict=True):
                    portion["weight"] = weight / sum(weights)
            return _saved(WordCounts.mixed(counts, weights), self.save_counts)

        vocab, merges = trainer.train_counted(count, vocab_size, special_tokens)
        record: dict[str, Any] = {"mixture": mixed}
        if self.temperature is not None:
            record["temperature"] = self.temperature
        return Learned(vocab, merges, record)

    def summary(self, record: Mapping[str, Any]) -> list[str]:
        """Return a line with the share of each text."""
        shares = (f"{portion['name']} {portion['weight']:.1%}" for portion in record["mixture"])
        return [
            f"mixture: {', '.join(shares)}",
            *(
                f"sample of {portion['name']}: {_sampled(portion)}"
                for portion in record["mixture"]
                if "sample" in portion
            ),
        ]


def describe_sample(sample: Sample, corpus: Corpus) -> dict[str, Any]:
    """Return the size and the seed of a sample, and the number of bytes drawn from each file."""
    drawn = [found.num_bytes for found in sample.draw(corpus.sources)]
    return {**dataclasses.asdict(sample), "drawn": drawn, "of": corpus.num_bytes}


def _sampled(record: Mapping[str, Any]) -> str:
    """Return what was drawn from the files of a corpus, in words."""
    sample, most = record["sample"], 5
    files = [file["path"] for file in record["corpus"]]
    drawn = sorted(zip(sample["drawn"], files, strict=False), reverse=True)
    shown = ", ".join(f"{size:,} from {path}" for size, path in drawn[:most] if size)
    rest = sum(size > 0 for size, _ in drawn[most:])
    return (
        f"{sum(sample['drawn']):,} of {sample['of']:,} bytes, drawn at random with seed "
        f"{sample['seed']}: {shown}{f' and {rest:,} other files' if rest else ''}"
    )


def _saved(counts: WordCounts, path: str | None) -> WordCounts:
    """Write counts to a file, if there is one, and return them."""
    if path:
        counts.save(path)
    return counts


def describe_files(files: Sequence[str]) -> list[dict[str, Any]]:
    """Return the path, size and SHA-256 of each input file; for a URL, only the URL as its path.

    The hash of a file larger than MOST_HASHED is None, because computing it would take as long as
    training.
    """
    return [
        {"path": file}
        if is_url(file)
        else {
            "path": printable_path(file),
            "num_bytes": (size := os.path.getsize(file)),
            "sha256": sha256_file(file) if size <= MOST_HASHED else None,
        }
        for file in files
    ]
