"""JSON Lines with prompts and answers."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from cs336_basics.text.sources.turns import Turns
from tests.errors import rejects

CUTS = Splitter().safe_cuts


def turns_in(path, **options):
    (source,) = Corpus([path], field="answer", **options).sources
    return Turns.of(source, "prompt")


def texts_of(source):
    texts = [block.text for block in source.texts(CUTS)]
    return [text.encode() if isinstance(text, str) else text for text in texts]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_each_line_is_a_turn(tmp_path, ending):
    rows = [{"prompt": "Wer?\n", "answer": "Die Katze – 猫"}, {"answer": "", "prompt": ""}]
    data = "".join(json.dumps(row) + "\n\n" for row in rows).encode()
    path = tmp_path / f"a.{ending}"
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    source = turns_in(path)
    expected = [
        "<|user|>Wer?\n<|assistant|>Die Katze – 猫".encode(),
        b"<|user|><|assistant|>",
    ]
    assert texts_of(source) == expected
    assert source.settings()["prompt_field"] == "prompt"


def test_a_copy_has_the_same_texts_even_if_they_are_not_utf8(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"prompt": "a\xff", "answer": "b"}\n{"prompt": "\\ud800", "answer": "c"}\n')
    source = turns_in(path)
    with io.BytesIO() as file:
        source.write_copy(file, CUTS)
        (tmp_path / "copy.jsonl").write_bytes(file.getvalue())
    copy = source.copy_at(str(tmp_path / "copy.jsonl"))
    expected = [list(s.texts(CUTS)) for s in (source, copy)]
    assert [block.text for block in expected[0]] == [block.text for block in expected[1]]
    assert expected[0][0].text == b"<|user|>a\xff<|assistant|>b"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"prompt": "a"}, "no field 'answer'"),
        ({"answer": "a"}, "no field 'prompt'"),
        ({"prompt": None, "answer": "a"}, "field 'prompt' must be a string, got null"),
        ({"prompt": "a", "answer": 3}, "field 'answer' must be a string, got 3"),
        ({"prompt": "a<|assistant|>b", "answer": "c"}, "'prompt' must not contain <|assistant|>"),
        ({"prompt": "a", "answer": "c<|user|>"}, "'answer' must not contain <|user|>"),
        ({"prompt": "a", "answer": "<|endoftext|>"}, "must not contain <|endoftext|>"),
    ],
)
def test_a_row_that_is_not_a_turn_is_rejected_with_its_line(tmp_path, row, problem):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"prompt": "x", "answer": "y"}) + "\n" + json.dumps(row) + "\n")
    with rejects(None, problem, place=f"{path}, line 2"):
        texts_of(turns_in(path))
