"""The data section of a training configuration, used by `prepare.py`."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.text import ASSISTANT, END_OF_TEXT, USER
from cs336_basics._support.validation import Checked, Paths, option

if TYPE_CHECKING:
    from cs336_basics.data.mixture import Portion


@dataclass(frozen=True)
class DataConfig(Checked):
    """A run's text, and how to turn it into tokens.

    Data files may have moved, so a resumed run may change their paths. The hashes recorded in the
    run detect files with different content.

    Raises:
        ValueError: If a value has the wrong type or is out of range.
    """

    dataset: Literal["sample", "tinystories", "owt"] = option(
        "corpus to train on, unless train_path is set", "sample"
    )
    data_dir: str | None = option(
        "directory of the downloaded corpora (default: $CS336_DATA, or data)", None, resumable=True
    )
    sample_bytes: int = option("size of the generated sample corpus in bytes", 10_000_000, ge=1_000)
    train_path: Paths | None = option(
        "files or globs: your text (documents separated by <|endoftext|>), JSON Lines or CSV, "
        "optionally .gz or .zst, Parquet, Arrow, or .npy or .bin token files",
        None,
        common=True,
        resumable=True,
    )
    mix: tuple[str, ...] | None = option(
        "instead of train_path, corpora and their shares of the training windows, such as "
        "reviews.jsonl:0.6 code/:0.3 ko.txt:0.1",
        None,
        metavar="PATH:WEIGHT",
        resumable=True,
    )
    valid_path: Paths | None = option(
        "validation files (default: the end of each path of train_path or mix)",
        None,
        resumable=True,
    )
    valid_fraction: float = option(
        "fraction of the text to hold out, as whole documents at its end, if valid_path is unset",
        0.05,
        gt=0,
        lt=1,
    )
    allow_overlap: bool = option(
        "allow validation files that are also training files, which makes the validation loss too "
        "low",
        False,
        resumable=True,
    )
    field: str | None = option("JSON Lines field that contains the text", None)
    prompt_field: str | None = option(
        "JSON Lines field that contains a prompt, for instruction data; requires answer_field", None
    )
    answer_field: str | None = option(
        "JSON Lines field that contains the answer to the prompt; the loss counts only answers",
        None,
    )
    pack: Literal["joined", "documents"] = option(
        "what a token attends to: all earlier tokens of its window (joined), or only the ones "
        "in its own document (documents)",
        "joined",
    )
    column: str | None = option("CSV, Parquet or Arrow column that contains the text", None)
    format: Literal["text", "jsonl", "csv", "parquet", "arrow"] | None = option(
        "format of train_path and valid_path (default: detected from name and content)", None
    )
    max_piece_bytes: int = option(
        "maximum size in bytes of a row, or of text without a split point", 64 << 20, ge=1
    )
    errors: Literal["replace", "strict"] = option(
        "how to handle invalid UTF-8: replace (with U+FFFD) or strict (fail)", "replace"
    )
    token_dtype: Literal["uint16", "uint32"] = option(
        "type of the ids in .bin token files without llm.c's header; nanoGPT's are uint16", "uint16"
    )
    from_: Literal["files", "run"] = option(
        "files: read the text, which must not have changed if the run is resumed; run: with "
        "--resume, go on from the token files in the run directory",
        "files",
        resumable=True,
    )
    tokenizer: str | None = option(
        "tokenizer directory (default: train a tokenizer on the training text)",
        None,
        common=True,
        resumable=True,
    )
    trainer: str = option(
        "BPE trainer for a new tokenizer; auto chooses the fastest that is built", "auto"
    )
    pattern: str = option(
        "split pattern for a new tokenizer: a name such as gpt2 or cl100k, or a regex", "gpt2"
    )
    normalizer: Literal["NFC", "NFD", "NFKC", "NFKD"] | None = option(
        "Unicode normalization form of the text for a new tokenizer (default: no normalization)",
        None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("data_dir", "train_path", "mix", "valid_path", "tokenizer"):
            object.__setattr__(self, key, _with_home(getattr(self, key)))
        try:
            self.portions  # noqa: B018 -- checks the mixture
        except InputError as error:
            error.argument = "mix"
            raise
        if self.mix and self.train_path is not None:
            raise InputError(
                ("cannot be given with ", Argument("train_path")),
                argument="mix",
                remedy="give every path a weight",
            )
        for key in ("pattern", "normalizer"):
            value = getattr(self, key)
            if self.tokenizer is not None and value != getattr(DataConfig, key):
                raise InputError(
                    f"is for a new tokenizer, but this run uses an existing one, got "
                    f"{short_repr(value)}",
                    argument=key,
                    remedy="remove it",
                )
        check_turn_fields(
            self.prompt_field, self.answer_field, field=self.field, column=self.column
        )
        for key in ("valid_path", "field", "column", "prompt_field"):
            if getattr(self, key) is not None and self.train_path is None and not self.mix:
                raise InputError(
                    ("requires ", Argument("train_path"), " or ", Argument("mix")), argument=key
                )

    @property
    def text_field(self) -> str | None:
        """JSON Lines field that contains the text, or the answers of instruction data."""
        return self.answer_field or self.field

    @property
    def has_turns(self) -> bool:
        """Whether the data are prompts and answers."""
        return self.answer_field is not None

    @property
    def document_start(self) -> str | None:
        """Special token with which each document starts for attention, or None if it sees all.

        A text starts with the `<|endoftext|>` before it, from which its first token is predicted,
        and ends with the prediction of the next one. A turn starts with its `<|user|>`.
        """
        if self.pack == "joined":
            return None
        return USER if self.has_turns else END_OF_TEXT

    @property
    def special_tokens(self) -> list[str]:
        """Special tokens that the run's tokenizer must have."""
        return [END_OF_TEXT, USER, ASSISTANT] if self.has_turns else [END_OF_TEXT]

    @property
    def portions(self) -> tuple[Portion, ...]:
        """The corpora of `mix`."""
        if not self.mix:
            return ()
        # Help pages do not need the sources of text.
        from cs336_basics.data.mixture import parse_mixture

        return parse_mixture(self.mix)


def check_turn_fields(prompt: str | None, answer: str | None, **others: str | None) -> None:
    """Check the fields of prompts and answers.

    Args:
        prompt, answer: Values of `prompt_field` and `answer_field`.
        others: Values of options for other texts, by name. They contradict these two.

    Raises:
        ValueError: If only one of the two is given, both are the same, or another is given, too.
    """
    if (prompt is None) != (answer is None):
        given, other = "prompt_field", "answer_field"
        if prompt is None:
            given, other = other, given
        raise InputError(("requires ", Argument(other)), argument=given)
    if answer is None:
        return
    for name, value in others.items():
        if value is not None:
            raise InputError(("cannot be given with ", Argument("answer_field")), argument=name)
    if prompt == answer:
        raise InputError(("must not be ", Argument("prompt_field")), argument="answer_field")


def _with_home(path: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
    """Replace `~` at the start of a path, or of each of several, by the home directory."""
    if isinstance(path, tuple):
        return tuple(map(os.path.expanduser, path))
    return None if path is None else os.path.expanduser(path)


@dataclasses.dataclass(frozen=True)
class Preparation:
    """Everything that determines a run's prepared data."""

    data: DataConfig
    vocab_size: int
    """Vocabulary size of a new tokenizer."""
    seed: int = 0
    """Seed of the sample corpus."""
    num_workers: int | None = None
    """Number of processes and threads. Defaults to all cores."""
