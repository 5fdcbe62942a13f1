"""Prepare a run's data, from text to token files.

There are three stages: the text, the tokenizer and the token files. Each stage writes its files to
the run directory and records its inputs (`preparation_record.py`). A resumed run repeats a stage
only if its files are missing or changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cs336_basics._support.arguments import check_choice
from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import counted
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS
from cs336_basics.bpe.reference import NUM_BYTES
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.counting import WordCounts
from cs336_basics.data.checked_tokens import CheckedTokens, MixedTokens, check_ids
from cs336_basics.data.data_config import DataConfig, Preparation
from cs336_basics.data.datasets import dataset_path, write_sample
from cs336_basics.data.hold_out import IndivisibleError, hold_out, names_of
from cs336_basics.data.hold_out_tokens import hold_out_tokens
from cs336_basics.data.overlap import check_overlap, shared_documents
from cs336_basics.data.preparation_record import MIXTURE, Stages
from cs336_basics.data.sources import (
    Found,
    Text,
    TextOrTokens,
    TokenFiles,
    TrainingCorpus,
    absolute_path,
    find_sources,
)
from cs336_basics.splitting.patterns.named_patterns import resolve_pattern
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.sources import Source
from cs336_basics.tokenizer import extend
from cs336_basics.tokenizer.definition import TOKENIZER_FILE
from cs336_basics.tokenizer.files.encode_files import NoTokensError, encode_file
from cs336_basics.tokenizer.files.joined_tokens import open_token_files
from cs336_basics.tokenizer.files.token_files import TokenFile
from cs336_basics.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class PreparedData:
    """A tokenizer, and the training and validation tokens encoded with it."""

    tokenizer: Tokenizer
    train_tokens: CheckedTokens | MixedTokens
    """Mixed if `data.mix` is set."""
    valid_tokens: CheckedTokens | MixedTokens
    """Mixed if the end of each corpus of a mixture is held out."""


@dataclass(frozen=True)
class Sources:
    """The checked inputs of a run, returned by `check_sources`."""

    preparation: Preparation
    found: Found
    """The files of the configuration's paths."""
    tokenizer: Tokenizer | None
    """Tokenizer loaded from `data.tokenizer`, or None to train one."""


@dataclass(frozen=True)
class _Corpus:
    """A training corpus and its validation text."""

    given: TrainingCorpus
    train: TextOrTokens
    """The corpus without the text that is held out. Token files are complete."""
    valid: TextOrTokens | None = None
    """The text that is held out, or None for token files and with other validation text."""


def prepare_data(
    sources: Sources,
    run: RunDirectory,
    *,
    progress: bool = False,
    report: Callable[[str], None] = print,
) -> PreparedData:
    """Create or reuse a run's corpus, tokenizer and token files.

    `report` is called with a line for each stage.

    Raises:
        ValueError: If the text, the tokenizer, the token files and the configuration do not match,
            or a file has changed since the run started.
    """
    stages = Stages(run.data, report)
    data = sources.preparation.data
    if data.from_ == "run":
        return _read_from_run(data, run, stages, report)
    stages.record_files(
        {
            name: (paths, [*map(absolute_path, source.files)])
            for name, (paths, source) in sources.found.named.items()
        }
    )
    if data.mix:
        _check_mixture(data, stages)
    if sources.found.new_files:
        report(
            f"not read, because the run started without them: {names_of(sources.found.new_files)}"
        )
    preparing = _Preparing(sources, run, stages, progress)
    corpora, valid = preparing.texts()
    tokenizer = preparing.tokenizer(corpora)
    train_tokens, valid_tokens, train_files = preparing.tokens(corpora, valid, tokenizer)
    prepared = PreparedData(
        tokenizer,
        _mixed(data, train_tokens),
        valid_tokens[0] if valid is not None else _mixed(data, valid_tokens),
    )
    _report_sizes(prepared, train_files, report)
    report(f"validation: {'; '.join(preparing.held_out)}")
    if data.has_turns:
        report("losses, perplexities and bits per byte count only the answers")
    valid_texts = [corpus.valid for corpus in corpora] if valid is None else [valid]
    _report_shared_documents([corpus.train for corpus in corpora], valid_texts, report)
    return prepared


