"""JSON files with an unpaired surrogate or a repeated key are rejected."""

from __future__ import annotations

import pytest

from cs336_basics._support.reading import parse_json, read_json_object
from tests.errors import rejects


@pytest.mark.parametrize(
    "content", [b'{"a": "\\ud800"}', b'["\\uDC00x"]', b'{"\\ude00\\ud83d": 1}']
)
def test_an_unpaired_surrogate_is_rejected(content):
    with rejects(None, r"'\u", place="f.json"):
        parse_json(content, "f.json")


def test_an_object_with_a_repeated_key_is_rejected(tmp_path):
    (tmp_path / "f.json").write_text('{"a": {"b": 1, "b": 2}}')
    with rejects(None, "'b'", place="f.json"):
        read_json_object(tmp_path / "f.json", 100)
