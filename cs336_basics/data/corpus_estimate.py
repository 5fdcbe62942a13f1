"""Estimate the time and storage for preparing a large corpus, from rates measured on a piece of it.

docs/scaling.md explains the formulas and compares them with measurements.
"""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from cs336_basics._support.errors import InputError
from cs336_basics._support.reading import decoded
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS
from cs336_basics.counting.count_words import count_words
from cs336_basics.splitting.safe_cuts import SafeCuts
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.sources import Source
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.files.encode_files import encode_file

PIECE_SIZE = 64 << 20
"""Maximum size in bytes of the piece of text that is measured."""

_LEAST_SIZE = 1000
# Memory per distinct word while counting, and while merging (docs/scaling.md).
_TABLE_BYTES = 50
_MERGING_BYTES = 100
_MOST_WORD_BYTES = 4 << 30  # limit of the native trainer

T = TypeVar("T")


@dataclass(frozen=True)
class Rates:
    """Rates of one core, measured on a piece of the corpus.

    Attributes:
        num_bytes: Size of the piece in bytes.
        counting: Bytes counted per second.
        num_words: Number of distinct words in the piece.
        word_bytes: Mean length of the distinct words in bytes.
        growth: Exponent k such that the number of distinct words grows as bytes^k.
        merging: Seconds to learn the merges, per distinct word of the piece.
        encoding: Bytes encoded per second.
        bytes_per_token: Bytes of text per token.
        bytes_per_id: Size in bytes of an id in a token file.
    """

    num_bytes: int
    counting: float
    num_words: int
    word_bytes: float
    growth: float
    merging: float
    encoding: float
    bytes_per_token: float
    bytes_per_id: int

    def with_words_of_the_web(self) -> Rates:
        """Return these rates with OpenWebText's distinct words and merges (docs/scaling.md)."""
        return replace(
            self,
            num_words=round(3.45 * self.num_bytes**0.62),
            word_bytes=9.5,
            growth=0.62,
            merging=3.3e-7,
        )

    def words_in(self, num_bytes: float) -> float:
        """Return the expected number of distinct words in a text (Heaps' law)."""
        return float(self.num_words * (num_bytes / self.num_bytes) ** self.growth)


@dataclass(frozen=True)
class Cluster:
    """Machines that share the work. `network` is in Gbit/s per machine; None means no limit."""

    nodes: int
    cores: int
    network: float | None = None

    def seconds(self, num_bytes: float, rate: float, transferred: float) -> tuple[float, str]:
        """Return the time in seconds to process a text, and the resource that limits it.

        `rate` is the speed of one core in bytes per second. `transferred` is the number of bytes
        that pass through the network.
        """
        computing = num_bytes / (rate * self.nodes * self.cores)
        if self.network is None:
            return computing, "cores"
        transfer = transferred / (self.network * 1e9 / 8 * self.nodes)
        return max((computing, "cores"), (transfer, "network"))


def measure_rates(
    text: Path, vocab_size: int, pattern: str = "gpt2", normalizer: str | None = None
) -> Rates:
    """Measure the rates of one core on the first PIECE_SIZE bytes of a plain text file.

    JSON Lines and CSV are measured as plain text.

    Args:
        text: The file.
        vocab_size, pattern, normalizer: Options of the tokenizer; see `BPE_Trainer`.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the file is not UTF-8 text, is too short, or has no words; or if the pattern
            or the normalizer is invalid.
    """
    splitter = Splitter(pattern, [END_OF_TEXT], normalizer)
    (source,) = Corpus(text, format="text").sources
    content = _beginning_of(source, PIECE_SIZE)
    if len(content) < _LEAST_SIZE:
        raise InputError(f"{text} must have at least {_LEAST_SIZE} bytes, got {len(content)}")
    decoded(content, text)  # an error in the copies below would not name this file
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "piece").write_bytes(content)
        piece = Corpus(Path(folder, "piece"), format="text")
        part = _beginning_of(piece.sources[0], len(content) // 8)
        Path(folder, "eighth").write_bytes(part)
        eighth = Corpus(Path(folder, "eighth"), format="text")
        counts, counting = _timed(lambda: count_words(piece, splitter, num_workers=1))
        if not counts:
            raise InputError("no words, only special tokens", place=str(text))
        few = len(count_words(eighth, splitter, num_workers=1)) or 1
        growth = 1.0  # for text that cannot be divided
        if len(part) < len(content):
            growth = math.log(len(counts) / few) / math.log(len(content) / len(part))
        trainer = TRAINERS[DEFAULT_TRAINER](pattern=pattern, normalizer=normalizer)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a piece may yield too few merges
            (vocab, merges), merging = _timed(
                lambda: trainer.train_from_counts(counts, vocab_size, [END_OF_TEXT])
            )
        tokenizer = Tokenizer(vocab, merges, [END_OF_TEXT], pattern=pattern, normalizer=normalizer)
        found, encoding = _timed(
            lambda: encode_file(
                tokenizer, piece, Path(folder, "piece.npy"), num_workers=1, overwrite=True
            )
        )
    return Rates(
        num_bytes=len(content),
        counting=len(content) / counting,
        num_words=len(counts),
        word_bytes=sum(map(len, counts)) / len(counts),
        growth=growth,
        merging=merging / len(counts),
        encoding=len(content) / encoding,
        bytes_per_token=found["bytes_per_token"],
        bytes_per_id=2 if found["dtype"] == "uint16" else 4,
    )


def _beginning_of(source: Source, size: int) -> bytes:
    """Return the first piece of about `size` bytes of plain text."""
    cuts = SafeCuts()
    texts = (block.text for block in source.pieces(size)[0].texts(cuts))
    return b"".join(text for text in texts if isinstance(text, bytes))


def estimate_rows(
    rates: Rates, num_bytes: float, cluster: Cluster
) -> list[tuple[str, float, str, str]]:
    """Return the estimated figures as rows of name, number, unit ("s", "B" or "") and limit."""
    words = rates.words_in(num_bytes)
    tokens = num_bytes / rates.bytes_per_token * rates.bytes_per_id
    counting, counting_limit = cluster.seconds(num_bytes, rates.counting, num_bytes)
    encoding, encoding_limit = cluster.seconds(num_bytes, rates.encoding, num_bytes + tokens)
    too_long = words * rates.word_bytes >= _MOST_WORD_BYTES
    limit = "distinct words; the native trainer accepts less than 4 GiB of them" if too_long else ""
    return [
        ("counting", counting, "s", counting_limit),
        ("distinct words", words, "", ""),
        (
            "memory for counting",
            rates.words_in(num_bytes / cluster.nodes) * _TABLE_BYTES,
            "B",
            "on each machine",
        ),
        ("merging", words * rates.merging, "s", limit or "one core of one machine"),
        ("memory for merging", words * _MERGING_BYTES, "B", ""),
        ("encoding", encoding, "s", encoding_limit),
        ("token files", tokens, "B", ""),
    ]


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """Call a function twice. Return its result and the seconds that the faster call took."""
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return result, min(seconds)
