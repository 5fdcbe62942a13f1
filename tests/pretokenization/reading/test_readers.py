"""Compressed text, JSON lines, Parquet and texts in memory give the counts of their documents."""

import functools
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import pytest

from cs336_basics.pretokenization import (
    Corpus,
    MissingFieldError,
    Splitter,
    count_text,
    count_texts,
    count_words,
    pretokenize,
)
from cs336_basics.pretokenization.counting.count_texts import count_chunk

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.ipc")
try:
    from compression import zstd
except ImportError:
    zstd = pytest.importorskip("backports.zstd")

EOT = "<|endoftext|>"
SPLITTER = Splitter(special_tokens=[EOT])
ROOT = Path(__file__).parents[3]
RNG = random.Random(336)
SNIPPETS = ["the cat", " sat", "\n", "  ", "\u00e9\u597d", "'s", EOT, " 12", "\r\n"]
DOCUMENTS = ["".join(RNG.choices(SNIPPETS, k=RNG.randint(0, 30))) for _ in range(200)]


def expected(documents, pattern="gpt2"):
    counts = Counter()
    for document in documents:
        for text in document.split(EOT):
            counts.update(word.encode() for word in pretokenize(text, pattern))
    return counts


def count(paths, *, pattern="gpt2", chunk_size=1 << 20, **options):
    total = Counter()
    for chunk in Corpus(paths, **options).chunks(chunk_size):
        total.update(dict(count_chunk(chunk, Splitter(pattern, [EOT]))[0]))
    return total


def json_lines(documents, **more):
    return "".join(json.dumps({"text": d, "id": i, **more}) + "\n" for i, d in enumerate(documents))


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+"])
def test_compressed_text_is_counted(tmp_path, compress, pattern):
    text = EOT.join(DOCUMENTS) * 40
    path = tmp_path / ("text.txt.gz" if compress is gzip.compress else "text.txt.zst")
    # Two members, as `cat a.gz b.gz` writes them.
    half = len(text.encode()) // 2
    path.write_bytes(compress(text.encode()[:half]) + compress(text.encode()[half:]))
    assert count([path], pattern=pattern) == expected([text], pattern)


@pytest.mark.parametrize("ending", ["jsonl", "ndjson", "jsonl.gz", "jsonl.zst"])
def test_json_lines_are_counted(tmp_path, ending):
    data = json_lines(DOCUMENTS).encode()
    compress = {"gz": gzip.compress, "zst": zstd.compress}.get(ending.split(".")[-1], bytes)
    path = tmp_path / f"rows.{ending}"
    path.write_bytes(compress(data))
    assert count([path], field="text") == expected(DOCUMENTS)


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 17, 100, 1000, 100_000])
def test_json_lines_are_divided_between_lines(tmp_path, chunk_size):
    path = tmp_path / "rows.jsonl"
    documents = DOCUMENTS[:30]
    # A blank line, CRLF, a byte order mark, and no line end at the end.
    data = "\ufeff" + json_lines(documents).replace("\n", "\r\n", 3).replace("\n", "\n\n", 1)
    path.write_bytes(data.rstrip().encode())
    assert count([path], field="text", chunk_size=chunk_size) == expected(documents)


@pytest.mark.parametrize("chunk_size", [1, 7, 64, 1000])
def test_text_is_divided_at_safe_cuts(tmp_path, chunk_size):
    path = tmp_path / "text.txt"
    text = EOT.join(DOCUMENTS[:40])
    path.write_bytes(text.encode())
    assert count([path], chunk_size=chunk_size) == expected([text])


@pytest.mark.parametrize("kind", ["string", "large_string", "binary"])
def test_parquet_is_counted(tmp_path, kind):
    rows = [d.encode() if kind == "binary" else d for d in DOCUMENTS]
    column = pyarrow.array([*rows, None], getattr(pyarrow, kind)())
    table = pyarrow.table({"id": list(range(len(rows) + 1)), "body": column})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path, row_group_size=37)
    assert len(Corpus(path, column="body").chunks()) > 4
    assert count([path], column="body") == expected(DOCUMENTS)


def test_rows_and_files_do_not_join(tmp_path):
    (tmp_path / "a.jsonl").write_text(json_lines(["ab", "cd"]))
    (tmp_path / "b.jsonl").write_text(json_lines(["ef"]))
    counts = count([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], field="text")
    assert counts == {b"ab": 1, b"cd": 1, b"ef": 1}
    assert count_texts(["ab", b"cd", "ef"]) == {b"ab": 1, b"cd": 1, b"ef": 1}


