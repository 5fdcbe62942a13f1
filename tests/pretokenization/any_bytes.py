"""Which bytes may be a file of text."""

from __future__ import annotations

from cs336_basics.pretokenization.reading.encodings import check_file


def may_be_text(data: bytes) -> bool:
    """Return whether a file may begin so: other formats are refused, see test_encodings.py."""
    try:
        check_file(data, "any.bin")
    except ValueError:
        return False
    return True
