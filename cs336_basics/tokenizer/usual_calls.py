"""The names of `_usual_calls.pyx`, or decorators that change nothing if it is not compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["CheckedCalls", "decode", "decode_bytes", "encode", "encode_array", "stream_push"]

if TYPE_CHECKING:
    from cs336_basics.tokenizer._usual_calls import (
        CheckedCalls,
        decode,
        decode_bytes,
        encode,
        encode_array,
        stream_push,
    )
else:
    try:
        from cs336_basics.tokenizer._usual_calls import (
            CheckedCalls,
            decode,
            decode_bytes,
            encode,
            encode_array,
            stream_push,
        )
    except ImportError:
        CheckedCalls = None

        def _unchanged(method: Any) -> Any:
            return method

        decode = decode_bytes = encode = encode_array = stream_push = _unchanged
