"""`python -m cs336_basics tokens` and `prune`: their output and files."""

import numpy as np
import pytest

from cs336_basics import Tokenizer, train_bpe
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import count_tokens
from cs336_basics.tokenizer import prune as prune_vocabulary
from tests.commands.small_run import command

prune = command("prune")
tokens = command("tokens")

EOT = "<|endoftext|>"


@pytest.fixture
def saved(tmp_path):
    """A directory with text.txt, other.txt, and a tokenizer trained on text.txt."""
    (tmp_path / "text.txt").write_text(f"the cat sat on the mat{EOT}the hat " * 30)
    (tmp_path / "other.txt").write_text(f"the cat {EOT}")
    vocab, merges = train_bpe(tmp_path / "text.txt", 270, [EOT])
    Tokenizer(vocab, merges, [EOT]).save(tmp_path / "tok")
    return tmp_path


def arguments(saved, *more):
    return ["--tokenizer", str(saved / "tok"), "--input", str(saved / "other.txt"), *more]


def test_tokens_are_counted_and_unused_ones_are_listed(saved, capsys):
    counts_file = saved / "counts.npy"
    assert tokens(arguments(saved, "--output", str(counts_file), "--show", "3")) == 0
    tokenizer = Tokenizer.from_directory(saved / "tok")
    counts = np.load(counts_file)
    np.testing.assert_array_equal(counts, count_tokens(tokenizer, saved / "other.txt"))
    printed = capsys.readouterr().out
    assert f"tokens           {counts.sum()}" in printed
    assert f"used             {np.count_nonzero(counts)} of 270" in printed
    assert "the 3 most frequent:" in printed
    assert "never used: " in printed
    assert " more\n" in printed
    assert tokens(arguments(saved, "--output", str(counts_file))) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_a_tokenizer_is_pruned(saved, capsys):
    small, id_map = saved / "small", saved / "id-map.npy"
    more = ["--vocab-size", "260", "--output", str(small), "--id-map", str(id_map)]
    assert prune(arguments(saved, *more)) == 0
    tokenizer = Tokenizer.from_directory(saved / "tok")
    expected = prune_vocabulary(tokenizer, 260, Corpus(saved / "other.txt"))
    assert Tokenizer.from_directory(small).hash() == expected.tokenizer.hash()
    np.testing.assert_array_equal(np.load(id_map), expected.id_map)
    assert "tokens     260 of 270" in capsys.readouterr().out
    assert prune(arguments(saved, *more)) == 2
    assert str(id_map) in capsys.readouterr().err
    assert prune(arguments(saved, *more, "--overwrite")) == 0


def test_a_pruned_tokenizer_keeps_its_chat_template_if_it_is_asked_to(saved, capsys):
    (saved / "tok" / "chat_template.jinja").write_text("{{ messages }}")
    more = ["--vocab-size", "260", "--keep-files"]
    assert prune(arguments(saved, *more, "--output", str(saved / "small"))) == 0
    assert "kept        chat_template.jinja, unchanged, from " in capsys.readouterr().out
    assert (saved / "small" / "chat_template.jinja").read_text() == "{{ messages }}"


def test_the_id_map_is_not_replaced_if_the_tokenizer_cannot_be_saved(saved, monkeypatch, capsys):
    id_map = saved / "id-map.npy"
    id_map.write_bytes(b"old")

    def fail(self, directory, *, keep_files):
        raise OSError("the disk is full")

    monkeypatch.setattr(Tokenizer, "save", fail)
    more = ["--vocab-size", "260", "--output", str(saved / "small"), "--id-map", str(id_map)]
    assert prune(arguments(saved, *more, "--overwrite")) != 0
    assert id_map.read_bytes() == b"old"


def test_the_ids_of_a_token_file_are_not_read_as_text(saved, capsys):
    np.save(saved / "ids.npy", np.arange(300, dtype=np.uint16))
    more = ["--input", str(saved / "ids.npy")]
    assert tokens(["--tokenizer", str(saved / "tok"), *more]) == 2
    assert "ids.npy is a NumPy array, not text; pass the text" in capsys.readouterr().err
