"""Export tokenizers, models and token files to other formats, and check the exports.

Each format is a class; see `export_format.py`. To add a format, list its class here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cs336_basics._support.arguments import check_choice, checked_bool
from cs336_basics._support.errors import InputTypeError
from cs336_basics._support.files import (
    check_is_free,
    new_directory_name,
    replaced_file,
    write_directory,
)
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import fields_of
from cs336_basics.formats.export_format import (
    ExportFormat,
    ModelFormat,
    TokenFormat,
    TokenizerFormat,
)
from cs336_basics.formats.gguf.export import GgufModel
from cs336_basics.formats.gpt2.export import Gpt2Tokenizer
from cs336_basics.formats.huggingface.export import HuggingFaceModel, HuggingFaceTokenizer
from cs336_basics.formats.library_errors import library_errors
from cs336_basics.formats.llm_c.export import LlmCTokens
from cs336_basics.formats.megatron.export import MegatronTokens
from cs336_basics.formats.model_card import ModelCard
from cs336_basics.formats.nanogpt.export import NanoGptTokens
from cs336_basics.formats.onnx.export import OnnxModel
from cs336_basics.formats.tiktoken.export import TiktokenTokenizer

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Agreement
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.tokenizer.files.joined_tokens import TokenPaths

TOKENIZER_FORMATS: dict[str, type[TokenizerFormat]] = {
    kind.name: kind for kind in (HuggingFaceTokenizer, TiktokenTokenizer, Gpt2Tokenizer)
}

MODEL_FORMATS: dict[str, type[ModelFormat]] = {
    kind.name: kind for kind in (HuggingFaceModel, OnnxModel, GgufModel)
}

TOKEN_FORMATS: dict[str, type[TokenFormat]] = {
    kind.name: kind for kind in (MegatronTokens, NanoGptTokens, LlmCTokens)
}

Kind = TypeVar("Kind", bound=ExportFormat)


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

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.formats import export_tokenizer
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> export_tokenizer(tokenizer, "tiktoken", "exports/stories")
    """
    from cs336_basics.tokenizer.tokenizer import check_is_tokenizer

    check_is_tokenizer(tokenizer)
    write_directory(output, _format_named(to, TOKENIZER_FORMATS, options).contents(tokenizer))


