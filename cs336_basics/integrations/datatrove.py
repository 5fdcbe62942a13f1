"""Steps for datatrove pipelines: count words, train a tokenizer on the counts, encode documents.

| step | reads | writes |
|---|---|---|
| `CountWords` | documents | the word counts of each task |
| `MergeWordCounts` | word counts | fewer files with the same sum; optional |
| `TrainTokenizer` | word counts | a tokenizer directory |
| `TokenizeDocuments` | documents | the files of datatrove's `DocumentTokenizer` |

The steps run with any of datatrove's executors: local, Slurm or Ray. docs/datatrove.md has an
example. This module needs datatrove; the rest of the package does not import it.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.lazy import needed_for
from cs336_basics._support.messages import short_repr
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS, BPE_Trainer
from cs336_basics.counting import WordCounts
from cs336_basics.counting.word_counter import WordCounter, choose_splitting
from cs336_basics.splitting import Splitter
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.definition import TOKENIZER_FILE
from cs336_basics.tokenizer.ids import token_dtype

with needed_for("cs336_basics.integrations.datatrove", "'cs336-basics[datatrove]'"):
    from datatrove.io import DataFolder, DataFolderLike, get_datafolder
    from datatrove.pipeline.base import PipelineStep
    from datatrove.pipeline.tokens.tokenizer import DocumentTokenizer, TokenizedFile

__all__ = ["CountWords", "MergeWordCounts", "TokenizeDocuments", "TrainTokenizer"]

_MOST_ADDENDS = 16
"""Maximum number of WordCounts objects in memory at a time."""


class CountWords(PipelineStep):  # type: ignore[misc]  # datatrove has no types
    """Count the words of documents, and pass the documents on.

    Each task writes its counts after it has read all its documents.

    Args:
        output_folder: Folder for the counts: a path, a URL or a DataFolder.
        pattern: Split pattern: a name in PATTERNS or a regular expression.
        special_tokens: Special tokens to cut out of the text.
        normalizer: Unicode normalization form of the text; see `Splitter`.

    Raises:
        ValueError: If an argument is invalid; see `Splitter`.
    """

    type = "🔢 - TOKENIZER"
    name = "Count words"

    def __init__(
        self,
        output_folder: DataFolderLike,
        *,
        pattern: str = "gpt2",
        special_tokens: Sequence[str] = (END_OF_TEXT,),
        normalizer: str | None = None,
    ) -> None:
        super().__init__()
        self.output_folder = get_datafolder(output_folder)
        self.splitter = Splitter(pattern, special_tokens, normalizer)

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Yield the documents, and write the counts of the task at the end."""
        splitter = self.splitter
        counter = WordCounter(splitter, choose_splitting(None, splitter))
        for document in data or ():
            with self.track_time():
                counter.count(ReadingRecord().utf8_of(document.text, "replace"))
            yield document
        counts = counter.counts()
        self.stat_update("distinct words", value=len(counts), unit="task")
        _save(counts, self.output_folder, rank, world_size)


class MergeWordCounts(PipelineStep):  # type: ignore[misc]
    """Combine word counts into fewer files. Each task adds up the counts in some of the files.

    This step is optional, because `TrainTokenizer` adds all counts that it reads. If there are
    thousands of files, merge them in several tasks first.

    Args:
        input_folder: Folder with the counts from all `CountWords` tasks.
        output_folder: Folder for the sums, different from `input_folder`.
    """

    type = "🔢 - TOKENIZER"
    name = "Add word counts"

    def __init__(self, input_folder: DataFolderLike, output_folder: DataFolderLike) -> None:
        super().__init__()
        self.input_folder = get_datafolder(input_folder)
        self.output_folder = get_datafolder(output_folder)

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
        """Write the sum of the counts in every `world_size`-th file, starting with file `rank`.

        Raises:
            ValueError: If counts are missing, or were made with different patterns, special tokens
                or normalizers.
        """
        _read_all(data)
        names = _names_of_counts(self.input_folder)[rank::world_size]
        with self.track_time():
            _save(_sum_of(self.input_folder, names), self.output_folder, rank, world_size)


