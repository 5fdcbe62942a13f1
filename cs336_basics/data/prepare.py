"""From text to token files: what a run needs before its first step.

There are three stages: the corpus, the tokenizer, the token files. Each leaves files in the run
directory and a record of what they were made from, see `stages.py`. A resumed run repeats only the
stages whose record no longer holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS, train_bpe
from cs336_basics.bpe.reference import NUM_BYTES
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.data_config import Preparation
from cs336_basics.data.datasets import dataset_path, write_sample
from cs336_basics.data.hold_out import hold_out
from cs336_basics.data.hold_out_tokens import hold_out_tokens
from cs336_basics.data.preparation_record import Stages
from cs336_basics.data.sources import (
    Source,
    TokenFiles,
    file_hashes,
    find_sources,
    fingerprint,
    separator_of,
)
from cs336_basics.pretokenization.patterns.named_patterns import resolve_pattern
from cs336_basics.pretokenization.reading.corpus import Corpus
from cs336_basics.tokenizer.files.encode_files import encode_file
from cs336_basics.tokenizer.files.joined_tokens import JoinedTokens, load_token_files
from cs336_basics.tokenizer.files.token_files import open_token_file
from cs336_basics.tokenizer.ids import TokenArray
from cs336_basics.tokenizer.tokenizer import Tokenizer
from cs336_basics.tokenizer.vocabulary import TOKENIZER_FILE

Tokens = TokenArray | JoinedTokens


@dataclass
class PreparedData:
    """A tokenizer and the token files made with it."""

    tokenizer: Tokenizer
    train_tokens: Tokens
    valid_tokens: Tokens


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
    sources = check_sources(preparation)
    stages = Stages(run.data, report)
    sha256_of = file_hashes()
    train, valid = _find_texts(preparation, sources, run, stages, sha256_of)
    tokenizer = _find_tokenizer(preparation, run, stages, train, sha256_of, progress)
    encoding = _Encoding(preparation, run, stages, tokenizer, sha256_of, progress)
    if isinstance(train, TokenFiles) and valid is None:
        train_tokens, valid_tokens, bytes_per_token = encoding.hold_out(train)
    else:
        assert valid is not None
        train_tokens = encoding.load(encoding.files("train", train))
        valid_files = encoding.files("valid", valid)
        valid_tokens = encoding.load(valid_files)
        bytes_per_token = _bytes_per_token(valid_files)
    report(
        f"{tokenizer.vocab_size:,} tokens in the vocabulary, {len(train_tokens):,} to train on, "
        f"{len(valid_tokens):,} to validate on, {bytes_per_token} bytes each"
    )
    return PreparedData(tokenizer, train_tokens, valid_tokens)


@dataclass(frozen=True)
class _Encoding:
    """How the text of a run becomes token files."""

    preparation: Preparation
    run: RunDirectory
    stages: Stages
    tokenizer: Tokenizer
    sha256_of: Callable[[str], str]
    progress: bool

    def files(self, name: str, source: _Text | TokenFiles) -> Sequence[str]:
        """Return the token files of a source, after encoding it where it is text.

        Args:
            name: `"train"` or `"valid"`.
            source: text or token files.
        """
        if isinstance(source, TokenFiles):
            inputs = fingerprint(source, self.sha256_of)
            self.stages.check(f"{name} tokens", inputs)
            return source.files
        return [str(self._encoded(name, source))]

    def load(self, files: Sequence[str]) -> Tokens:
        """Open token files, which are checked even if an earlier session made them."""
        return load_token_files(
            files, vocab_size=self.tokenizer.vocab_size, tokenizer_hash=self.tokenizer.hash()
        )

    def hold_out(self, source: TokenFiles) -> tuple[Tokens, Tokens, str]:
        """Return the ids to train on, those to validate on, and how many bytes each has."""
        tokens = self.load(source.files)
        fraction = self.preparation.data.valid_fraction
        end_of_text = self.tokenizer.special_token_id(END_OF_TEXT)
        train, valid = hold_out_tokens(source.files, tokens, fraction, end_of_text)
        inputs = fingerprint(source, self.sha256_of)
        self.stages.check("train tokens", {**inputs, "cut": len(train)})
        return train, valid, _bytes_per_token(source.files)

    def _encoded(self, name: str, text: _Text) -> Path:
        """Encode a text in the run directory, unless that is done; return the token file."""
        self.run.data.mkdir(parents=True, exist_ok=True)
        file = self.run.data / f"{name}.npy"
        inputs = fingerprint(text.corpus, self.sha256_of)
        inputs["tokenizer"] = self.tokenizer.hash()
        if text.separator is not None:
            inputs["end_of_document"] = text.separator
        make = partial(
            encode_file,
            self.tokenizer,
            text.corpus,
            file,
            num_workers=self.preparation.num_workers,
            progress=self.progress,
            overwrite=True,
            end_of_document=text.separator,
        )
        self.stages.run(f"{name} tokens", inputs, file, make)
        return file


def _bytes_per_token(files: Sequence[str]) -> str:
    """Return how many bytes of text a token of some token files has, for the report."""
    found = [open_token_file(file) for file in files]
    num_bytes = sum(file.metadata["num_bytes"] for file in found)
    return f"{num_bytes / max(sum(len(file.tokens) for file in found), 1):.2f}"


def check_sources(preparation: Preparation) -> tuple[Source | None, Source | None]:
    """Check what a run starts from before anything is made of it.

    Returns:
        what `data.train_path` and `data.valid_path` name, None for what is not set.

    Raises:
        FileNotFoundError: a text is missing; for a downloadable corpus, with the command for it.
        ValueError: a text, the tokenizer or a value of the configuration cannot be used.
        ImportError: a library for the format of a file is missing.
    """
    data = preparation.data
    sources = find_sources(data)
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
        tokenizer = Tokenizer.from_directory(data.tokenizer)
        _check_tokenizer(tokenizer, data.tokenizer)
        for source in sources:
            if isinstance(source, TokenFiles):
                load_token_files(
                    source.files,
                    vocab_size=tokenizer.vocab_size,
                    tokenizer_hash=tokenizer.hash(),
                )
    if data.trainer not in ("auto", *TRAINERS):
        raise ValueError(
            f"data.trainer is {data.trainer!r}: it must be auto or one of {', '.join(TRAINERS)}"
        )
    resolve_pattern(data.pattern)
    return sources


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


@dataclass(frozen=True)
class _Text:
    """Text to encode."""

    corpus: Corpus
    separator: str | None
    """What ends each document, None for text that is encoded as it is."""


def _find_texts(
    preparation: Preparation,
    sources: tuple[Source | None, Source | None],
    run: RunDirectory,
    stages: Stages,
    sha256_of: Callable[[str], str],
) -> tuple[_Text | TokenFiles, _Text | TokenFiles | None]:
    """Return what is trained on and what is validated on; None: the end of the token files."""
    data = preparation.data
    train, valid = sources
    if train is not None and valid is not None:
        return _as_text(train), _as_text(valid)
    if isinstance(train, TokenFiles):
        return train, None
    if train is not None:
        parts = hold_out(train, data.valid_fraction, run.data, stages, sha256_of)
        # The parts of a single text are encoded as they are, too.
        return _Text(parts[0], separator_of(train)), _Text(parts[1], separator_of(train))
    if data.dataset == "sample":
        paths = _make_sample(data.sample_bytes, preparation.seed, run, stages)
    else:
        paths = (
            dataset_path(data.dataset, "train", data.data_dir),
            dataset_path(data.dataset, "valid", data.data_dir),
        )
    train_text, valid_text = (Corpus(path, errors=data.errors) for path in paths)
    return _Text(train_text, None), _Text(valid_text, None)


def _as_text(source: Source) -> _Text | TokenFiles:
    return source if isinstance(source, TokenFiles) else _Text(source, separator_of(source))


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
    preparation: Preparation,
    run: RunDirectory,
    stages: Stages,
    train: _Text | TokenFiles,
    sha256_of: Callable[[str], str],
    progress: bool,
) -> Tokenizer:
    """Return the tokenizer that the configuration names, or a new one; the run keeps a copy."""
    file = run.tokenizer / TOKENIZER_FILE
    if preparation.data.tokenizer is not None:
        tokenizer = Tokenizer.from_directory(preparation.data.tokenizer)
        inputs = {"hash": tokenizer.hash()}
        stages.run("tokenizer", inputs, file, lambda: tokenizer.save(run.tokenizer))
        return tokenizer
    assert isinstance(train, _Text)  # token files come with their tokenizer
    make = partial(_train, preparation, run, train.corpus, sha256_of, progress)
    inputs = fingerprint(train.corpus, sha256_of)
    stages.run("tokenizer", inputs, file, make)
    return Tokenizer.from_directory(run.tokenizer)


def _train(
    preparation: Preparation,
    run: RunDirectory,
    corpus: Corpus,
    sha256_of: Callable[[str], str],
    progress: bool,
) -> None:
    """Train a tokenizer and save it in the run directory."""
    data = preparation.data
    vocab, merges = train_bpe(
        corpus,
        preparation.vocab_size,
        [END_OF_TEXT],
        trainer=DEFAULT_TRAINER if data.trainer == "auto" else data.trainer,
        num_workers=preparation.num_workers,
        pattern=data.pattern,
        progress=progress,
    )
    hashes = [sha256_of(file) for file in corpus.files]
    training = {
        "corpus_bytes": corpus.num_bytes,
        "corpus_sha256": hashes[0] if len(hashes) == 1 else hashes,
    }
    Tokenizer(vocab, merges, [END_OF_TEXT], pattern=data.pattern).save(run.tokenizer, training)
