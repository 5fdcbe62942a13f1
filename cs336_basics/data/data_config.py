"""The data section of a training configuration; `prepare.py` acts on it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from cs336_basics._support.validation import Checked, Paths, option


@dataclass(frozen=True)
class DataConfig(Checked):
    """Where the text comes from, and how it becomes tokens.

    Raises:
        ValueError: a value has another type, or is out of bounds.
    """

    dataset: Literal["sample", "tinystories", "owt"] = option(
        "the corpus to train on, unless train_path names another", "sample"
    )
    data_dir: str | None = option(
        "folder of the downloaded corpora (unset: the environment's CS336_DATA, else data/)", None
    )
    sample_bytes: int = option(
        "size of the generated sample corpus, in bytes", 10_000_000, ge=1_000
    )
    train_path: Paths | None = option(
        "your own text (documents separated by <|endoftext|>), JSON lines, Parquet or "
        "Arrow, also .gz and .zst; or .npy token files; globs name several",
        None,
    )
    valid_path: Paths | None = option("files to validate on; unset: the end of train_path", None)
    valid_fraction: float = option(
        "share of train_path held out, whole documents at its end, if valid_path is not set",
        0.05,
        gt=0,
        lt=1,
    )
    field: str | None = option("field of JSON lines that holds the text", None)
    column: str | None = option("column of CSV, Parquet and Arrow files", None)
    format: Literal["text", "jsonl", "csv", "parquet", "arrow"] | None = option(
        "how all files of train_path and valid_path are read; unset: as their names say", None
    )
    max_piece_bytes: int = option(
        "most bytes of a row, and of text without a place to cut it", 64 << 20, ge=1
    )
    errors: Literal["replace", "strict"] = option(
        "replace bytes that are not UTF-8 with U+FFFD, or refuse them", "replace"
    )
    tokenizer: str | None = option(
        "directory of a finished tokenizer to use; unset: train one on the training text", None
    )
    trainer: str = option(
        "which BPE trainer learns the tokenizer; auto: the fastest that is built", "auto"
    )
    pattern: str = option(
        "split pattern of a new tokenizer: a name such as gpt2 or cl100k, or a regex", "gpt2"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.valid_path is not None and self.train_path is None:
            raise ValueError("data.valid_path is set without data.train_path: give both")
        for key in ("field", "column"):
            if getattr(self, key) is not None and self.train_path is None:
                raise ValueError(f"data.{key} is set without data.train_path: give both")


@dataclasses.dataclass(frozen=True)
class Preparation:
    """How the data of a run is prepared."""

    data: DataConfig
    vocab_size: int
    """Tokens of a new tokenizer."""
    seed: int = 0
    """Seed of the sample corpus."""
    num_workers: int | None = None
    """Processes and threads to use; None: one for each core."""
