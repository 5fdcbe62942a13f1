"""Stub of _decoder.pyx."""

from typing import Any

from typing_extensions import Buffer

class Decoder:
    def __init__(self, token_data: Buffer, token_offsets: Buffer) -> None: ...
    def decode(self, ids: Any, as_text: bool) -> Any: ...
