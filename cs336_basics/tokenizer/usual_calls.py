"""The decorators of `_usual_calls.pyx`, or decorators that change nothing if it is not compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["decode", "decode_bytes", "encode", "encode_array"]

if TYPE_CHECKING:
    from cs336_basics.tokenizer._usual_calls import decode, decode_bytes, encode, encode_array
else:
    try:
        from cs336_basics.tokenizer._usual_calls import decode, decode_bytes, encode, encode_array
    except ImportError:

        def _unchanged(method: Any) -> Any:
            return method

        decode = decode_bytes = encode = encode_array = _unchanged
