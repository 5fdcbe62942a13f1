"""Export tokenizers, models and token files to other formats, and check the exports.

The module for a tokenizer format has two functions:

    contents(parts, **options)              return a mapping of file name -> content
    runtime(directory, special_tokens)      return the runtime's name and encode function

The module for a model format has two functions, whose options depend on the format:

    write(model, tokenizer, output, card, **options)
    check(model, tokenizer, output, **options) -> Agreement

The module for a format of token files has one function:

    write(paths, output)
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cs336_basics._support.arguments import checked_bool
from cs336_basics._support.errors import InputError, InputTypeError, RunError
from cs336_basics._support.files import (
    check_is_free,
    new_directory_name,
    replaced_file,
    write_directory,
)
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics.formats.model_card import ModelCard

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Agreement
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.tokenizer.files.joined_tokens import TokenPaths

WEIGHT_TYPES = ("f32", "f16", "q8_0")
"""Types of matrices in GGUF: float32, float16, and int8 with one float16 scale per 32 numbers. Norm
gains are always float32."""

ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")
"""Roles of special tokens in `tokenizer_config.json`. Each is an option that takes a token."""


@dataclass(frozen=True)
class Format:
    """An export format."""

    module: str
    """Name of the format's module. It is imported on use, because some modules need torch."""
    options: tuple[str, ...] = ()
    """Keyword arguments that this format accepts."""
    merges_only: bool = False
    """Whether programs that read this format can produce tokens only by merging."""
    is_file: bool = False
    """Whether the output is a file. Otherwise, it is a directory."""

    def load(self) -> Any:
        """Import the module."""
        return importlib.import_module(f"cs336_basics.formats.{self.module}")


TOKENIZER_FORMATS: dict[str, Format] = {
    "huggingface": Format("huggingface.tokenizer_json", ROLES),
    "tiktoken": Format("tiktoken.ranks"),
    "gpt2": Format("gpt2.pair", merges_only=True),
}

MODEL_FORMATS: dict[str, Format] = {
    "huggingface": Format("huggingface.huggingface_models", ROLES),
    "onnx": Format("onnx.onnx_models", ("without_cache", *ROLES)),
    "gguf": Format("gguf.gguf_models", ("type",), is_file=True),
}

TOKEN_FORMATS: dict[str, Format] = {"megatron": Format("megatron.indexed_dataset")}


def export_tokenizer(
    tokenizer: Tokenizer, to: str, output: str | os.PathLike[str], **options: Any
) -> None:
    """Write a tokenizer in another library's format.

    Args:
        tokenizer: Tokenizer to export.
        to: A key of TOKENIZER_FORMATS.
        output: Directory to write. It must be new or empty.
        options: Options of the format, such as `pad_token="<pad>"`. See TOKENIZER_FORMATS.

    Raises:
        TypeError: If `tokenizer` is not a Tokenizer, or an option does not belong to the format.
        ValueError: If the format is unknown or cannot represent the tokenizer. Nothing is written.
        FileExistsError: If the output exists and is not empty.
    """
    from cs336_basics.tokenizer.tokenizer import check_is_tokenizer
    from cs336_basics.tokenizer.unmerged_tokens import check_merges_suffice

    check_is_tokenizer(tokenizer)
    found = _format_named(to, TOKENIZER_FORMATS, options)
    if found.merges_only:
        check_merges_suffice(tokenizer.definition, f"readers of {to} files")
    write_directory(output, found.load().contents(tokenizer.definition, **options))


def check_tokenizer(tokenizer: Tokenizer, to: str, output: str | os.PathLike[str]) -> Agreement:
    """Load an exported tokenizer in the other library, and compare ids.

    Raises:
        ImportError: If the other library is not installed.
        OSError: If the output cannot be read.
        RunError: If ids differ, or the output is damaged.
        TypeError: If `tokenizer` is not a Tokenizer.
    """
    from cs336_basics.formats.agreement import Agreement, compare_ids
    from cs336_basics.tokenizer.tokenizer import check_is_tokenizer

    check_is_tokenizer(tokenizer)
    found = _format_named(to, TOKENIZER_FORMATS)
    with _damage_named(output):
        name, encode = found.load().runtime(Path(output), tokenizer.special_tokens)
        return Agreement(name, (compare_ids(tokenizer, encode),))