def _mixed(data: DataConfig, corpora: Sequence[CheckedTokens]) -> CheckedTokens | MixedTokens:
    """Return the tokens of all corpora of a mixture, or of the only corpus without one."""
    if not data.mix:
        return corpora[0]
    weights = tuple(portion.weight for portion in data.portions)
    return MixedTokens(tuple(_names(data)), weights, tuple(corpora))


def _report_sizes(
    prepared: PreparedData, train_files: Sequence[TokenFile], report: Callable[[str], None]
) -> None:
    ratio = ""
    if all(file.metadata for file in train_files):  # .bin files do not record the size of the text
        num_bytes = sum(file.metadata["num_bytes"] for file in train_files)
        num_tokens = sum(len(file.tokens) for file in train_files)
        ratio = f" ({num_bytes / max(num_tokens, 1):.2f} bytes/token)"
    report(
        f"vocabulary of {prepared.tokenizer.vocab_size:,} tokens; {len(prepared.train_tokens):,} "
        f"training tokens{ratio}, {len(prepared.valid_tokens):,} validation tokens"
    )


def _report_shared_documents(
    train: Sequence[TextOrTokens],
    valid: Sequence[TextOrTokens | None],
    report: Callable[[str], None],
) -> None:
    """Count the validation documents that are also training documents, if all are text."""
    texts = [source.corpus for source in (*train, *valid) if isinstance(source, Text)]
    if len(texts) < len(train) + len(valid):
        return
    train_text, valid_text = (
        Corpus.of_sources([source for corpus in some for source in corpus.sources])
        for some in (texts[: len(train)], texts[len(train) :])
    )
    shared, total = shared_documents(train_text, valid_text) or (0, 0)
    if shared:
        report(
            f"{shared:,} of {counted(total, 'validation document')} are also in the training "
            "text, so the validation loss is too low"
        )