def test_texts_in_memory_are_counted():
    assert count_texts(iter(DOCUMENTS), SPLITTER) == expected(DOCUMENTS)
    assert count_texts((d.encode() for d in DOCUMENTS), SPLITTER) == expected(DOCUMENTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert count_texts(DOCUMENTS, Splitter(r"\w+", [EOT])) == expected(DOCUMENTS, r"\w+")
    assert count_texts([]) == {}
    assert count_texts(["a\ud800b", "\ud83d\ude42"]) == {
        b"a": 1, "\ufffd".encode(): 1, b"b": 1, "\U0001f642".encode(): 1
    }  # fmt: skip
    assert count_texts([b"a\xff"]) == {b"a": 1, "\ufffd".encode(): 1}
    numpy = pytest.importorskip("numpy")
    assert count_texts(numpy.array([b"abc"])) == {b"abc": 1}


def test_surrogates_of_escapes_are_told_from_bytes_that_are_not_utf8(tmp_path):
    path = tmp_path / "rows.jsonl"
    text = rb"\udcc3\udca9 \\udcff \ud83d\ude42 \ud800"  # escapes
    path.write_bytes(b'{"x": "\xff", "text": "' + text + b' \xfe"}\n')
    with pytest.warns(UserWarning, match="not all UTF-8"):
        found = count_words(Corpus(path, field="text"), num_workers=1)
    assert found == count_texts(["\ufffd\ufffd \\udcff \U0001f642 \ufffd \ufffd"])


def test_a_disk_that_fails_is_no_damage(tmp_path, monkeypatch):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"abc"))

    def fail(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(gzip.GzipFile, "read", fail)
    with pytest.raises(OSError, match="Input/output error"):
        count_words(Corpus(path), num_workers=1)


def test_bad_texts_are_named():
    with pytest.raises(TypeError, match="pass a list of texts"):
        count_texts("text")
    with pytest.raises(TypeError, match="text 1 is of type int"):
        count_texts(["a", 5])
    with pytest.raises(ValueError, match=r"text 1: the lone surrogate U\+D800 at character 2"):
        count_texts(["a", "bc\ud800"], errors="strict")
    with pytest.raises(ValueError, match=r"text 2: byte 0xff at offset 3"):
        count_texts(["a", "b", b"abc\xff"], errors="strict")
    with pytest.raises(ValueError, match=r"the lone surrogate U\+D800 at character 1"):
        count_text("a\ud800")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "the line at byte 14: not JSON"),
        ("[1]", "the line at byte 14: a JSON list, not an object"),
        (
            '{"txt": "a", "id": 1}',
            r"the line at byte 14: no field 'text'; there are \['id', 'txt'\]",
        ),
        ('{"text": 5}', "field 'text' is 5, not a string"),
        (
            '{"text": "a", "n": ' + "1" * 5000 + "}",
            r"the line at byte 14: not JSON \(Exceeds the limit",
        ),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_bad_lines_are_named(tmp_path, line, message, ending):
    path = tmp_path / f"rows.{ending}"
    data = ('{"text": "ok"}\n' + line + "\n").replace('"ok"}\n', '"o"}\n').encode()
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    with pytest.raises(ValueError, match=message) as error:
        count([path], field="text")
    assert path.name in str(error.value)


def test_strict_names_the_offset_in_a_compressed_file(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"abc def\xff"))
    assert count([path])["\ufffd".encode()] == 1
    with pytest.raises(ValueError, match=r"text\.txt\.gz: byte 0xff at offset 7 "):
        count([path], errors="strict")


@pytest.mark.parametrize("ending", ["txt.gz", "txt.zst", "jsonl.gz", "jsonl.zst"])
@pytest.mark.parametrize("damage", ["cut short", "flipped"])
def test_damaged_compressed_files_are_named(tmp_path, ending, damage):
    # Random letters, so that the compressed file is long enough to be damaged in its middle.
    documents = ["".join(RNG.choices("abcdefghijklmnop ", k=20_000)) for _ in range(20)]
    data = json_lines(documents).encode()
    packed = gzip.compress(data) if ending.endswith("gz") else zstd.compress(
        data, options={zstd.CompressionParameter.checksum_flag: 1}
    )  # fmt: skip
    half = len(packed) // 2
    packed = packed[:half] if damage == "cut short" else (
        packed[:half] + bytes([packed[half] ^ 255]) + packed[half + 1 :]
    )  # fmt: skip
    path = tmp_path / f"file.{ending}"
    path.write_bytes(packed)
    with pytest.raises(ValueError, match=rf"file\.{ending}"):
        count([path], field="text")


