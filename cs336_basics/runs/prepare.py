"""From text to token files: what a run needs before its first step.

Three stages, each of which leaves a file or directory in the run directory and a record of what
it was made from: the corpus, the tokenizer, the token files. A resumed run repeats only the stages
whose record no longer holds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cs336_basics._files import atomic_writer, sha256_file, write_json
from cs336_basics._text import END_OF_TEXT
from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS, train_bpe
from cs336_basics.bpe.base import NUM_BYTES
from cs336_basics.datasets import dataset_path, write_sample
from cs336_basics.pretokenization.chunking import next_cut
from cs336_basics.pretokenization.corpus import is_plain_text
from cs336_basics.pretokenization.patterns import resolve_pattern
from cs336_basics.pretokenization.safe_cuts import SafeCuts
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.encode_files import encode_file
from cs336_basics.tokenizer.token_files import load_token_file
from cs336_basics.tokenizer.vocab_files import save_tokenizer
from cs336_basics.training.config import TrainConfig


@dataclass
class PreparedData:
    """A tokenizer and the token files it made."""

    tokenizer: Tokenizer
    train_tokens: npt.NDArray[np.integer[Any]]
    valid_tokens: npt.NDArray[np.integer[Any]]


def prepare_data(
    config: TrainConfig,
    run: RunDirectory,
    *,
    progress: bool = False,
    report: Callable[[str], None] = print,
) -> PreparedData:
    """Make or reuse the corpus, the tokenizer and the token files of a run.

    Raises:
        FileNotFoundError: a text is missing; for a downloadable corpus, with the command for it.
        ValueError: text, tokenizer, token files and configuration do not fit together.
    """
    check_sources(config)
    stages = Stages(run.data / "stages.json", report)
    train, valid = _find_texts(config, run, stages)
    tokenizer = _find_tokenizer(config, run, stages, train, progress)
    files = [
        _encode(name, text, tokenizer, config, run, stages, progress)
        for name, text in (("train", train), ("valid", valid))
    ]
    # Both are checked against the tokenizer, also where an earlier session made them.
    tokens = [
        load_token_file(file, vocab_size=tokenizer.vocab_size, tokenizer_hash=tokenizer.hash())
        for file in files
    ]
    metadata = json.loads(files[1].with_suffix(".json").read_text(encoding="utf-8"))
    report(
        f"{tokenizer.vocab_size:,} tokens in the vocabulary, {len(tokens[0]):,} to train on, "
        f"{len(tokens[1]):,} to validate on, {metadata['bytes_per_token']:.2f} bytes each"
    )
    return PreparedData(tokenizer, tokens[0], tokens[1])


def check_sources(config: TrainConfig) -> None:
    """Check that what a run starts from is there, before anything is made of it.

    Raises:
        FileNotFoundError: a text is missing; for a downloadable corpus, with the command for it.
        ValueError: the tokenizer cannot be used.
    """
    data = config.data
    for key in ("train_path", "valid_path"):
        path = getattr(data, key)
        if path is None:
            continue
        if Path(path).is_dir():
            raise ValueError(f"data.{key} is {path!r}: that is a directory; name a file")
        if not Path(path).is_file():
            raise FileNotFoundError(f"data.{key} is {path!r}: there is no such file")
        if Path(path).stat().st_size == 0:
            raise ValueError(f"data.{key} is {path!r}: the file is empty")
        if Path(path).suffix != ".npy" and not is_plain_text(path):
            raise ValueError(
                f"data.{key} is {path!r}: training reads plain text and .npy token files; "
                "unpack it first"
            )
        if Path(path).suffix == ".npy" and data.tokenizer is None:
            raise ValueError(
                f"data.{key} is the token file {path}: name its tokenizer with data.tokenizer"
            )
    if data.train_path is not None and Path(data.train_path).suffix == ".npy":
        _require_valid_path(config)
    smallest = NUM_BYTES + 1
    if data.tokenizer is None and config.model.vocab_size < smallest:
        raise ValueError(
            f"model.vocab_size is {config.model.vocab_size}: it must be at least {smallest}, for "
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


def _require_valid_path(config: TrainConfig) -> None:
    if config.data.valid_path is None:
        raise ValueError(
            f"data.train_path is the token file {config.data.train_path}: give data.valid_path too"
        )


class Stages:
    """Remembers, in a JSON file, what each stage was made from and what it made.

    Args:
        path: the JSON file.
        report: is given a line per stage.

    Raises:
        ValueError: the file is damaged.
    """

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self._path = path
        self._report = report
        self._records: dict[str, Any] = {}
        if path.exists():
            try:
                self._records = dict(json.loads(path.read_text(encoding="utf-8")))
            except (ValueError, TypeError):
                raise ValueError(
                    f"{path} is damaged: remove it, and what it remembers is made again"
                ) from None

    def run(
        self,
        name: str,
        inputs: dict[str, Any],
        output: Path,
        make: Callable[[], object],
        beside: Sequence[Path] = (),
    ) -> None:
        """Call `make`, which writes `output`, unless it is there with the same bytes.

        Files that `make` writes `beside` it must be there too.

        Raises:
            ValueError: it was made from something else before: a run keeps to its data.
        """
        record = self._records.get(name)
        if record is not None and record["inputs"] != inputs:
            raise ValueError(
                f"{output} was made from other data than there is now "
                f"({_difference(record['inputs'], inputs)}): start a new run"
            )
        there = output.is_file() and all(file.is_file() for file in beside)
        if record is not None and there and sha256_file(output) == record["sha256"]:
            self._report(f"{name}: as before")
            return
        start = time.perf_counter()
        make()
        seconds = time.perf_counter() - start
        self._records[name] = {"inputs": inputs, "sha256": sha256_file(output)}
        write_json(self._path, self._records)
        self._report(f"{name}: done in {seconds:.1f} s")

    def check(self, name: str, inputs: dict[str, Any]) -> None:
        """Take note of what a run was given ready-made, and refuse something else later.

        Raises:
            ValueError: it was something else before.
        """
        record = self._records.get(name)
        if record is None:
            self._records[name] = {"inputs": inputs}
            write_json(self._path, self._records)
        elif record["inputs"] != inputs:
            raise ValueError(
                f"{name}: other data than when the run began "
                f"({_difference(record['inputs'], inputs)}): start a new run"
            )


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    return ", ".join(
        f"{key}: {before.get(key)} became {now[key]}" for key in now if before.get(key) != now[key]
    )


def _find_texts(config: TrainConfig, run: RunDirectory, stages: Stages) -> tuple[Path, Path]:
    """Return the files of training and validation: texts, or token files ending in .npy."""
    data = config.data
    if data.train_path is not None:
        train = Path(data.train_path)
        if data.valid_path is not None:
            return train, Path(data.valid_path)
        return _hold_out(train, data.valid_fraction, run, stages)
    if data.dataset == "sample":
        return _make_sample(config, run, stages)
    train, valid = (
        dataset_path(data.dataset, split, data.data_dir) for split in ("train", "valid")
    )
    return train, valid


def _make_sample(config: TrainConfig, run: RunDirectory, stages: Stages) -> tuple[Path, Path]:
    """Write the sample corpus; the validation part is a tenth in size and has a seed of its own."""
    run.data.mkdir(parents=True, exist_ok=True)
    total = config.data.sample_bytes
    paths = []
    for split, size, seed in (
        ("train", total - total // 10, config.seed),
        ("valid", total // 10, config.seed + 1),
    ):
        path = run.data / f"sample_{split}.txt"
        inputs = {"num_bytes": size, "seed": seed}
        stages.run(f"{split} text", inputs, path, partial(write_sample, path, size, seed))
        paths.append(path)
    return paths[0], paths[1]


def _hold_out(text: Path, fraction: float, run: RunDirectory, stages: Stages) -> tuple[Path, Path]:
    """Copy a text in two parts: the last documents, about `fraction` of its bytes, validate.

    The cut is at the end of an end-of-text token, if there is one near; else, as in a text that is
    one long document, between two words.

    Raises:
        ValueError: there is no place to cut.
    """
    size = text.stat().st_size
    target = max(1, round(size * (1 - fraction)))
    cut = _cut_near(text, target, size, fraction)
    if cut is None:
        raise ValueError(
            f"{text} ({size:,} bytes) has no place to cut off its last {fraction:.0%} for "
            "validation: give data.valid_path"
        )
    run.data.mkdir(parents=True, exist_ok=True)
    inputs = {"source": sha256_file(text), "cut": cut}
    parts = []
    for split, start, end in (("train", 0, cut), ("valid", cut, size)):
        part = run.data / f"{split}.txt"
        copy = partial(_copy_range, text, start, end, part)
        stages.run(f"{split} text", inputs, part, copy)
        parts.append(part)
    return parts[0], parts[1]


def _cut_near(text: Path, target: int, size: int, fraction: float) -> int | None:
    """Return a place that leaves between half and twice of `fraction` for validation, or None."""
    earliest, latest = round(size * (1 - 2 * fraction)), round(size * (1 - fraction / 2))
    with open(text, "rb") as file:
        # The first finds ends of end-of-text tokens only, since nothing is known of its pattern;
        # the second finds places between words, which are never inside such a token.
        for cuts in (SafeCuts([END_OF_TEXT], r"[\s\S]+"), SafeCuts()):
            for start in (target, max(1, earliest)):
                cut = next_cut(file, start, cuts)
                if cut <= latest and cut < size:
                    return cut
        # What is left: a small text of few words.
        cut = next_cut(file, max(1, earliest), SafeCuts())
    return cut if cut < size else None


def _copy_range(source: Path, start: int, end: int, destination: Path) -> None:
    with open(source, "rb") as reader, atomic_writer(destination) as writer:
        reader.seek(start)
        left = end - start
        while left > 0:
            block = reader.read(min(left, 1 << 20))
            writer.write(block)
            left -= len(block)


def _find_tokenizer(
    config: TrainConfig, run: RunDirectory, stages: Stages, train: Path, progress: bool
) -> Tokenizer:
    """Return the tokenizer that the configuration names, or a new one; it lies with the run."""
    data = config.data
    metadata = run.tokenizer / "metadata.json"
    beside = [run.tokenizer / "vocab.json", run.tokenizer / "merges.txt"]
    if data.tokenizer is not None:
        tokenizer = Tokenizer.from_directory(data.tokenizer)
        inputs = {"hash": tokenizer.hash()}
        stages.run("tokenizer", inputs, metadata, lambda: tokenizer.save(run.tokenizer), beside)
        return tokenizer
    source = sha256_file(train)
    inputs = {"source": source}
    make = partial(_train, config, run, train, source, progress)
    stages.run("tokenizer", inputs, metadata, make, beside)
    return Tokenizer.from_directory(run.tokenizer)


def _check_tokenizer(tokenizer: Tokenizer, directory: str) -> None:
    if END_OF_TEXT not in tokenizer.special_tokens:
        raise ValueError(
            f"the tokenizer in {directory} lacks the special token {END_OF_TEXT}, "
            "which separates documents"
        )
    # A model may give any id below the size of its vocabulary, and each must stand for some text.
    for token_id in range(tokenizer.vocab_size):
        if token_id not in tokenizer.vocab:
            raise ValueError(f"the tokenizer in {directory} has no token with id {token_id}")


def _train(config: TrainConfig, run: RunDirectory, text: Path, sha256: str, progress: bool) -> None:
    vocab, merges = train_bpe(
        text,
        config.model.vocab_size,
        [END_OF_TEXT],
        trainer=DEFAULT_TRAINER if config.data.trainer == "auto" else config.data.trainer,
        num_workers=config.num_workers,
        pattern=config.data.pattern,
        progress=progress,
    )
    save_tokenizer(
        run.tokenizer,
        vocab,
        merges,
        [END_OF_TEXT],
        config.data.pattern,
        corpus_bytes=text.stat().st_size,
        corpus_sha256=sha256,
    )


def _encode(
    name: str,
    text: Path,
    tokenizer: Tokenizer,
    config: TrainConfig,
    run: RunDirectory,
    stages: Stages,
    progress: bool,
) -> Path:
    """Return the token file of a text, which may be one already."""
    if text.suffix == ".npy":
        stages.check(f"{name} tokens", {"file": sha256_file(text)})
        return text
    run.data.mkdir(parents=True, exist_ok=True)
    file = run.data / f"{name}.npy"
    stages.run(
        f"{name} tokens",
        {"source": sha256_file(text), "tokenizer": tokenizer.hash()},
        file,
        lambda: encode_file(
            tokenizer,
            text,
            file,
            num_workers=config.num_workers,
            progress=progress,
            overwrite=True,
        ),
        [file.with_suffix(".json")],
    )
    return file
