"""Count the pre-tokens in a random sample of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cs336_basics._support.progress import byte_bar
from cs336_basics.counting.count_job import CountJob
from cs336_basics.counting.count_words import REGEX_PIECE_SIZE, count_words
from cs336_basics.counting.word_counter import choose_splitting
from cs336_basics.counting.word_counts import WordCounts
from cs336_basics.execution.executors import executor
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.corpus import DEFAULT_PIECE_SIZE, Corpus
from cs336_basics.text.paths import PathsLike
from cs336_basics.text.utf8 import check_errors

if TYPE_CHECKING:
    from cs336_basics.counting.sample import Sample


def count_sample(
    corpus: Corpus | PathsLike,
    sample: Sample,
    splitter: Splitter | None = None,
    *,
    splitting: str | None = None,
    execution: str | None = None,
    num_workers: int | None = None,
    progress: bool = False,
    ray_address: str | None = None,
) -> WordCounts:
    """Count the pre-tokens in a sample of files; see `count_words`.

    The counts depend on the files, the sample and the splitter, but not on the other arguments. If
    the files are not larger than the sample, all of their text is counted.

    Args:
        corpus, splitter, splitting, execution, num_workers, progress, ray_address: See
            `count_words`.
        sample: What to draw.

    Raises:
        TypeError: If `sample` is not a Sample.
        ValueError, OSError, ImportError, RuntimeError: See `count_words`.
    """
    from cs336_basics.counting.sample import check_sample

    check_sample(sample)
    corpus = Corpus.of(corpus)
    check_errors(corpus.errors)
    splitter = Splitter.of(splitter)
    splitting = choose_splitting(splitting, splitter)
    if sample.num_bytes >= corpus.num_bytes:
        return count_words(
            corpus,
            splitter,
            splitting=splitting,
            execution=execution,
            num_workers=num_workers,
            progress=progress,
            ray_address=ray_address,
        )
    are_local = all(source.local_path is not None for source in corpus.sources)
    if execution is None and splitting == "compiled" and are_local:
        execution = "threads"  # which need not send the counts to this process
    runner = executor(execution or "processes", num_workers, ray_address=ray_address)
    sources = [source.absolute() for source in corpus.sources]
    piece_size = REGEX_PIECE_SIZE if splitting == "regex" else DEFAULT_PIECE_SIZE
    pieces = [
        piece
        for drawn in sample.draw(sources)
        for piece in drawn.pieces(splitter.special_tokens, piece_size)
    ]
    job = CountJob(splitter, splitting)
    with byte_bar(progress, sum(piece.num_bytes for piece in pieces), "counting a sample") as bar:
        counted = runner.reduce(job, pieces, lambda piece: bar.update(piece.num_bytes))
    counts, reading = job.combine([counted])
    reading.warn()
    return counts
