"""Invalid texts: invalid UTF-8, lone surrogates and arguments of the wrong type."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics._support.errors import InputTypeError
from tests.errors import rejects
from tests.processes import run_python
from tests.tokenizer.examples import END, small_tokenizer


@given(data=st.binary(max_size=40) | st.lists(st.sampled_from(
    [b"the", b" cat", b"\xff", b"\xe2\x82", b"\xf0\x9f", b"\xc3(", "猫".encode(), END.encode()]
)).map(b"".join))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_bytes_that_are_not_utf8_are_replaced(data):
    tokenizer = small_tokenizer()
    expected = tokenizer.encode(data.decode("utf-8", errors="replace"))
    assert tokenizer.encode_array(data).tolist() == expected
    try:
        data.decode()
    except UnicodeDecodeError as error:
        with rejects(None, error.start, "UTF-8"):
            tokenizer.encode_array(data, errors="strict")
    else:
        assert tokenizer.encode_array(data, errors="strict").tolist() == expected


def test_arguments_of_encode_array_are_checked():
    tokenizer = small_tokenizer()
    with rejects("text", kind=InputTypeError):
        tokenizer.encode_array(5)
    with rejects("errors", "ignore"):
        tokenizer.encode_array(b"a", errors="ignore")
    with rejects("num_workers"):
        tokenizer.encode_array("a", num_workers=0)
    with rejects(None, "U+D800", 2):
        tokenizer.encode_array("ab\ud800", errors="strict")


# ------------------------------------------------------------------ hostile texts


def test_bytes_are_rejected_with_a_hint(make_small):
    with rejects("text", kind=InputTypeError):
        make_small().encode(b"the")
    with rejects("text", kind=InputTypeError):
        list(make_small().encode_iterable([b"the"]))
    with rejects("text", kind=InputTypeError):
        make_small().encode(5)


@pytest.mark.parametrize("surrogate", [chr(0xD800), chr(0xDFFF), chr(0xDC80)])
@pytest.mark.parametrize("before", ["", "the 猫 ", "x" * 20_000])
def test_the_error_names_a_lone_surrogate_and_its_position(make_small, surrogate, before):
    text = before + surrogate + " and on"
    shown = f"U+{ord(surrogate):04X} at character {len(before):,}"
    tokenizer = make_small()
    with rejects(None, shown):
        tokenizer.encode(text)
    for chunks in ([text], [before, surrogate, " and on"]):
        with rejects(None, shown):
            list(tokenizer.encode_iterable(chunks))


ROWS = ["the cat", "", "ate " + END, "é the the cat ate"]


def test_a_row_or_a_batch_of_rows_stands_for_its_text():
    tokenizer = small_tokenizer()
    assert tokenizer({"text": ROWS, "id": [1, 2, 3, 4]}) == tokenizer(ROWS)
    assert tokenizer({"text": ROWS[0], "id": 1}) == tokenizer(ROWS[0])
    with rejects(None, "'text'", "['body']", "input_columns"):
        tokenizer({"body": ROWS})
    with rejects("text", place="text 1", kind=InputTypeError):
        tokenizer({"text": ["a", None]})


# This program prints the fingerprint of the result.
MAPPED = """
import sys
import datasets
from cs336_basics import Tokenizer

datasets.disable_progress_bars()
tokenizer = Tokenizer.from_directory(sys.argv[1])
tokenizer.encode("fill the cache")
rows = datasets.load_from_disk(sys.argv[2])
found = rows.map(tokenizer, batched=True, batch_size=2)
assert found["input_ids"] == tokenizer.encode_batch(rows["text"])
assert found["attention_mask"] == [[1] * len(ids) for ids in found["input_ids"]]
print(found._fingerprint)
"""


def test_hugging_face_datasets_are_mapped_and_cached(tmp_path):
    datasets = pytest.importorskip("datasets")
    small_tokenizer().save(tmp_path / "tokenizer")
    datasets.Dataset.from_dict({"text": ROWS * 3}).save_to_disk(str(tmp_path / "rows"))
    outputs, files = set(), []
    for seed in "012":  # changes the order of sets
        words = [tmp_path / "tokenizer", tmp_path / "rows"]
        outputs.add(run_python(MAPPED, *words, PYTHONHASHSEED=seed).stdout)
        found = {p: p.stat().st_mtime_ns for p in (tmp_path / "rows").glob("cache-*.arrow")}
        files.append(found)
    assert len(outputs) == 1
    assert len(files[0]) == 1
    assert files == [files[0]] * 3  # the second and third processes read the first one's result
