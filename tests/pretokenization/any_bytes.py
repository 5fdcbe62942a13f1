"""A filter for tests that read arbitrary bytes from a file of text."""

from __future__ import annotations

from cs336_basics.pretokenization.reading.encodings import check_file


def may_be_text(data: bytes) -> bool:
    """Return whether a file with these first bytes is accepted as text (see test_encodings.py)."""
    try:
        check_file(data, "any.bin")
    except ValueError:
        return False
    return True
