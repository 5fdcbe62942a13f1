"""Random texts whose characters combine with each other, for tests of normalization."""

from __future__ import annotations

import random

COMBINING = [
    *"ae1 .<>=,;\n\t", *" " * 4, "\r\n", "\0", *"éÅÅﬁ①ａ²ÅΩ",
    *"\u0301\u0327\u0308\u0338\u0323\u05b0\u094d\u093c", *"가각\u1100\u1161\u11a8",
    *"かが\u3099、\u3000", *"中文。，\uf900", "\U0001d15e", "😀", "\ufffd",
]  # fmt: skip


def combining_text(chooser: random.Random, length: int, tokens: list[str] | None = None) -> str:
    """Return `length` random characters or special tokens."""
    pool = COMBINING + (tokens or []) * 3
    return "".join(chooser.choices(pool, k=length))