class _Preparing:
    """The stages of a run's preparation.

    Attributes:
        held_out: The validation texts in words.
    """

    def __init__(self, given: Sources, run: RunDirectory, stages: Stages, progress: bool) -> None:
        self.given = given
        self.preparation = given.preparation
        self.run = run
        self.stages = stages
        self.progress = progress
        self.held_out: list[str] = []

    def texts(self) -> tuple[list[_Corpus], TextOrTokens | None]:
        """Return the training corpora, and the validation source that they share.

        Without validation files, each corpus has its own, or the end of its token files is to be
        held out.
        """
        train, valid = self.given.found.train, self.given.found.valid
        if not train:
            text, valid = self._dataset()
            train = (TrainingCorpus("", 1.0, (text,)),)
        if valid is not None:
            self.held_out = [names_of(valid.files)]
            return [_Corpus(corpus, corpus.whole) for corpus in train], valid
        return [self._divided(corpus) for corpus in train], None

    def _dataset(self) -> tuple[Text, Text]:
        data, directory = self.preparation.data, self.run.data
        if data.dataset == "sample":
            paths = [directory / "sample_train.txt", directory / "sample_valid.txt"]
            size, seed = data.sample_bytes, self.preparation.seed

            def write() -> None:  # a tenth for validation, from a different seed
                write_sample(paths[0], size - size // 10, seed)
                write_sample(paths[1], size // 10, seed + 1)

            self.stages.run("text", {"num_bytes": size, "seed": seed}, paths, write)
        else:
            splits = ("train", "valid")
            paths = [dataset_path(data.dataset, split, data.data_dir) for split in splits]
        train, valid = (Text(Corpus(path, errors=data.errors)) for path in paths)
        return train, valid

    def _divided(self, given: TrainingCorpus) -> _Corpus:
        """Hold out the end of each part of a corpus, if it is text."""
        whole = given.whole
        if not isinstance(whole, Text):
            return _Corpus(given, whole)
        fraction = self.preparation.data.valid_fraction
        train: list[Source] = []
        valid: list[Source] = []
        refused: InputError | None = None
        for number, sources in enumerate(given.text_sources, 1):
            part = "" if len(given.parts) == 1 else str(number)
            directory = self.run.data / given.name / part
            stage = " ".join(filter(None, (given.name, "text", part)))
            try:
                divided = hold_out(
                    Corpus.of_sources(sources), fraction, directory, self.stages, stage
                )
            except IndivisibleError as error:  # such as a single word among other texts
                train += sources
                refused = error
            else:
                train += divided.train.sources
                valid += divided.valid.sources
                self.held_out.append(divided.held_out)
        if refused is not None and not valid:
            raise refused
        # The parts of a single text are encoded without added tokens, like the whole text.
        sides = (Text(Corpus.of_sources(side), whole.end_of_document) for side in (train, valid))
        return _Corpus(given, *sides)

    def tokenizer(self, corpora: Sequence[_Corpus]) -> Tokenizer:
        """Return the configured tokenizer or a newly trained one, saved in the run directory."""
        directory = self.run.tokenizer
        outputs = [directory / TOKENIZER_FILE]
        tokenizer = self.given.tokenizer
        inputs: dict[str, Any]
        if tokenizer is not None:
            inputs = {"hash": tokenizer.hash()}
            # An export of the run may ask for the chat template of its tokenizer.
            keep = tokenizer.loaded_from is not None
            save = functools.partial(tokenizer.save, directory, keep_files=keep)
            self.stages.run("tokenizer", inputs, outputs, save)
            return tokenizer
        texts = [corpus.train for corpus in corpora if isinstance(corpus.train, Text)]
        assert len(texts) == len(corpora)  # token files come with their tokenizer
        found = [text.fingerprint(self.stages.sha256_of) for text in texts]
        weights = [corpus.given.weight for corpus in corpora]
        inputs = {"weights": weights, "corpora": found} if self.preparation.data.mix else found[0]
        self.stages.run(
            "tokenizer",
            inputs,
            outputs,
            lambda: self._train_tokenizer([text.corpus for text in texts], weights),
        )
        return Tokenizer.from_directory(directory)

    def _train_tokenizer(self, corpora: Sequence[Corpus], weights: Sequence[float]) -> None:
        data = self.preparation.data
        kind = TRAINERS[DEFAULT_TRAINER if data.trainer == "auto" else data.trainer]
        trainer = kind(
            num_workers=self.preparation.num_workers,
            pattern=data.pattern,
            normalizer=data.normalizer,
            progress=self.progress,
        )
        size = self.preparation.vocab_size
        special = data.special_tokens
        if data.mix:
            splitter = trainer.splitter(special)
            counts = [trainer.count_words(corpus, splitter) for corpus in corpora]
            mixed = WordCounts.mixed(counts, weights)
            vocab, merges = trainer.train_from_counts(mixed, size, special)
        else:
            vocab, merges = trainer.train(corpora[0], size, special)
        hashes = [self.stages.sha256_of(file) for corpus in corpora for file in corpus.files]
        training: dict[str, Any] = {
            "corpus_bytes": sum(corpus.num_bytes for corpus in corpora),
            "corpus_sha256": hashes[0] if len(hashes) == 1 else hashes,
        }
        if data.mix:
            training["weights"] = dict(zip(_names(data), weights, strict=True))
        tokenizer = Tokenizer(
            vocab, merges, special, pattern=data.pattern, normalizer=data.normalizer
        )
        tokenizer.save(self.run.tokenizer, training)

    def tokens(
        self, corpora: Sequence[_Corpus], valid: TextOrTokens | None, tokenizer: Tokenizer
    ) -> tuple[list[CheckedTokens], list[CheckedTokens], list[TokenFile]]:
        """Return the training tokens, the validation tokens, and the files of the former.

        Args:
            corpora: The training corpora.
            valid: The validation source that they share, if any.
            tokenizer: The run's tokenizer.
        """
        train_tokens, valid_tokens, train_files = [], [], []
        for corpus in corpora:
            files = self._token_files(corpus.given.name, "train", corpus.train, tokenizer)
            train = self._checked(files, tokenizer)
            if valid is None and corpus.valid is not None:
                found = self._token_files(corpus.given.name, "valid", corpus.valid, tokenizer)
                valid_tokens.append(self._checked(found, tokenizer))
            elif valid is None:
                kept, held_out = self._divided_ids(corpus.given.parts, files, tokenizer)
                valid_tokens.append(replace(train, ranges=held_out))
                train = replace(train, ranges=kept)
            train_tokens.append(train)
            train_files += files
        if valid is not None:
            valid_files = self._token_files("", "valid", valid, tokenizer)
            valid_tokens = [self._checked(valid_files, tokenizer)]
        return train_tokens, valid_tokens, train_files

    def _checked(self, files: Sequence[TokenFile], tokenizer: Tokenizer) -> CheckedTokens:
        """Return all ids of token files."""
        names = tuple(str(file.path) for file in files)
        whole = (0, sum(len(file.tokens) for file in files))
        dtype = self.preparation.data.token_dtype
        return CheckedTokens(names, (whole,), tokenizer.vocab_size, dtype)

    def _divided_ids(
        self, parts: Sequence[TextOrTokens], files: Sequence[TokenFile], tokenizer: Tokenizer
    ) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """Hold out the end of the token files of each part.

        Returns:
            The ranges of the training ids, and the ranges of the validation ids.
        """
        fraction = self.preparation.data.valid_fraction
        end_of_text = tokenizer.special_token_id(END_OF_TEXT)
        kept, held_out = [], []
        begin = first = 0
        for part in parts:
            some = files[first : first + len(part.files)]
            first += len(some)
            train, valid = hold_out_tokens(some, fraction, end_of_text)
            cut = begin + len(train)
            kept.append((begin, cut))
            begin = cut + len(valid)
            held_out.append((cut, begin))
            self.held_out.append(f"the end of {names_of(part.files)}")
        return tuple(kept), tuple(held_out)

    def _token_files(
        self, name: str, split: str, source: TextOrTokens, tokenizer: Tokenizer
    ) -> list[TokenFile]:
        """Open the token files of a corpus, encoding its text first."""
        inputs = source.fingerprint(self.stages.sha256_of)
        stage, file = _encoding(self.run, name, split)
        if isinstance(source, TokenFiles):
            files = _open(source.files, tokenizer, self.preparation.data)
            size = tokenizer.vocab_size
            self.stages.check(stage, inputs, lambda: check_ids(files, size))
            return files
        inputs["tokenizer"] = tokenizer.hash()
        if source.end_of_document is not None:
            inputs["end_of_document"] = source.end_of_document

        def encode() -> None:
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                encode_file(
                    tokenizer,
                    source.corpus,
                    file,
                    num_workers=self.preparation.num_workers,
                    progress=self.progress,
                    overwrite=True,
                    end_of_document=source.end_of_document,
                )
            except NoTokensError as error:
                raise self._without_tokens(split, source, error) from error

        self.stages.run(stage, inputs, [file], encode)
        return _open([str(file)], tokenizer, self.preparation.data)

    def _without_tokens(self, split: str, source: Text, error: NoTokensError) -> InputError:
        """Return an error for a text without tokens, with advice if it was divided."""
        given = self.given.found
        files = [file for corpus in given.train for file in corpus.whole.files]
        if given.valid is not None or not files or set(source.files) <= set(files):
            return error
        return InputError(
            f"the {split} split of the data has no tokens",
            place=files[-1],
            remedy=("set ", Argument("data.valid_path"), ", so that the data is not divided"),
        )


def _encoding(run: RunDirectory, name: str, split: str) -> tuple[str, Path]:
    """Return the name of the stage that encodes a part of a corpus, and the file it writes."""
    return f"{name} {split} tokens".lstrip(), run.data / name / f"{split}.npy"


def _open(files: Sequence[str], tokenizer: Tokenizer, data: DataConfig) -> list[TokenFile]:
    """Open token files, and check that they match the tokenizer."""
    return open_token_files(
        files,
        vocab_size=tokenizer.vocab_size,
        tokenizer_hash=tokenizer.hash(),
        dtype=data.token_dtype,
    )


def _names(data: DataConfig) -> list[str]:
    """Return the names of the corpora of the mixture, or a single empty name without one."""
    return [portion.name for portion in data.portions] or [""]


def _read_from_run(
    data: DataConfig, run: RunDirectory, stages: Stages, report: Callable[[str], None]
) -> PreparedData:
    """Return the tokenizer and the token files in the run directory, without reading the text.

    Raises:
        ValueError: If a file is missing or has changed since the run wrote it, or the run reads
            token files in other directories.
    """
    stages.check_outputs("tokenizer", [run.tokenizer / TOKENIZER_FILE])
    tokenizer = Tokenizer.from_directory(run.tokenizer)
    if data.mix:
        _check_mixture(data, stages)
    train_files: list[TokenFile] = []

    def tokens(name: str, split: str) -> CheckedTokens:
        stage, path = _encoding(run, name, split)
        stages.check_outputs(stage, [path])
        (file,) = _open([str(path)], tokenizer, data)
        if split == "train":
            train_files.append(file)
        return CheckedTokens((str(path),), ((0, len(file.tokens)),), tokenizer.vocab_size)

    train = _mixed(data, [tokens(name, "train") for name in _names(data)])
    if data.valid_path is not None:
        valid: CheckedTokens | MixedTokens = tokens("", "valid")
    else:
        valid = _mixed(data, [tokens(name, "valid") for name in _names(data)])
    prepared = PreparedData(tokenizer, train, valid)
    report(f"the text is not read; the token files are those in {run.data}")
    _report_sizes(prepared, train_files, report)
    return prepared


def _check_mixture(data: DataConfig, stages: Stages) -> None:
    """Record the names and weights of a mixture, which a resumed run must keep.

    Raises:
        ValueError: If the run started with others.
    """
    inputs = {
        "names": [portion.name for portion in data.portions],
        "weights": [portion.weight for portion in data.portions],
    }
    stages.check(
        MIXTURE,
        inputs,
        remedy=(
            "omit ",
            Argument("data.mix"),
            ", or start a new run from the weights of this one with ",
            Argument("init_from"),
        ),
    )


def check_sources(
    preparation: Preparation, prepared: Path | None = None, tokenizer: Tokenizer | None = None
) -> Sources:
    """Find and check the inputs of a run, before anything is written.

    Args:
        preparation: What determines the data.
        prepared: The data directory of a run that is resumed; see `find_sources`.
        tokenizer: Tokenizer that has already been loaded from `data.tokenizer`.

    Raises:
        FileNotFoundError: If a text is missing. For a dataset, the message includes the command
            that downloads it.
        ValueError: If a text, the tokenizer or a configuration value is invalid, or a file has
            changed since the run started.
        ImportError: If the library for a file format is not installed.
    """
    data = preparation.data
    if data.from_ == "run":
        if prepared is None:
            raise InputError(
                "must be files for a new run, got run", argument="data.from", remedy="remove it"
            )
        return Sources(preparation, Found((), None, {}), None)
    found = find_sources(data, prepared)
    if not data.allow_overlap:
        check_overlap([corpus.whole for corpus in found.train], found.valid)
    special = data.special_tokens
    smallest = NUM_BYTES + len(special)
    if data.tokenizer is None and preparation.vocab_size < smallest:
        raise InputError(
            f"must be at least {smallest} ({NUM_BYTES} bytes and {', '.join(special)}), "
            f"got {preparation.vocab_size}",
            argument="model.vocab_size",
        )
    if not found.train and data.dataset != "sample":
        for split in ("train", "valid"):
            dataset_path(data.dataset, split, data.data_dir)
    if data.tokenizer is not None:
        tokenizer = tokenizer or Tokenizer.from_directory(data.tokenizer)
        _check_tokenizer(tokenizer, data.tokenizer)
        tokenizer = with_special_tokens(tokenizer, data)
        for _, source in found.named.values():
            if isinstance(source, TokenFiles):
                _open(source.files, tokenizer, data)
    check_choice("data.trainer", data.trainer, ("auto", *TRAINERS))
    resolve_pattern(data.pattern)
    return Sources(preparation, found, tokenizer)


def with_special_tokens(tokenizer: Tokenizer, data: DataConfig) -> Tokenizer:
    """Return the tokenizer with the special tokens that the data needs, added at the end."""
    missing = [token for token in data.special_tokens if token not in tokenizer.special_tokens]
    return extend(tokenizer, special_tokens=missing) if missing else tokenizer


def _check_tokenizer(tokenizer: Tokenizer, directory: str) -> None:
    if END_OF_TEXT not in tokenizer.special_tokens:
        raise InputError(
            f"the tokenizer has no special token {END_OF_TEXT}, which separates documents",
            place=str(directory),
            remedy="train a tokenizer with this special token",
        )
    # A model can predict any id below the vocabulary size, so each id must be decodable.
    for token_id in range(tokenizer.vocab_size):
        if token_id not in tokenizer.vocab:
            raise InputError(f"the tokenizer has no token with id {token_id}", place=str(directory))
