"""An interrupt, a kill or a failed write leaves either the old or the new token file."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from cs336_basics.tokenizer import encode_file, load_document_starts, load_token_file
from cs336_basics.tokenizer.files.token_writer import TokenWriter
from tests.faults import alarm, file_size_limit
from tests.tokenizer.examples import END, TRAINING_TEXT, small_tokenizer
from tests.tokenizer.files.corpus_files import contents, corpus_of, metadata_of


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interruption_leaves_the_old_file_or_none(source, out, monkeypatch, error):
    tokenizer = small_tokenizer()
    write = TokenWriter.write

    def fail_at_the_third_block(*arguments):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise error
        return write(*arguments)

    monkeypatch.setattr(TokenWriter, "write", fail_at_the_third_block)
    calls = 0
    with pytest.raises(error):
        encode_file(tokenizer, source, out / "a.npy", num_workers=1, chunk_size=100)
    assert os.listdir(out) == []

    calls = 1000
    encode_file(tokenizer, source, out / "a.npy", num_workers=1, document_starts=True)
    old = contents(out)
    assert sorted(old) == ["a.npy"]
    for document_starts in (False, True):
        calls = 0
        with pytest.raises(error):
            encode_file(
                tokenizer, source, out / "a.npy",
                num_workers=1, chunk_size=100, overwrite=True, document_starts=document_starts,
            )  # fmt: skip
        assert contents(out) == old


# ------------------------------------------------------------------ Ctrl-C


def huge_word():
    """Return 60 MB of text that has no safe cut and takes seconds to encode."""
    return bytes(random.Random(5).choices(b"!.<|>", k=1 << 20)) * 60


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX signals")
def test_ctrl_c_cancels_a_huge_word_of_plain_text(tmp_path, out, monkeypatch):
    native = pytest.importorskip("cs336_basics.tokenizer.encoders._encoder")
    (tmp_path / "a.txt").write_bytes(huge_word() + b"\xff")
    file_encoding = native.FileEncoding

    def watch(*arguments):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        return file_encoding(*arguments)

    monkeypatch.setattr(native, "FileEncoding", watch)
    with alarm(signal.default_int_handler), pytest.raises(KeyboardInterrupt):
        encode_file(small_tokenizer(), tmp_path / "a.txt", out / "a.npy", num_workers=1)
    assert os.listdir(out) == []


# ------------------------------------------------------------------ full disks and crashes


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_full_disk_is_reported_and_leaves_no_file(tmp_path, out, name):
    text = TRAINING_TEXT * 2000
    lines = "".join(json.dumps({"text": text[i : i + 500]}) + "\n" for i in range(0, 10**6, 500))
    (tmp_path / name).write_text(lines if name == "a.jsonl" else text, encoding="utf-8")
    message = r"^\[Errno \d+\] [A-Za-z ]+: '.*out.a\.npy'$"
    with file_size_limit(100_000), pytest.raises(OSError, match=message):
        encode_file(
            small_tokenizer(), corpus_of(tmp_path / name), out / "a.npy",
            num_workers=2, chunk_size=10_000,
        )  # fmt: skip
    assert os.listdir(out) == []


KILLED = """
import itertools, sys
from cs336_basics.tokenizer import Tokenizer, encode_file
directory, tokenizer = sys.argv[1], Tokenizer.from_directory(sys.argv[2])
for number in itertools.count():
    # The two texts have the same length, so that the metadata of one would match the other file.
    for name in ("a.txt", "b.txt"):
        encode_file(
            tokenizer, f"{directory}/{name}", f"{directory}/out/t.npy", num_workers=2,
            chunk_size=1000, overwrite=True, document_starts=number % 2 == 0,
        )
        if number == 0:
            print("written", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps the temporary files")
def test_a_kill_leaves_the_old_token_file_or_the_new_one(tmp_path, out):
    tokenizer = small_tokenizer()
    tokenizer.save(tmp_path / "tokenizer")
    texts = {"a.txt": ("ab" + END) * 3000, "b.txt": ("ba" + END) * 3000}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert len({len(tokenizer.encode(text)) for text in texts.values()}) == 1
    chooser = random.Random(5)
    seen = set()
    for _ in range(5):
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(tmp_path / "tokenizer")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"written\n"
            time.sleep(chooser.uniform(0, 0.05))
            process.kill()
        tokens = load_token_file(out / "t.npy", tokenizer_hash=tokenizer.hash())
        metadata = metadata_of(out / "t.npy")
        name = os.path.basename(metadata["source"])
        seen.add(name)
        assert tokens.tolist() == tokenizer.encode(texts[name])
        if "num_documents" in metadata:
            starts = load_document_starts(out / "t.npy")
            assert starts.tolist() == list(range(0, len(tokens), len(tokens) // 3000))
    assert seen <= set(texts)
    # The next run removes the temporary files of killed runs.
    encode_file(
        tokenizer, tmp_path / "a.txt", out / "t.npy",
        num_workers=1, overwrite=True, document_starts=True,
    )  # fmt: skip
    assert sorted(os.listdir(out)) == ["t.npy"]
