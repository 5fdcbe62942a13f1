"""From text to token files: what a run needs before its first step.

There are three stages: the corpus, the tokenizer, the token files. Each leaves files in the run
directory and a record of what they were made from, see `stages.py`. A resumed run repeats only the
stages whose record no longer holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cs336_basics._files import sha256_file
from cs336_basics._messages import short_repr
from cs336_basics._text import END_OF_TEXT
from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS, train_bpe
from cs336_basics.bpe.symbols import NUM_BYTES
from cs336_basics.datasets import dataset_path, write_sample
from cs336_basics.pretokenization.corpus import is_plain_text
from cs336_basics.pretokenization.patterns import resolve_pattern
from cs336_basics.runs.data_config import Preparation
from cs336_basics.runs.hold_out import hold_out
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.runs.stages import Stages
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.encode_files import encode_file
from cs336_basics.tokenizer.token_files import load_metadata, load_token_file, metadata_path_of
from cs336_basics.tokenizer.vocab_files import save_tokenizer


@dataclass
class PreparedData:
    """A tokenizer and the token files made with it."""

    tokenizer: Tokenizer
    train_tokens: npt.NDArray[np.integer[Any]]
    valid_tokens: npt.NDArray[np.integer[Any]]


def prepare_data(
    preparation: Preparation,
    run: RunDirectory,
    *,
    progress: bool = False,
    report: Callable[[str], None] = print,
) -> PreparedData:
    """Make or reuse the corpus, the tokenizer and the token files of a run.

    Args:
        preparation: where the text comes from, and how it becomes tokens.
        run: the directory that the files go to.
        progress: show progress bars on a terminal.
        report: is called with a line for each stage.

    Raises:
        FileNotFoundError: a text is missing; for a downloadable corpus, with the command for it.
        ValueError: text, tokenizer, token files and configuration do not fit together.
    """
    check_sources(preparation)
    stages = Stages(run.data / "stages.json", report)
    train, valid = _find_texts(preparation, run, stages)
    tokenizer = _find_tokenizer(preparation, run, stages, train, progress)
    files = []
    for name, text in (("train", train), ("valid", valid)):
        if text.suffix == ".npy":
            stages.check(f"{name} tokens", {"file": sha256_file(text)})
            files.append(text)
            continue
        run.data.mkdir(parents=True, exist_ok=True)
        file = run.data / f"{name}.npy"
        stages.run(
            f"{name} tokens",
            {"source": sha256_file(text), "tokenizer": tokenizer.hash()},
            file,
            partial(
                encode_file,
                tokenizer,
                text,
                file,
                num_workers=preparation.num_workers,
                progress=progress,
                overwrite=True,
            ),
            [file.with_suffix(".json")],
        )
        files.append(file)
    # Both are checked against the tokenizer, even if an earlier session made them.
    tokens = [
        load_token_file(file, vocab_size=tokenizer.vocab_size, tokenizer_hash=tokenizer.hash())
        for file in files
    ]
    metadata = load_metadata(metadata_path_of(files[1]))
    report(
        f"{tokenizer.vocab_size:,} tokens in the vocabulary, {len(tokens[0]):,} to train on, "
        f"{len(tokens[1]):,} to validate on, {_rounded(metadata['bytes_per_token'])} bytes each"
    )
    return PreparedData(tokenizer, tokens[0], tokens[1])


def _rounded(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, (int, float)) else short_repr(value)


def check_sources(preparation: Preparation) -> None:
    """Check what a run starts from before anything is made of it.

    Raises:
        FileNotFoundError: a text is missing; for a downloadable corpus, with the command for it.
        ValueError: a text, the tokenizer or a value of the configuration cannot be used.
    """
    data = preparation.data
    for key in ("train_path", "valid_path"):
        if getattr(data, key) is not None:
            _check_file(f"data.{key}", getattr(data, key), data.tokenizer)
    if str(data.train_path).endswith(".npy") and data.valid_path is None:
        raise ValueError(
            f"data.train_path is the token file {data.train_path}: give data.valid_path too"
        )
    smallest = NUM_BYTES + 1
    if data.tokenizer is None and preparation.vocab_size < smallest:
        raise ValueError(
            f"model.vocab_size is {preparation.vocab_size}: it must be at least {smallest}, for "
            f"{NUM_BYTES} bytes and {END_OF_TEXT}"
        )
    if data.train_path is None and data.dataset != "sample":
        for split in ("train", "valid"):
            dataset_path(data.dataset, split, data.data_dir)
    if data.tokenizer is not None:
        _check_tokenizer(Tokenizer.from_directory(data.tokenizer), data.tokenizer)
    if data.trainer not in ("auto", *TRAINERS):
        raise ValueError(
            f"data.trainer is {data.trainer!r}: it must be auto or one of {', '.join(TRAINERS)}"
        )
    resolve_pattern(data.pattern)


def _check_file(key: str, path: str, tokenizer: str | None) -> None:
    if Path(path).is_dir():
        raise ValueError(f"{key} is {path!r}: that is a directory; name a file")
    if not Path(path).is_file():
        raise FileNotFoundError(f"{key} is {path!r}: there is no such file")
    if Path(path).stat().st_size == 0:
        raise ValueError(f"{key} is {path!r}: the file is empty")
    if Path(path).suffix == ".npy":
        if tokenizer is None:
            raise ValueError(f"{key} is the token file {path}: name its tokenizer, data.tokenizer")
    elif not is_plain_text(path):
        raise ValueError(
            f"{key} is {path!r}: training reads plain text and .npy token files; unpack it first"
        )


def _check_tokenizer(tokenizer: Tokenizer, directory: str) -> None:
    if END_OF_TEXT not in tokenizer.special_tokens:
        raise ValueError(
            f"the tokenizer in {directory} lacks the special token {END_OF_TEXT}, "
            "which separates documents"
        )
    # A model can predict any id below its vocabulary size, and each must decode to some text.
    for token_id in range(tokenizer.vocab_size):
        if token_id not in tokenizer.vocab:
            raise ValueError(f"the tokenizer in {directory} has no token with id {token_id}")


def _find_texts(preparation: Preparation, run: RunDirectory, stages: Stages) -> tuple[Path, Path]:
    """Return the files of training and validation: texts, or token files ending in .npy."""
    data = preparation.data
    if data.train_path is not None:
        train = Path(data.train_path)
        if data.valid_path is not None:
            return train, Path(data.valid_path)
        return hold_out(train, data.valid_fraction, run.data, stages)
    if data.dataset == "sample":
        return _make_sample(data.sample_bytes, preparation.seed, run, stages)
    train, valid = (
        dataset_path(data.dataset, split, data.data_dir) for split in ("train", "valid")
    )
    return train, valid


def _make_sample(num_bytes: int, seed: int, run: RunDirectory, stages: Stages) -> tuple[Path, Path]:
    """Write the sample corpus: a tenth of its bytes, from another seed, is for validation."""
    run.data.mkdir(parents=True, exist_ok=True)
    paths = []
    for split, size, split_seed in (
        ("train", num_bytes - num_bytes // 10, seed),
        ("valid", num_bytes // 10, seed + 1),
    ):
        path = run.data / f"sample_{split}.txt"
        inputs = {"num_bytes": size, "seed": split_seed}
        stages.run(f"{split} text", inputs, path, partial(write_sample, path, size, split_seed))
        paths.append(path)
    return paths[0], paths[1]


def _find_tokenizer(
    preparation: Preparation, run: RunDirectory, stages: Stages, train: Path, progress: bool
) -> Tokenizer:
    """Return the tokenizer that the configuration names, or a new one; the run keeps a copy."""
    metadata = run.tokenizer / "metadata.json"
    others = [run.tokenizer / "vocab.json", run.tokenizer / "merges.txt"]
    if preparation.data.tokenizer is not None:
        tokenizer = Tokenizer.from_directory(preparation.data.tokenizer)
        inputs = {"hash": tokenizer.hash()}
        stages.run("tokenizer", inputs, metadata, lambda: tokenizer.save(run.tokenizer), others)
        return tokenizer
    source = sha256_file(train)
    make = partial(_train, preparation, run, train, source, progress)
    stages.run("tokenizer", {"source": source}, metadata, make, others)
    return Tokenizer.from_directory(run.tokenizer)


def _train(
    preparation: Preparation, run: RunDirectory, text: Path, sha256: str, progress: bool
) -> None:
    """Train a tokenizer on a text with this hash and save it in the run directory."""
    data = preparation.data
    vocab, merges = train_bpe(
        text,
        preparation.vocab_size,
        [END_OF_TEXT],
        trainer=DEFAULT_TRAINER if data.trainer == "auto" else data.trainer,
        num_workers=preparation.num_workers,
        pattern=data.pattern,
        progress=progress,
    )
    save_tokenizer(
        run.tokenizer,
        vocab,
        merges,
        [END_OF_TEXT],
        data.pattern,
        corpus_bytes=text.stat().st_size,
        corpus_sha256=sha256,
    )
