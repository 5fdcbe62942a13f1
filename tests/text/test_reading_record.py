"""Each backend reports exactly once how much of the text was changed."""

import gzip
import json
import warnings
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics import TRAINERS
from cs336_basics._support.errors import InputError
from cs336_basics.counting import count_texts, count_words
from cs336_basics.text import Corpus
from cs336_basics.text.reading_record import ReadingRecord, Replaced
from cs336_basics.tokenizer import encode_file
from tests.errors import rejects
from tests.tokenizer.examples import byte_tokenizer


def messages_of(function, *arguments, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments, **options)
    return [str(one.message) for one in caught if "cannot be compiled or" not in str(one.message)]


@given(st.lists(st.sampled_from([b"a", b"\xff", b"\xe2\x82", "é\ufffd好".encode(), b"\xf0\x9f"])))
def test_replaced_sequences_are_those_of_decode(parts):
    data = b"".join(parts)
    reading = ReadingRecord()
    assert reading.utf8_of(data, "replace", start=7) == data.decode("utf-8", "replace").encode()
    # Python's decoder raises one error for each sequence that it would replace.
    calls = []
    rest, offset = data, 0
    while True:
        try:
            rest.decode()
            break
        except UnicodeDecodeError as error:
            calls.append((offset + error.start, error.end - error.start))
            rest, offset = rest[error.end :], offset + error.end
    if not calls:
        assert not reading.replaced
        return
    num_bytes = sum(length for _, length in calls)
    assert reading.replaced == {"": Replaced(len(calls), num_bytes, 7 + calls[0][0])}


def test_lone_surrogates_are_counted_without_replacement_characters_of_the_text():
    reading = ReadingRecord()
    reading.utf8_of("\ud800 \ufffd \udfff", "replace", row="row 1")
    (found,) = reading.replaced.values()
    assert (found.sequences, found.num_bytes) == (2, 6)


def ways_to_read(path, out, field=None):
    corpus = Corpus(path, field=field)
    for execution in ("serial", "processes", "threads"):
        yield partial(count_words, corpus, execution=execution, num_workers=2, chunk_size=700)
    for backend in ("python", "native"):
        tokenizer = byte_tokenizer(backend=backend)
        yield partial(
            encode_file, tokenizer, corpus, out, overwrite=True, chunk_size=700, num_workers=1
        )


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_replaced_bytes_of_a_file_are_reported_with_share_and_first_offset(tmp_path, ending):
    good = ("plain words \ufffd é " * 100).encode()
    data = good + b"\xff \xe2\x82 " + good + b"\xc3"
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(gzip.compress(data) if ending else data)
    for read in ways_to_read(path, tmp_path / "a.npy"):
        (message,) = messages_of(read)
        assert message.startswith(
            f"the text is not all UTF-8: 3 invalid sequences ({400 / len(data):.2f}% of the "
            f"text) were read as U+FFFD; the first in {path} is at offset {len(good):,}; "
        )


def test_replaced_bytes_of_rows_are_reported_with_the_row(tmp_path):
    path = tmp_path / "a.jsonl"
    first = json.dumps({"text": "fine \ufffd"}, ensure_ascii=False).encode() + b"\n"
    path.write_bytes(first + b'{"text": "caf\xe9", "other": "\xff"}\n{"text": "a\\ud800"}\n')
    for read in ways_to_read(path, tmp_path / "a.npy", "text"):
        (message,) = messages_of(read)
        assert message.startswith("the text is not all UTF-8: 2 invalid sequences ")
        assert f"the first in {path} is at byte 3 of the line at byte {len(first)}" in message


@pytest.mark.parametrize("text", [b"", "é\ufffd\0  好".encode() * 300, b"\xef\xbb\xbfa b"])
def test_valid_text_is_read_without_a_warning(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_bytes(text + b" end")
    for read in ways_to_read(path, tmp_path / "a.npy"):
        assert messages_of(read) == []
    assert messages_of(count_texts, [text, text.decode()]) == []


def test_several_damaged_files_give_one_warning(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_bytes(b"word \xff " * (3 if name == "b" else 1))
    (message,) = messages_of(count_words, str(tmp_path / "*.txt"))
    assert "5 invalid sequences" in message
    assert f"the first in {tmp_path / 'b.txt'} is at offset 5" in message
    assert "2 other files are affected" in message


def test_changes_are_added_up_in_any_order():
    one, two = ReadingRecord(10), ReadingRecord(20)
    one.add_replaced("a", Replaced(1, 2, 50))
    two.add_replaced("a", Replaced(2, 2, 7))
    two.add_replaced("b", Replaced(1, 1, 0))
    for first, second in ((one, two), (two, one)):
        total = ReadingRecord()
        total.add(first)
        total.add(second)
        assert total.num_bytes == 30
        assert total.replaced == {"a": Replaced(3, 4, 7), "b": Replaced(1, 1, 0)}


def test_warnings_for_texts_in_memory_include_the_index():
    texts = ["fine", b"caf\xe9", "a\ud800"]
    (message,) = messages_of(count_texts, texts)
    assert "2 invalid sequences" in message
    assert "the first is at byte 3 of text 1" in message
    train = TRAINERS["heap"]().train_from_iterator
    assert messages_of(train, texts, 256, []) == [message]
    (message,) = messages_of(byte_tokenizer().encode_array, b"caf\xe9")
    assert "1 invalid sequence (25.00% of the text)" in message


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_utf_16_is_rejected_before_reading(tmp_path, suffix):
    (tmp_path / "good.txt").write_text("good")
    for name, text in (("a.txt", "hello"), ("a.jsonl", '{"text": "hello"}\n')):
        data = text.encode("utf-16")
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(gzip.compress(data) if suffix else data)
        field = "text" if "json" in name else None
        with rejects(None, f"{name}{suffix}", "UTF-16"):
            Corpus([tmp_path / "good.txt", path], field=field)
    data = "hello".encode("utf-16")
    with rejects(None, "UTF-16"):
        byte_tokenizer().encode_array(data)
    with rejects(None, "text 1", "UTF-16"):
        count_texts(["a", data])


def test_utf_16_without_a_byte_order_mark_is_rejected_unless_the_format_is_given(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(("plain English " * 10).encode("utf-16-le"))
    with rejects(None, "UTF-16LE", "iconv"):
        Corpus(path)
    (message,) = messages_of(lambda: Corpus(path, format="text"))
    assert "looks like UTF-16LE but is read as UTF-8" in message


def test_changes_survive_json_and_other_json_is_rejected():
    reading = ReadingRecord(100)
    reading.utf8_of(b"ab\xff\xfe", "replace", file="a.txt", start=5)
    reading.utf8_of(b"\xe2\x82", "replace", file="b.jsonl", row="row 3")
    content = json.loads(json.dumps(reading.as_json()))
    assert ReadingRecord.from_json(content) == reading
    for other in (None, [], {}, {**content, "num_bytes": "1"}, {**content, "num_bytes": -1}):
        with pytest.raises(InputError):
            ReadingRecord.from_json(other)
    for change in ({"sequences": 1.5}, {"num_bytes": None}, {"first": []}, {"x": 1}):
        found = {"a": {"sequences": 1, "num_bytes": 1, "first": 0, **change}}
        with pytest.raises(InputError):
            ReadingRecord.from_json({**content, "replaced": found})
