"""The sources of parity-aware training, with their held-out texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cs336_basics._support.errors import InputError
from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.parity import Parity
from cs336_basics.data.hold_out import hold_out
from cs336_basics.data.mixture import corpus_names
from cs336_basics.data.preparation_record import Stages
from cs336_basics.data.training_text import Learned, describe_files
from cs336_basics.text import Corpus

HELD_OUT_FRACTION = 0.05


class ParitySources(NamedTuple):
    """What parity-aware training learns from; a `TrainingText`."""

    names: Sequence[str]
    train: Sequence[Corpus]
    dev: Sequence[Corpus]
    """Held-out text of each source."""
    parity: Parity

    @classmethod
    def held_out(
        cls,
        paths: Sequence[str],
        corpora: Sequence[Corpus],
        dev: Sequence[Corpus],
        parity: Parity,
        directory: Path,
    ) -> ParitySources:
        """Return the sources. Without `dev`, the end of each corpus is held out.

        Args:
            paths: Path of each corpus as given, for its name.
            corpora: Text of each source.
            dev: Held-out text of each source, or nothing.
            parity: How to choose sources.
            directory: Directory for the parts of files that are divided.

        Raises:
            ValueError: If the numbers of corpora and held-out texts differ, or a corpus cannot be
                divided.
        """
        names = corpus_names(paths)
        if not dev:
            divisions = [
                hold_out(corpus, HELD_OUT_FRACTION, folder, Stages(folder, lambda line: None))
                for corpus, folder in zip(
                    corpora, (directory / str(i) for i in range(len(corpora))), strict=True
                )
            ]
            return cls(names, [d.train for d in divisions], [d.valid for d in divisions], parity)
        if len(dev) != len(corpora):
            raise InputError(
                f"must be one text for each of the {len(corpora)} sources, got {len(dev)}",
                argument="parity_dev",
            )
        return cls(names, corpora, dev, parity)

    @property
    def files(self) -> list[str]:
        """The files of the sources and of the held-out texts."""
        return [file for corpus in (*self.train, *self.dev) for file in corpus.files]

    def corpora(self) -> dict[str, Corpus]:
        """Return the held-out text of each source."""
        return dict(zip(self.names, self.dev, strict=True))

    def check(self, trainer: BPE_Trainer) -> None:
        """Do nothing: `BPE_Trainer.train_parity` checks the options before it counts."""

    def learn(
        self, trainer: BPE_Trainer, vocab_size: int, special_tokens: Sequence[str]
    ) -> Learned:
        """Train so that all sources are compressed equally well."""
        vocab, merges = trainer.train_parity(
            self.train, vocab_size, special_tokens, dev=self.dev, parity=self.parity
        )
        sources = [
            {
                "name": name,
                "merges": trainer.served.count(index),
                "corpus": describe_files(corpus.files),
            }
            for index, (name, corpus) in enumerate(zip(self.names, self.train, strict=True))
        ]
        return Learned(vocab, merges, {"parity": {**self.parity.record(), "sources": sources}})

    def summary(self, record: Mapping[str, Any]) -> list[str]:
        """Return a line with the number of merges that each source chose."""
        sources = record["parity"]["sources"]
        chosen = (f"{source['name']} {source['merges']:,}" for source in sources)
        return [f"merges chosen by each text: {', '.join(chosen)}"]