class TrainTokenizer(PipelineStep):  # type: ignore[misc]
    """Train a tokenizer on word counts. This step runs as a single task.

    Args:
        counts_folder: Folder with the counts from all `CountWords` or `MergeWordCounts` tasks.
        output_folder: Folder for the tokenizer: tokenizer.json and training.json.
        vocab_size: Vocabulary size: 256 bytes + special tokens + merges.
        pattern, special_tokens: The same as for `CountWords`.
        trainer: Name in TRAINERS.
        options: Further options of `BPE_Trainer`, such as `min_frequency`, and the normalizer of
            `CountWords`.

    Raises:
        ValueError, TypeError: If an option is invalid; see `BPE_Trainer`.
    """

    type = "🔢 - TOKENIZER"
    name = "Train a tokenizer"

    def __init__(
        self,
        counts_folder: DataFolderLike,
        output_folder: DataFolderLike,
        vocab_size: int,
        *,
        pattern: str = "gpt2",
        special_tokens: Sequence[str] = (END_OF_TEXT,),
        trainer: str = DEFAULT_TRAINER,
        **options: Any,
    ) -> None:
        super().__init__()
        self.counts_folder = get_datafolder(counts_folder)
        self.output_folder = get_datafolder(output_folder)
        self.vocab_size = vocab_size
        self.special_tokens = list(special_tokens)
        self.trainer: BPE_Trainer = TRAINERS[trainer](pattern=pattern, **options)
        self.trainer.check_request(vocab_size, special_tokens)

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
        """Train the tokenizer and write it.

        Raises:
            ValueError: If there are several tasks, or if counts are missing or were made with a
                different pattern, different special tokens or a different normalizer.
        """
        if world_size != 1:
            raise InputError(f"must be 1 for TrainTokenizer, got {world_size}", argument="tasks")
        _read_all(data)
        with self.track_time(), tempfile.TemporaryDirectory() as directory:
            counts = _sum_of(self.counts_folder, _names_of_counts(self.counts_folder))
            trainer, tokens = self.trainer, self.special_tokens
            vocab, merges = trainer.train_from_counts(counts, self.vocab_size, tokens)
            tokenizer = Tokenizer(
                vocab, merges, tokens, pattern=trainer.pattern, normalizer=trainer.normalizer
            )
            tokenizer.save(directory, {"trainer": trainer.name, "tie_break": trainer.tie_break})
            # A tokenizer is complete once tokenizer.json exists, so this file is written last.
            for name in sorted(os.listdir(directory), key=TOKENIZER_FILE.__eq__):
                _put(os.path.join(directory, name), self.output_folder, name)
        self.stat_update("tokens in the vocabulary", value=len(vocab), unit="tokenizer")