def check_tokenizer(tokenizer: Tokenizer, to: str, output: str | os.PathLike[str]) -> Agreement:
    """Load an exported tokenizer in the other library, and compare ids and decoded text.

    Args:
        tokenizer: Tokenizer that was exported.
        to: A key of TOKENIZER_FORMATS.
        output: Directory that `export_tokenizer` has written.

    Raises:
        ImportError: If the other library is not installed.
        OSError: If the output cannot be read.
        RunError: If ids or decoded text differ, or the output is damaged.
        TypeError: If `tokenizer` is not a Tokenizer.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.formats import check_tokenizer, export_tokenizer
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> export_tokenizer(tokenizer, "tiktoken", "exports/checked")
        >>> check_tokenizer(tokenizer, "tiktoken", "exports/checked").runtime
        'tiktoken ...'
    """
    from cs336_basics.formats.agreement import Agreement, compare_decoding, compare_ids
    from cs336_basics.tokenizer.tokenizer import check_is_tokenizer

    check_is_tokenizer(tokenizer)
    found = _format_named(to, TOKENIZER_FORMATS, {})
    with library_errors(f"{output} cannot be read"):
        name, encode, decode = found.runtime(Path(output), tokenizer.special_tokens)
    return Agreement(name, (compare_ids(tokenizer, encode), compare_decoding(tokenizer, decode)))


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
        ValueError: If the format is unknown or cannot represent the model or the tokenizer, a
            weight is not finite, or the tokenizer has more ids than the model. Nothing is written.
        TypeError: If `model` is not a TransformerLM, `tokenizer` is not a Tokenizer, or an option
            does not belong to the format.
        FileExistsError: If the output exists and may not be replaced.
        IsADirectoryError: If the output must be a file and is a directory.
        ImportError: If a library that writes the format is not installed.

    Example:
        >>> from cs336_basics import load_run
        >>> from cs336_basics.formats import export_model
        >>> run = load_run("runs/stories")
        >>> export_model(run.model, run.tokenizer, "huggingface", "exports/model")
    """
    from cs336_basics.model.inspection import check_has_ids, check_is_finite

    found = _model_format(model, tokenizer, to, options)
    checked_bool("overwrite", overwrite)
    check_has_ids(
        model.config, tokenizer.vocab_size, remedy="export the model with its own tokenizer"
    )
    check_is_finite(model)
    if found.is_file:
        replaced_file(output)
        check_is_free(output, overwrite)
    else:
        new_directory_name(output)
    found.write(model, tokenizer, Path(output), card or ModelCard())


def check_model(
    model: TransformerLM,
    tokenizer: Tokenizer,
    to: str,
    output: str | os.PathLike[str],
    **options: Any,
) -> Agreement:
    """Load an exported model in the other library, and compare its ids, logits and greedy text.

    Args:
        model: Model that was exported.
        tokenizer: The model's tokenizer.
        to: A key of MODEL_FORMATS.
        output: File or directory that `export_model` has written.
        options: Options that were passed to `export_model`.

    Raises:
        ImportError: If the other library is not installed.
        OSError: If the output cannot be read.
        RunError: If something differs, or the output is damaged.
        TypeError: If `model` is not a TransformerLM, `tokenizer` is not a Tokenizer, or an option
            does not belong to the format.

    Example:
        >>> from cs336_basics import load_run
        >>> from cs336_basics.formats import check_model, export_model
        >>> run = load_run("runs/stories")
        >>> export_model(run.model, run.tokenizer, "huggingface", "exports/checked-model")
        >>> check_model(run.model, run.tokenizer, "huggingface", "exports/checked-model").runtime
        'transformers ...'
    """
    found = _model_format(model, tokenizer, to, options)
    return found.check(model, tokenizer, Path(output))


def export_tokens(
    paths: TokenPaths, to: str, output: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write token files in another library's format.

    Args:
        paths: Token files: a file, a glob, or a list of files and globs. For Megatron, they must
            have document starts.
        to: A key of TOKEN_FORMATS.
        output: File or directory to write. A directory must be new or empty.
        overwrite: Whether to replace an existing file.

    Raises:
        TypeError: If an item of `paths` is neither a str nor path-like.
        ValueError: If the format is unknown, a file is damaged or has no document starts, the files
            have different tokenizers, or the format cannot represent their ids. Nothing is written.
        FileNotFoundError: If a file does not exist.
        FileExistsError: If the output exists and may not be replaced.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.formats import export_tokens
        >>> from cs336_basics.tokenizer import encode_file
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> metadata = encode_file(tokenizer, "stories.txt", "stories.npy", overwrite=True)
        >>> export_tokens("stories.npy", "nanogpt", "stories.bin")
    """
    found = _format_named(to, TOKEN_FORMATS, {})
    checked_bool("overwrite", overwrite)
    if found.is_file:
        replaced_file(output)
        check_is_free(output, overwrite)
    found.write(paths, Path(output))


def _format_named(to: str, formats: Mapping[str, type[Kind]], options: Mapping[str, Any]) -> Kind:
    """Return a format with its options, which are checked."""
    check_choice("to", to, formats)
    known = dict(fields_of(formats[to]))
    for name in options:
        if name not in known:
            raise InputTypeError(
                f"is not an option of format {to}", argument=name, remedy="omit it"
            )
    return formats[to](**options)


def _model_format(
    model: object, tokenizer: object, to: str, options: Mapping[str, Any]
) -> ModelFormat:
    from cs336_basics.model import TransformerLM
    from cs336_basics.tokenizer.tokenizer import check_is_tokenizer

    check_is_tokenizer(tokenizer)
    if not isinstance(model, TransformerLM):
        raise InputTypeError(f"must be a TransformerLM, got {short_repr(model)}", argument="model")
    return _format_named(to, MODEL_FORMATS, options)