def test_bad_parquet_is_named(tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"text": ["a"], "n": [1]}), path)
    with pytest.raises(MissingFieldError, match=r"rows\.parquet has the columns text, n, but not"):
        Corpus(path, column="body").chunks()
    with pytest.raises(
        MissingFieldError, match=r"text, n, .* pass Corpus\(\.\.\., column='text'\)"
    ):
        Corpus(path)
    with pytest.raises(ValueError, match="the column 'n' holds int64, not strings"):
        Corpus(path, column="n").chunks()
    parquet.write_table(pyarrow.table([["a"], ["b"]], ["text", "text"]), path)
    with pytest.raises(ValueError, match=r"several columns have the name 'text'"):
        Corpus(path, column="text").chunks()
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"rows\.parquet is not a whole Parquet file"):
        Corpus(path, column="text").chunks()


def test_json_lines_need_a_field(tmp_path):
    (tmp_path / "rows.jsonl").write_text("{}\n")
    with pytest.raises(MissingFieldError, match="which field has the text: pass Corpus"):
        Corpus(tmp_path / "rows.jsonl")


@pytest.mark.parametrize("num_workers", [1, 2])
def test_files_of_every_kind_are_counted_together(tmp_path, num_workers):
    (tmp_path / "a.txt").write_text("".join(DOCUMENTS), newline="")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("".join(DOCUMENTS).encode()))
    (tmp_path / "c.jsonl").write_text(json_lines(DOCUMENTS))
    parquet.write_table(pyarrow.table({"text": DOCUMENTS}), tmp_path / "d.parquet")
    whole = expected(["".join(DOCUMENTS)] * 2 + DOCUMENTS * 2)
    corpus = Corpus(str(tmp_path / "*"), field="text", column="text")
    assert count_words(corpus, SPLITTER, num_workers=num_workers) == whole
    assert count_words(corpus, SPLITTER, num_workers=num_workers, chunk_size=300) == whole
    assert count_words(corpus, SPLITTER, backend="serial") == whole
    rows = Corpus(tmp_path / "c.jsonl", field="text")
    assert count_words(rows, SPLITTER, num_workers=num_workers) == expected(DOCUMENTS)