class TokenizeDocuments(DocumentTokenizer):  # type: ignore[misc]
    """Encode documents into the same files as datatrove's `DocumentTokenizer`, but faster.

    Given the same options and seed, the files are identical byte for byte.

    Args:
        output_folder: Folder for the token files: a path, a URL or a DataFolder.
        tokenizer: Tokenizer directory or tokenizer.json, as for `Tokenizer.from_pretrained`. It is
            read when the step runs, so an earlier pipeline may write it.
        eos_token: Special token to append to every document. By default, nothing is appended, as
            with `DocumentTokenizer`.
        num_workers: Number of threads. Defaults to 1, because executors run several tasks at a
            time.
        options: Further options of `DocumentTokenizer`, such as `shuffle_documents` and `seed`.
            Loss masks are not supported.

    Raises:
        ValueError: If `save_loss_metadata` is true, or `num_workers` is less than 1.
    """

    name = "Encode documents"

    def __init__(
        self,
        output_folder: DataFolderLike,
        tokenizer: str | os.PathLike[str],
        *,
        eos_token: str | None = None,
        num_workers: int = 1,
        **options: Any,
    ) -> None:
        checked_integer("num_workers", num_workers, 1)
        if options.get("save_loss_metadata"):
            raise InputError(
                f"must be False, got {short_repr(options['save_loss_metadata'])}",
                argument="save_loss_metadata",
                remedy="use datatrove's DocumentTokenizer",
            )
        super().__init__(
            output_folder,
            tokenizer_name_or_path=os.fspath(tokenizer),
            eos_token=eos_token,
            **options,
        )
        self.num_workers = num_workers

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, read on first use."""
        return Tokenizer.from_pretrained(self.tokenizer_name_or_path)

    @functools.cached_property
    def token_size(self) -> int:
        """Number of bytes per id: 2, or 4 if the vocabulary has ids of 65,536 or more."""
        return token_dtype(self.tokenizer.vocab_size).itemsize

    def write_unshuffled(self, data: Iterable[Any], filename: str) -> Any:
        """Encode documents in batches and write them in order.

        Raises:
            ValueError: If `eos_token` is not a special token, or a text cannot be encoded.
        """
        tokenizer, end = self.tokenizer, self.eos_token
        end_id = None if end is None else tokenizer.special_token_id(end)
        shuffled = self.shuffle_documents or self.shuffle_chunk_size is not None
        file = TokenizedFile(
            (self.local_working_dir if shuffled else None) or self.output_folder,
            filename,
            save_index=self.save_index or shuffled,
            upload_block_size=self.upload_block_size,
            tokenizer_name_or_path=self.tokenizer_name_or_path,
            save_final_metadata=self.save_final_metadata,
            token_size=self.token_size,
        )
        documents = iter(data)
        while batch := list(itertools.islice(documents, self.batch_size)):
            with self.track_time(unit="batch"):
                texts = [document.text for document in batch]
                ids, offsets = tokenizer.encode_batch_array(texts, num_workers=self.num_workers)
                ends = offsets[1:]
                if end_id is not None:
                    ids = np.insert(ids, ends, end_id)
                    ends = ends + np.arange(1, len(batch) + 1)
                file.write_bytes(ids.tobytes(), ends.tolist())
                for length in np.diff(ends, prepend=0).tolist():
                    self.stat_update("tokens", value=length)
        file.close()
        return file


def _read_all(data: Iterable[Any] | None) -> None:
    """Read all documents from earlier steps, which do their work only as documents are read."""
    collections.deque(data or (), maxlen=0)


def _name_of_counts(rank: int, world_size: int) -> str:
    return f"{rank:05d}-of-{world_size:05d}.npz"


def _names_of_counts(folder: DataFolder) -> list[str]:
    """Return the names of the count files in a folder, in task order.

    Raises:
        ValueError: If there are none, the counts of a task are missing, or there are other files.
    """
    names = folder.list_files()
    where = folder.resolve_paths("")
    try:
        world_size = int(names[0].removesuffix(".npz").split("-of-")[1])
    except (IndexError, ValueError):
        found = f"found {short_repr(names[0])}" if names else "the folder is empty or missing"
        raise InputError(
            f"the folder must contain only the counts that CountWords wrote, but {found}",
            place=where,
        ) from None
    # A file name may claim a huge number of tasks. To find a missing file, it is enough to check
    # one more name than there are files.
    ranks = range(min(world_size, len(names) + 1))
    expected = [_name_of_counts(rank, world_size) for rank in ranks]
    if missing := sorted({*expected} - {*names}):
        raise InputError(
            f"{missing[0]}, the counts of one of {world_size:,} tasks, is missing",
            place=where,
            remedy="run the incomplete tasks again",
        )
    if others := sorted({*names} - {*expected}):
        raise InputError(
            f"{short_repr(others[0])} is not one of the counts of {world_size:,} tasks",
            place=where,
            remedy="remove the files of other runs",
        )
    return expected


def _sum_of(folder: DataFolder, names: Sequence[str]) -> WordCounts:
    """Return the sum of the counts in files, reading only a few files into memory at a time."""
    total: list[WordCounts] = []
    for name in names:
        total.append(_load(folder, name))
        if len(total) == _MOST_ADDENDS:
            total = [WordCounts.combined(total)]
    return WordCounts.combined(total)


def _load(folder: DataFolder, name: str) -> WordCounts:
    with contextlib.ExitStack() as stack:
        path = folder.resolve_paths(name)
        if not folder.is_local():
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            path = os.path.join(directory, "counts.npz")
            folder.get_file(name, path)
        return WordCounts.load(path)


def _save(counts: WordCounts, folder: DataFolder, rank: int, world_size: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "counts.npz")
        counts.save(path)
        _put(path, folder, _name_of_counts(rank, world_size))


def _put(path: str, folder: DataFolder, name: str) -> None:
    """Copy a local file to a folder atomically: either the whole file appears there or nothing."""
    if not folder.is_local():
        folder.put_file(path, name)  # object stores show an object only once it is complete
        return
    with open(path, "rb") as source, atomic_writer(folder.resolve_paths(name)) as target:
        shutil.copyfileobj(source, target)
