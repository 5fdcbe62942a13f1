"""The tokenizer's backends, and the function that chooses one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cs336_basics._support.arguments import check_choice
from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import lazy_modules
from cs336_basics.splitting.splitter import has_scanner
from cs336_basics.text.utf8 import UTF8_BYTES
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.encoders.encoder import Encoder

if TYPE_CHECKING:
    from cs336_basics.tokenizer import reference, stages
    from cs336_basics.tokenizer.encoders import python_encoder, staged_encoder
else:  # most tokenizers have the native encoder, and no stages
    reference, stages, python_encoder, staged_encoder = lazy_modules(
        "cs336_basics.tokenizer", "reference stages encoders.python_encoder encoders.staged_encoder"
    )

BACKENDS = ("reference", "python", "native")


def make_encoder(
    definition: TokenizerDefinition, cache_size: int, backend: str | None = None
) -> Encoder:
    """Return an encoder for a definition; see `_word_encoder`."""
    return _with_stages(_word_encoder(definition, cache_size, backend))


def _with_stages(encoder: Encoder) -> Encoder:
    """Return an encoder that also does what its definition says to do before splitting."""
    if not encoder.definition.has_stages:
        return encoder
    needed = stages.Stages.needed_by(encoder.definition)
    return encoder if needed is None else staged_encoder.StagedEncoder(encoder, needed)


def extended_encoder(
    encoder: Encoder, definition: TokenizerDefinition, cache_size: int, backend: str | None
) -> Encoder:
    """Return an encoder for a definition that extends an encoder's, and share what can be shared.

    Args:
        encoder: Encoder of the definition with fewer added tokens.
        definition, cache_size, backend: See `make_encoder`.
    """
    if definition.has_words_of(encoder.definition):
        shared = encoder.extended(definition)
        if shared is not None:
            is_staged = isinstance(shared, staged_encoder.StagedEncoder)
            return shared if is_staged else _with_stages(shared)
    return make_encoder(definition, cache_size, backend)


def _word_encoder(definition: TokenizerDefinition, cache_size: int, backend: str | None) -> Encoder:
    """Return an encoder that finds added tokens by a search for their contents alone.

    The backend defaults to `native` if it is available, else `python`.
    `native` requires the extensions, a token for every byte of UTF-8, and ids below 2^32 - 1.

    Raises:
        ValueError: If the backend is unknown or not available.
    """
    if backend is not None:
        check_choice("backend", backend, BACKENDS, ", or None")
    if backend == "reference":
        return reference.ReferenceEncoder(definition)
    obstacle = _obstacle_to_native(definition)
    if backend == "native" and obstacle is not None:
        raise InputError(
            f"'native' is not available: {obstacle}",
            argument="backend",
            remedy="use None or 'python'",
        )
    if backend == "python" or obstacle is not None:
        return python_encoder.PythonEncoder(definition, cache_size)
    from cs336_basics.tokenizer.encoders.native_encoder import NativeEncoder, NativeWordEncoder

    if has_scanner(definition.split_pattern):
        return NativeEncoder(definition, cache_size)
    return NativeWordEncoder(definition, cache_size)


def _obstacle_to_native(definition: TokenizerDefinition) -> str | None:
    """Return the reason the compiled encoder cannot be used, or None if it can be used."""
    if absent := definition.absent_bytes & UTF8_BYTES:
        return (
            f"it needs a token for every byte of UTF-8, and the vocabulary has none for "
            f"{min(absent):#04x}"
        )
    try:
        from cs336_basics.tokenizer.encoders.native_encoder import MAX_VOCAB_SIZE
    except ImportError as error:
        return f"the extensions are not built ({error})"
    if definition.size > MAX_VOCAB_SIZE:
        return f"ids must be at most {MAX_VOCAB_SIZE - 1}, got {definition.size - 1}"
    return None
