"""Reading compressed text, JSON Lines and files of several kinds."""

import functools
import gzip
import os
import signal
import subprocess
import sys
import time

import pytest

from cs336_basics.counting import count_texts, count_words
from cs336_basics.counting.count_job import CountJob
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from tests.counting.hostile import SPLITTER
from tests.errors import rejects
from tests.text.counted import (
    DOCUMENTS,
    count,
    expected,
    json_lines,
)
from tests.tokenizer.files.corpus_files import zstandard

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

zstd = zstandard()


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
    # The data has a byte order mark, CRLF and LF line endings, a blank line and no final newline.
    data = "\ufeff" + json_lines(documents).replace("\n", "\r\n", 3).replace("\n", "\n\n", 1)
    path.write_bytes(data.rstrip().encode())
    assert count([path], field="text", chunk_size=chunk_size) == expected(documents)


@pytest.mark.parametrize("data", ["\ufeff", "\ufeff\r\n", '\ufeff\n{"text": "a"}\n'])
def test_a_byte_order_mark_alone_is_a_blank_line(tmp_path, data):
    (tmp_path / "rows.jsonl").write_bytes(data.encode())
    assert count([tmp_path / "rows.jsonl"], field="text") == expected(["a"] * data.count("{"))


def test_escaped_surrogates_differ_from_invalid_bytes(tmp_path):
    path = tmp_path / "rows.jsonl"
    text = rb"\udcc3\udca9 \\udcff \ud83d\ude42 \ud800"  # escape sequences
    path.write_bytes(b'{"x": "\xff", "text": "' + text + b' \xfe"}\n')
    with pytest.warns(UserWarning, match="UTF-8"):
        found = count_words(Corpus(path, field="text"), num_workers=1)
    assert found == count_texts(["\ufffd\ufffd \\udcff \U0001f642 \ufffd \ufffd"])


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ('{"text": "a"', (None,)),
        ("[1]", (None,)),
        (
            '{"txt": "a", "id": 1}',
            (None, "'text'", "['id', 'txt']"),
        ),
        ('{"' + "x" * 5000 + '": 1}', (None, "'text'")),
        ('{"text": 5}', (None, "'text'", 5)),
        (
            '{"text": "a", "n": ' + "1" * 5000 + "}",
            (None,),
        ),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_errors_for_bad_lines_include_the_location(tmp_path, line, fields, ending):
    path = tmp_path / f"rows.{ending}"
    data = ('{"text": "ok"}\n' + line + "\n").replace('"ok"}\n', '"o"}\n').encode()
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    with rejects(*fields, place=f"{path}, line 2"):
        count([path], field="text")


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_the_number_of_a_bad_line_is_counted_from_the_start_of_the_file(tmp_path, ending):
    path = tmp_path / f"rows.{ending}"
    lines = ['{"text": "' + "a" * 700 + '"}', ""] * 2000  # longer than a block
    lines[3001] = "{"
    data = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    (source,) = Corpus(path, field="text").sources
    with rejects(None, place=f"{path}, line 3,002"):
        for piece in source.pieces(source.num_bytes // 3):
            list(piece.texts(Splitter().safe_cuts))


def test_strict_reports_the_offset_in_a_compressed_file(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"abc def\xff"))
    assert count([path])["\ufffd".encode()] == 1
    with rejects(None, "0xff", 7, place="text.txt.gz"):
        count([path], errors="strict")


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
    assert count_words(corpus, SPLITTER, execution="serial") == whole
    rows = Corpus(tmp_path / "c.jsonl", field="text")
    assert count_words(rows, SPLITTER, num_workers=num_workers) == expected(DOCUMENTS)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_ctrl_c_ends_the_worker_processes(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"Many words of a text that is read repeatedly.\n" * 20_000, 1))
    script = (
        "import sys\n"
        "from cs336_basics.counting import count_words\n"
        "if __name__ == '__main__':\n"
        "    print('started', flush=True)\n"
        "    count_words([sys.argv[1]] * 5000, num_workers=2)\n"
        "    print('ended', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # The test runner may ignore SIGINT, as a shell does for background processes.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout.readline() == "started\n"
        time.sleep(1.5)
        os.killpg(process.pid, signal.SIGINT)  # the workers receive it too, as from a terminal
        # This call returns only after the workers have ended, because they share the pipes.
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
def test_truncated_json_lines_are_rejected(tmp_path, lines_left):
    path = tmp_path / "rows.jsonl"
    line = b'{"text": "abc"}\n'
    path.write_bytes(line * 8)
    job = CountJob(Splitter(), "compiled")
    pieces = Corpus(path, field="text").pieces(48)
    path.write_bytes(line * lines_left)
    counted = 0
    for piece in pieces:
        if piece.end <= lines_left * len(line):
            counted += job.run(piece)[0][b"abc"]
            continue
        end = f"ended at byte {lines_left * len(line)}, but must have at least {piece.end} bytes"
        with rejects(None, end, place="rows.jsonl"):
            job.run(piece)
    assert counted == lines_left // 3 * 3
