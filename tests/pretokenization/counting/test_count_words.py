"""Counting: the same counts for every number of workers and chunk size, and clear errors."""

import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from cs336_basics.pretokenization import Corpus, Splitter, count_text, count_words, pretokenize
from cs336_basics.pretokenization.counting.parallel import map_ordered

EOT = "<|endoftext|>"

SPLITTER = Splitter(special_tokens=[EOT])

ROOT = Path(__file__).parents[3]

HOSTILE = (
    "\ufeffA byte order mark, a NUL \0, and\r\nWindows\r\nline ends.\n\n\n"
    f"{EOT}{EOT}It's the dogs' bone, isn't it? 12,345.67 €  \t end {EOT}\n"
    "好的，我们走吧。　全角空格 "
    "नमस्ते दुनिया 🙂👩‍👩‍👧 e\u0301\n"
) * 30


@pytest.fixture(scope="module")
def hostile_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("counting") / "hostile.txt"
    path.write_bytes(HOSTILE.encode() + b"\xff\xe2\x80 broken \xc3" + b" tail")
    return path


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+"])
def test_text_without_special_tokens_is_counted_in_chunks_too(tmp_path, pattern):
    path = tmp_path / "text.txt"
    path.write_text(HOSTILE, encoding="utf-8", newline="")
    whole = Counter(word.encode() for word in pretokenize(HOSTILE, pattern))
    for chunk_size in (5, 500, 1 << 20):
        assert count_words(path, Splitter(pattern), num_workers=1, chunk_size=chunk_size) == whole


def test_several_special_tokens_are_cut_out():
    text = "ab<|a|>cd<|a|><|b|>ab"
    assert count_text(text, Splitter(special_tokens=["<|a|>", "<|b|>", "<|a|><|b|>"])) == {
        b"ab": 2,
        b"cd": 1,
    }
    assert count_text(text)[b"<|"] == 2


def test_strict_names_the_byte_and_its_offset(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"good " * 10 + b"\xe9t\xe9")
    assert count_words(path)["\ufffdt\ufffd".encode()] == 0  # letters and U+FFFD are split apart
    assert count_words(path)[" \ufffd".encode()] == 1
    with pytest.raises(ValueError, match=r"text\.txt: byte 0xe9 at offset 50 ") as error:
        count_words(Corpus(path, errors="strict"), chunk_size=8, num_workers=1)
    assert "replace" in str(error.value)


def test_bad_input_is_named(tmp_path):
    good = tmp_path / "good.txt"
    good.write_text("text")
    with pytest.raises(ValueError, match=r"num_workers must be at least 1.* got 0"):
        count_words(good, num_workers=0)
    with pytest.raises(ValueError, match="chunk_size must be at least 1 byte, got 0"):
        count_words(good, chunk_size=0)
    with pytest.raises(TypeError, match=r"num_workers must be an int, got 2\.0"):
        count_words(good, num_workers=2.0)


def test_urls_are_counted_too(hostile_file):
    pytest.importorskip("fsspec")
    counts = count_words([f"file://{hostile_file}", hostile_file], SPLITTER, num_workers=1)
    once = count_words(hostile_file, SPLITTER)
    assert counts == {word: 2 * count for word, count in once.items()}


def test_several_files_share_one_pool_of_processes(hostile_file, monkeypatch):
    pools = []

    def map_and_record(function, arguments, num_workers):
        pools.append(num_workers)
        return map_ordered(function, arguments, num_workers)

    monkeypatch.setattr(
        "cs336_basics.pretokenization.counting.count_words.map_ordered", map_and_record
    )
    files = [hostile_file] * 3
    counts = count_words(files, SPLITTER, backend="processes", num_workers=2, chunk_size=1 << 20)
    assert counts == count_words(files, SPLITTER, backend="serial")
    assert pools == [2, 1]  # one for each of the two calls


def test_a_script_needs_no_main_guard(tmp_path, hostile_file):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        from cs336_basics.pretokenization import count_words
        print(sum(count_words({str(hostile_file)!r}, num_workers=2, chunk_size=500).values()))
        """)
    )
    run = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr
    expected = count_words(hostile_file, num_workers=1)
    assert run.stdout.split() == [str(sum(expected.values()))]