def test_a_file_that_vanishes_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json_lines(["a"]))
    (chunk,) = Corpus(path, field="text").chunks()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"rows\.jsonl"):
        count_chunk(chunk, Splitter())


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("ending", ["jsonl", "txt.gz"])
def test_ctrl_c_ends_the_worker_processes(tmp_path, ending):
    text = "Many words of a text that is read again and again.\n" * 20_000
    path = tmp_path / f"text.{ending}"
    path.write_bytes(
        json_lines([text]).encode() if ending == "jsonl" else gzip.compress(text.encode(), 1)
    )
    script = (
        "import sys\n"
        "from cs336_basics.pretokenization import Corpus, count_words\n"
        "if __name__ == '__main__':\n"
        "    print('begun', flush=True)\n"
        "    field = 'text' if 'json' in sys.argv[1] else None\n"
        "    corpus = Corpus([sys.argv[1]] * 5000, field=field)\n"
        "    count_words(corpus, num_workers=2)\n"
        "    print('ended', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=ROOT,
        # The test runner may ignore SIGINT, as a shell does for background processes.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(1.5)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it, too
        # (It returns when the workers have ended: they hold the same pipes.)
        output, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert output == ""


def test_a_line_longer_than_several_chunks_is_read_once(tmp_path):
    path = tmp_path / "rows.jsonl"
    documents = ["a b", "word " * 2000, "c", "d " * 3000]
    path.write_text(json_lines(documents).rstrip())
    for chunk_size in (10, 999, 4000):
        assert count([path], field="text", chunk_size=chunk_size) == expected(documents)


@pytest.mark.parametrize("lines_left", [0, 1, 5])
def test_json_lines_that_became_shorter_are_noticed(tmp_path, lines_left):
    path = tmp_path / "rows.jsonl"
    line = b'{"text": "abc"}\n'
    path.write_bytes(line * 8)
    chunks = Corpus(path, field="text").chunks(48)
    path.write_bytes(line * lines_left)
    counted = 0
    for chunk in chunks:
        if chunk.end <= lines_left * len(line):
            counted += count_chunk(chunk, Splitter())[0][b"abc"]
            continue
        message = f"rows.jsonl ended at byte {lines_left * len(line)} where bytes up to {chunk.end}"
        with pytest.raises(ValueError, match=message):
            count_chunk(chunk, Splitter())
    assert counted == lines_left // 3 * 3


def write_arrow(path, documents, make):
    table = pyarrow.table({"id": range(len(documents)), "text": documents})
    with pyarrow.OSFile(str(path), "wb") as sink, make(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


@pytest.mark.parametrize("make", [pyarrow.ipc.new_file, pyarrow.ipc.new_stream])
@pytest.mark.parametrize("name", ["a.arrow", "a.feather"])
def test_arrow_files_are_counted(tmp_path, make, name):
    write_arrow(tmp_path / name, [*DOCUMENTS, None], make)
    corpus = Corpus(tmp_path / name, column="text")
    is_file = make is pyarrow.ipc.new_file
    assert len(corpus.chunks()) == (-(-(len(DOCUMENTS) + 1) // 7) if is_file else 1)
    assert sum(chunk.num_bytes for chunk in corpus.chunks()) == corpus.num_bytes
    assert count([tmp_path / name], column="text") == expected(DOCUMENTS)
    assert count_words(corpus, SPLITTER, num_workers=2) == expected(DOCUMENTS)


def test_bad_arrow_files_are_named(tmp_path):
    path = tmp_path / "a.arrow"
    write_arrow(path, ["a", "b"], pyarrow.ipc.new_file)
    with pytest.raises(MissingFieldError, match=r"a\.arrow has the columns id, text, and nothing"):
        Corpus(path)
    with pytest.raises(MissingFieldError, match="but not 'body'"):
        Corpus(path, column="body").chunks()
    with pytest.raises(ValueError, match="the column 'id' holds int64, not strings"):
        Corpus(path, column="id").chunks()
    path.write_bytes(b"FEA1 the first version of feather")
    with pytest.raises(ValueError, match=r"a\.arrow is not a whole Arrow file"):
        Corpus(path, column="text").chunks()


@pytest.mark.parametrize("ending", ["arrow", "stream", "parquet"])
def test_damaged_tables_are_read_or_named(tmp_path, ending):
    whole = tmp_path / f"whole.{ending}"
    if ending == "parquet":
        parquet.write_table(pyarrow.table({"text": DOCUMENTS[:30]}), whole)
    else:
        make = pyarrow.ipc.new_file if ending == "arrow" else pyarrow.ipc.new_stream
        write_arrow(whole, DOCUMENTS[:30], make)
    data = whole.read_bytes()
    path = tmp_path / ("a.parquet" if ending == "parquet" else "a.arrow")
    unnamed = []
    for offset in RNG.sample(range(len(data)), 150):
        damaged = bytearray(data)
        damaged[offset] ^= RNG.choice([1, 16, 255])
        path.write_bytes(damaged[: offset + 1] if offset % 5 == 0 else damaged)
        try:
            count([path], column="text")
        except ValueError as error:
            unnamed += [error] if path.name not in str(error) else []
    assert not unnamed


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_strings_of_a_table_that_are_not_utf8_are_replaced_or_refused(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    table = pyarrow.table({"text": pyarrow.array([b"ab", b"c\xffd"]).view(pyarrow.string())})
    if ending == "parquet":
        parquet.write_table(table, path)
    else:
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(
            sink, table.schema
        ) as writer:  # fmt: skip
            writer.write_table(table)
    with pytest.warns(UserWarning, match="not all UTF-8"):
        assert count_words(Corpus(path, column="text"))[b"ab"] == 1
    with pytest.raises(ValueError, match=r"row 1 of .*0xff"):
        count_words(Corpus(path, column="text", errors="strict"))


@pytest.mark.parametrize(
    "kind", [pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), "string")]
)
def test_other_strings_of_arrow_are_counted(tmp_path, kind):
    parquet.write_table(
        pyarrow.table({"text": pyarrow.array(DOCUMENTS, kind)}), tmp_path / "a.parquet"
    )
    assert count([tmp_path / "a.parquet"], column="text") == expected(DOCUMENTS)
