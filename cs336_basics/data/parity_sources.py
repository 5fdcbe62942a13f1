"""The sources of parity-aware training, with their held-out texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cs336_basics._support.errors import InputError
from cs336_basics.bpe.parity import Parity
from cs336_basics.data.hold_out import hold_out
from cs336_basics.data.mixture import corpus_names
from cs336_basics.data.preparation_record import Stages
from cs336_basics.text import Corpus

HELD_OUT_FRACTION = 0.05


class ParitySources(NamedTuple):
    """What parity-aware training learns from."""

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

    def record(self, served: Sequence[int | None], files: Sequence[Any]) -> dict[str, Any]:
        """Return the options and sources for a JSON file.

        Args:
            served: The source that chose each merge; see `BPE_Trainer`.
            files: Description of the files of each source.
        """
        sources = [
            {"name": name, "merges": served.count(index), "corpus": described}
            for index, (name, described) in enumerate(zip(self.names, files, strict=True))
        ]
        return {**self.parity.record(), "sources": sources}