def export_model(
    model: TransformerLM,
    tokenizer: Tokenizer,
    to: str,
    output: str | os.PathLike[str],
    *,
    card: ModelCard | None = None,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """Write a model and its tokenizer in another library's format.

    Args:
        model: Model to export.
        tokenizer: The model's tokenizer.
        to: A key of MODEL_FORMATS.
        output: File or directory to write. A directory must be new or empty.
        card: Facts about the training, for the model card or the file's metadata.
        overwrite: Whether to replace an existing file.
        options: Options of the format. See MODEL_FORMATS.

    Raises:
        ValueError: If the format is unknown or cannot represent the model or the tokenizer, or the
            tokenizer has more ids than the model. Nothing is written.
        TypeError: If `model` is not a TransformerLM, `tokenizer` is not a Tokenizer, or an option
            does not belong to the format.
        FileExistsError: If the output exists and may not be replaced.
        IsADirectoryError: If the output must be a file and is a directory.
        ImportError: If a library that writes the format is not installed.
    """
    found = _model_format(model, tokenizer, to, options)
    checked_bool("overwrite", overwrite)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise InputError(
            f"the tokenizer has {tokenizer.vocab_size:,} ids, but the model's vocab_size is "
            f"{model.config.vocab_size:,}; export the model with its own tokenizer"
        )
    if found.is_file:
        replaced_file(output)
        check_is_free(output, overwrite)
    else:
        new_directory_name(output)
    found.load().write(model, tokenizer, Path(output), card or ModelCard(), **options)


def check_model(
    model: TransformerLM,
    tokenizer: Tokenizer,
    to: str,
    output: str | os.PathLike[str],
    **options: Any,
) -> Agreement:
    """Load an exported model in the other library, and compare its ids, logits and greedy text.

    Raises:
        ImportError: If the other library is not installed.
        OSError: If the output cannot be read.
        RunError: If something differs, or the output is damaged.
        TypeError: If `model` is not a TransformerLM, `tokenizer` is not a Tokenizer, or an option
            does not belong to the format.
    """
    found = _model_format(model, tokenizer, to, options)
    with _damage_named(output):
        agreement: Agreement = found.load().check(model, tokenizer, Path(output), **options)
    return agreement


def export_tokens(paths: TokenPaths, to: str, output: str | os.PathLike[str]) -> None:
    """Write token files in another library's format.

    Args:
        paths: Token files with document starts: a file, a glob, or a list of files and globs.
        to: A key of TOKEN_FORMATS.
        output: Directory to write. It must be new or empty.

    Raises:
        TypeError: If an item of `paths` is neither a str nor path-like.
        ValueError: If the format is unknown, a file is damaged or has no document starts, or the
            files have different tokenizers. Nothing is written.
        FileNotFoundError: If a file does not exist.
        FileExistsError: If the output exists and is not empty.
    """
    _format_named(to, TOKEN_FORMATS).load().write(paths, output)


@contextlib.contextmanager
def _damage_named(output: str | os.PathLike[str]) -> Iterator[None]:
    """Convert the various errors that other libraries raise for damaged files to RunError."""
    try:
        yield
    except (ImportError, OSError, MemoryError, RuntimeError):
        raise
    except Exception as error:
        raise RunError(f"{output} cannot be read: {short_reason(error)}") from error


def _format_named(to: str, formats: Mapping[str, Format], options: Iterable[str] = ()) -> Format:
    """Return a format, after checking that it accepts the options."""
    if to not in formats:
        raise InputError(f"to must be one of {', '.join(formats)}, got {short_repr(to)}")
    for name in options:
        if name not in formats[to].options:
            raise InputTypeError(f"{name} is not an option of format {to}; omit it")
    return formats[to]


def _model_format(model: object, tokenizer: object, to: str, options: Iterable[str]) -> Format:
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer.tokenizer import check_is_tokenizer

    check_is_tokenizer(tokenizer)
    if not isinstance(model, TransformerLM):
        raise InputTypeError(f"model must be a TransformerLM, got {short_repr(model)}")
    return _format_named(to, MODEL_FORMATS, options)
