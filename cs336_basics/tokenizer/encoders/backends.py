"""The tokenizer's backends, and the function that chooses one."""

from __future__ import annotations

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.splitting.splitter import has_scanner
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.encoders.encoder import Encoder
from cs336_basics.tokenizer.encoders.python_encoder import PythonEncoder

BACKENDS = ("reference", "python", "native")


def make_encoder(
    definition: TokenizerDefinition, cache_size: int, backend: str | None = None
) -> Encoder:
    """Return an encoder. The backend defaults to `native` if it is available, else `python`.

    `native` requires the extensions, a token for every byte, and ids below 2^32 - 1.

    Raises:
        ValueError: If the backend is unknown or not available.
    """
    if backend not in (None, *BACKENDS):
        raise InputError(
            f"must be None or one of {', '.join(BACKENDS)}, got {short_repr(backend)}",
            argument="backend",
        )
    if backend == "reference":
        from cs336_basics.tokenizer.reference import ReferenceEncoder

        return ReferenceEncoder(definition)
    obstacle = _obstacle_to_native(definition)
    if backend == "native" and obstacle is not None:
        raise InputError(
            f"'native' is not available: {obstacle}",
            argument="backend",
            remedy="use None or 'python'",
        )
    if backend == "python" or obstacle is not None:
        return PythonEncoder(definition, cache_size)
    from cs336_basics.tokenizer.encoders.native_encoder import NativeEncoder, NativeWordEncoder

    if has_scanner(definition.pattern):
        return NativeEncoder(definition, cache_size)
    return NativeWordEncoder(definition, cache_size)


def _obstacle_to_native(definition: TokenizerDefinition) -> str | None:
    """Return the reason the compiled encoder cannot be used, or None if it can be used."""
    if definition.absent_bytes:
        absent = min(definition.absent_bytes)
        return f"it needs a token for every byte, and the vocabulary has none for {absent:#04x}"
    try:
        from cs336_basics.tokenizer.encoders.native_encoder import MAX_VOCAB_SIZE
    except ImportError as error:
        return f"the extensions are not built ({error})"
    if definition.size > MAX_VOCAB_SIZE:
        return f"ids must be at most {MAX_VOCAB_SIZE - 1}, got {definition.size - 1}"
    return None
