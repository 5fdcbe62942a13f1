"""The data section of a training configuration; `prepare.py` acts on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cs336_basics._support.option import check_types, option


@dataclass
class DataConfig:
    """Where the text comes from, and how it becomes tokens.

    Raises:
        TypeError: a value has another type than its annotation says.
        ValueError: a value is out of bounds; both name the key and the value.
    """

    dataset: Literal["sample", "tinystories", "owt"] = option(
        "sample", "the corpus to train on, unless train_path names another"
    )
    data_dir: str | None = option(
        None, "folder of the downloaded corpora (unset: the environment's CS336_DATA, else data/)"
    )
    sample_bytes: int = option(10_000_000, "size of the generated sample corpus, in bytes")
    train_path: str | tuple[str, ...] | None = option(
        None,
        "your own text (documents separated by <|endoftext|>), JSON lines, Parquet or Arrow, also "
        ".gz and .zst; or .npy token files; globs name several",
    )
    valid_path: str | tuple[str, ...] | None = option(
        None, "files to validate on; unset: the end of train_path"
    )
    valid_fraction: float = option(
        0.05, "share of train_path held out, whole documents at its end, if valid_path is not set"
    )
    field: str | None = option(None, "field of JSON lines that holds the text")
    column: str | None = option(None, "column of Parquet and Arrow files")
    errors: Literal["replace", "strict"] = option(
        "replace", "replace bytes that are not UTF-8 with U+FFFD, or refuse them"
    )
    tokenizer: str | None = option(
        None, "directory of a finished tokenizer to use; unset: train one on the training text"
    )
    trainer: str = option(
        "auto", "which BPE trainer learns the tokenizer; auto: the fastest that is built"
    )
    pattern: str = option(
        "gpt2", "split pattern of a new tokenizer: a name such as gpt2 or cl100k, or a regex"
    )

    def __post_init__(self) -> None:
        check_types(self, "data.")
        if self.sample_bytes < 1_000:
            raise ValueError(f"data.sample_bytes is {self.sample_bytes}: it must be at least 1000")
        if not 0 < self.valid_fraction < 1:
            raise ValueError(
                f"data.valid_fraction is {self.valid_fraction}: it must be between 0 and 1"
            )
        if self.valid_path is not None and self.train_path is None:
            raise ValueError("data.valid_path is set without data.train_path: give both")
        for key in ("field", "column"):
            if getattr(self, key) is not None and self.train_path is None:
                raise ValueError(f"data.{key} is set without data.train_path: give both")


@dataclass(frozen=True)
class Preparation:
    """How the data of a run is prepared."""

    data: DataConfig
    vocab_size: int
    """Tokens of a new tokenizer."""
    seed: int = 0
    """Seed of the sample corpus."""
    num_workers: int | None = None
    """Processes and threads to use; None: one for each core."""
