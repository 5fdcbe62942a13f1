"""GPT-2's pair of files, read from other programs."""

from __future__ import annotations

import json

import pytest

from cs336_basics.formats.gpt2.gpt2_files import load_gpt2
from cs336_basics.tokenizer import Tokenizer
from tests.tokenizer.examples import END, data_file, small_tokenizer


def write_pair(directory, special=END, names=("vocab.json", "merges.txt")):
    """A pair as GPT-2's own: the special token last, in plain text."""
    tokenizer = small_tokenizer()
    tokenizer.save(directory)
    path = directory / "vocab.json"
    strings = json.loads(path.read_text("utf-8"))
    strings = {key: value for key, value in strings.items() if key != END}
    strings[special] = tokenizer.special_token_id(END)
    path.unlink()
    (directory / names[0]).write_text(json.dumps(strings), "utf-8")
    (directory / "merges.txt").rename(directory / names[1])
    (directory / "metadata.json").unlink()
    return tokenizer


def test_the_special_tokens_are_those_that_no_merge_makes(tmp_path):
    tokenizer = write_pair(tmp_path)
    found = Tokenizer.from_gpt2(tmp_path)
    assert found.special_tokens == [END]
    assert found.hash() == tokenizer.hash()
    text = f"It's the cat{END}that ate"
    assert found.encode(text) == tokenizer.encode(text)


def test_special_tokens_in_plain_text_are_found(tmp_path):
    write_pair(tmp_path, "<|end of text|>")
    found = Tokenizer.from_gpt2(tmp_path)
    assert found.special_tokens == ["<|end of text|>"]
    assert found.decode(found.encode("a<|end of text|>")) == "a<|end of text|>"


def test_special_tokens_can_be_given(tmp_path):
    write_pair(tmp_path)
    found = Tokenizer.from_gpt2(tmp_path, special_tokens=[END, "<|new|>"])
    assert found.special_tokens == [END, "<|new|>"]
    assert found.special_token_id("<|new|>") == found.special_token_id(END) + 1


def test_a_directory_of_save_with_another_pattern_is_refused(tmp_path):
    small_tokenizer((END,), "gpt2").save(tmp_path / "gpt2")
    tokenizer = Tokenizer.from_gpt2(tmp_path / "gpt2")
    assert tokenizer.hash() == small_tokenizer((END,), "gpt2").hash()
    small_tokenizer((END,), "cl100k").save(tmp_path / "cl100k")
    with pytest.raises(
        ValueError, match=r"split pattern is 'cl100k': .* Tokenizer\.from_directory"
    ):
        Tokenizer.from_gpt2(tmp_path / "cl100k")


def test_the_names_of_the_first_publication_are_read(tmp_path):
    tokenizer = write_pair(tmp_path, names=("encoder.json", "vocab.bpe"))
    assert Tokenizer.from_gpt2(tmp_path).hash() == tokenizer.hash()


def test_the_files_can_be_named(tmp_path):
    tokenizer = write_pair(tmp_path, names=("v.json", "m.txt"))
    found = Tokenizer.from_gpt2(tmp_path / "v.json", tmp_path / "m.txt", backend="python")
    assert found.hash() == tokenizer.hash()
    assert found.backend == "python"


def test_the_vocabulary_of_gpt2_is_read():
    found = Tokenizer.from_gpt2(data_file("gpt2_vocab.json"), data_file("gpt2_merges.txt"))
    assert (found.vocab_size, found.special_tokens) == (50_257, [END])
    assert found.encode(f"Hello world{END}") == [15496, 995, 50256]


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent does not exist: name a directory with"):
        load_gpt2(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=r"vocab\.json"):
        load_gpt2(tmp_path)
    write_pair(tmp_path)
    with pytest.raises(ValueError, match=r"vocab\.json is a file: give merges_file as well"):
        load_gpt2(tmp_path / "vocab.json")


def test_a_token_that_can_be_neither_ordinary_nor_special_is_refused(tmp_path):
    write_pair(tmp_path)
    strings = json.loads((tmp_path / "vocab.json").read_text("utf-8"))
    (tmp_path / "vocab.json").write_text(json.dumps({**strings, "ÃÃ": 9999}), "utf-8")
    with pytest.raises(
        ValueError, match=r"token b'\\xc3\\xc3' is not made by a merge and is not text"
    ):
        load_gpt2(tmp_path)
    assert 9999 in Tokenizer.from_gpt2(tmp_path, special_tokens=[END]).vocab
