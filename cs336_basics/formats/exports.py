"""The formats that tokenizers and models can be exported to, by name.

A format of tokenizers is a module with two functions,

    contents(parts, **options)              name -> content of each file
    runtime(directory, special_tokens)      the runtime's name, and its function text -> ids

and one of models, with keyword arguments that only this format has, a module with

    write(model, tokenizer, output, card, **options)
    check(model, tokenizer, output, **options) -> Agreement
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics.formats.model_card import ModelCard
from cs336_basics.formats.outputs import check_is_free, write_directory

if TYPE_CHECKING:  # the table of formats needs neither
    from cs336_basics.formats.agreement import Agreement
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer

WEIGHT_TYPES = ("f32", "f16", "q8_0")
"""Types of the matrices in GGUF: float32, float16, and int8 with a float16 scale for every 32
numbers. The gains of the norms are float32 in all of them."""

ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")
"""What special tokens can be for in Hugging Face's files: options that take one each."""


@dataclass(frozen=True)
class Format:
    """A format that an export can have."""

    module: str
    """The module below this package, which is imported when it is used: some need torch."""
    options: tuple[str, ...] = ()
    """Keyword arguments that it has besides the common ones."""
    merges_only: bool = False
    """Its readers make no token that the merges do not make."""

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
    "gguf": Format("gguf.gguf_models", ("type",)),
}


def export_tokenizer(
    tokenizer: Tokenizer, to: str, output: str | os.PathLike[str], **options: Any
) -> None:
    """Write a tokenizer in another library's format.

    Args:
        tokenizer: the tokenizer; it is not changed.
        to: a key of TOKENIZER_FORMATS.
        output: the directory to write, which must be new or empty.
        options: those of the format, see TOKENIZER_FORMATS: `pad_token="<pad>"` and so on.

    Raises:
        TypeError: `tokenizer` is not a Tokenizer; an option that the format does not have.
        ValueError: no such format, or one that cannot represent the tokenizer; says why. Nothing
            is written then.
        FileExistsError: the output exists.
    """
    from cs336_basics.tokenizer.unmerged_tokens import check_merges_suffice

    found = _tokenizer_format(tokenizer, to)
    _check_options(to, found, options)
    if found.merges_only:
        check_merges_suffice(tokenizer, f"a program that reads {to}")
    write_directory(output, found.load().contents(tokenizer.parts(), **options))


def check_tokenizer(tokenizer: Tokenizer, to: str, output: str | os.PathLike[str]) -> Agreement:
    """Load an exported tokenizer in the runtime that it is for, and compare it.

    Raises:
        ImportError: the runtime is not installed.
        OSError: the output cannot be read.
        RuntimeError: the two differ, or the output is damaged.
        TypeError: `tokenizer` is not a Tokenizer.
    """
    from cs336_basics.formats.agreement import Agreement, compare_ids

    found = _tokenizer_format(tokenizer, to)
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
        model: the model; it is not changed.
        tokenizer: its tokenizer.
        to: a key of MODEL_FORMATS.
        output: the file or directory to write.
        card: what is known of the training, for formats with a model card.
        overwrite: replace a file; a directory must be new or empty.
        options: those of the format, see MODEL_FORMATS.

    Raises:
        ValueError: no such format; one that cannot represent the model or the tokenizer, with the
            reason; or a tokenizer with more ids than the model. Nothing is written then.
        TypeError: `model` is not a TransformerLM, or `tokenizer` not a Tokenizer; an option that
            the format does not have.
        FileExistsError: the output exists, and may not be replaced.
        ImportError: a library that writes the format is not installed.
    """
    found = _model_format(model, tokenizer, to, options)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ValueError(
            f"the tokenizer has {tokenizer.vocab_size:,} ids, and the model's vocab_size is "
            f"{model.config.vocab_size:,}: export a model with its own tokenizer"
        )
    check_is_free(output, overwrite and not os.path.isdir(output))
    found.load().write(model, tokenizer, Path(output), card or ModelCard(), **options)


def check_model(
    model: TransformerLM,
    tokenizer: Tokenizer,
    to: str,
    output: str | os.PathLike[str],
    **options: Any,
) -> Agreement:
    """Load an exported model in the runtime that it is for, and compare ids, logits and text.

    Raises:
        ImportError: the runtime is not installed.
        OSError: the output cannot be read.
        RuntimeError: something differs, or the output is damaged.
        TypeError: `model` is not a TransformerLM, or `tokenizer` not a Tokenizer; an option that
            the format does not have.
    """
    found = _model_format(model, tokenizer, to, options)
    with _damage_named(output):
        agreement: Agreement = found.load().check(model, tokenizer, Path(output), **options)
    return agreement


@contextlib.contextmanager
def _damage_named(output: str | os.PathLike[str]) -> Iterator[None]:
    """Raise RuntimeError for what other libraries raise when they read a damaged file: anything."""
    try:
        yield
    except (ImportError, OSError, MemoryError, RuntimeError):
        raise
    except Exception as error:
        raise RuntimeError(f"{output} cannot be read: {short_reason(error)}") from error


def _tokenizer_format(
    tokenizer: object, to: str, formats: Mapping[str, Format] = TOKENIZER_FORMATS
) -> Format:
    """Return the format of that name, after checking the arguments that come with it."""
    from cs336_basics.tokenizer.tokenizer import check_is_tokenizer

    check_is_tokenizer(tokenizer)
    if to not in formats:
        raise ValueError(f"to is {short_repr(to)}: it must be one of {', '.join(formats)}")
    return formats[to]


def _model_format(model: object, tokenizer: object, to: str, options: Mapping[str, Any]) -> Format:
    from cs336_basics.model import TransformerLM

    found = _tokenizer_format(tokenizer, to, MODEL_FORMATS)
    if not isinstance(model, TransformerLM):
        raise TypeError(f"model is {short_repr(model)}: pass a TransformerLM")
    _check_options(to, found, options)
    return found


def _check_options(to: str, found: Format, options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in found.options:
            raise TypeError(f"{name} is not an option of the format {to}: omit it")
