"""JSON files with an unpaired surrogate are rejected."""

from __future__ import annotations

import pytest

from cs336_basics._support.reading import parse_json


@pytest.mark.parametrize(
    "content", [b'{"a": "\\ud800"}', b'["\\uDC00x"]', b'{"\\ude00\\ud83d": 1}']
)
def test_an_unpaired_surrogate_is_rejected(content):
    with pytest.raises(ValueError, match=r"f\.json: .*unpaired surrogate '\\u[0-9a-f]{4}'"):
        parse_json(content, "f.json")
