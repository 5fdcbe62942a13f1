"""vocab.json, merges.txt and tokenizer directories: round trips, and what is refused."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cs336_basics
from cs336_basics.formats.gpt2 import vocab_files
from cs336_basics.formats.gpt2.byte_strings import (
    byte_to_character,
    string_to_token,
    token_to_string,
)
from cs336_basics.formats.gpt2.vocab_files import (
    hash_lines,
    load_merges,
    load_tokenizer,
    load_vocab,
    save_merges,
    save_tokenizer,
    save_vocab,
    tokenizer_hash,
)
from cs336_basics.pretokenization import PATTERNS
from cs336_basics.tokenizer import Tokenizer
from tests.faults import killed_at, run_alone
from tests.tokenizer.examples import (
    BYTES,
    END,
    TRAINING_TEXT,
    data_file,
    small_tokenizer,
)

# ------------------------------------------------------------------ the hash

TOKENS = st.binary(max_size=6)


def test_the_hash_is_the_same_for_bytes_of_a_subclass():
    tokens = [b"a", b"b", b"ab"]
    hashes = {
        Tokenizer(dict(enumerate(map(kind, tokens))), [(kind(b"a"), b"b")]).hash()
        for kind in (bytes, np.bytes_)
    }
    assert len(hashes) == 1


def test_the_hash_lines_have_a_fixed_form():
    lines = hash_lines([0, 256], [b"\n", b"ab"], [(b"a", b"b"), (b"", b"\xff")])
    assert lines == b"token 0 0a\ntoken 256 6162\nmerge 61 62\nmerge  ff\n"


# ------------------------------------------------------------------ bytes as characters


def test_the_byte_map_is_the_one_of_gpt2():
    characters = byte_to_character()
    assert sorted(characters) == list(range(256))
    assert len(set(characters.values())) == 256
    assert all(character.isprintable() and character != " " for character in characters.values())
    known = {0x20: "Ġ", 0x0A: "Ċ", 0x09: "ĉ", 0x0D: "č", 0x00: "Ā", 0x7F: "ġ", 0xAD: "Ń", 0xA0: "ł"}
    assert {byte: characters[byte] for byte in known} == known
    assert [characters[byte] for byte in b"!~\xa1\xac\xae\xff"] == list("!~¡¬®ÿ")
    others = [byte for byte in range(256) if characters[byte] != chr(byte)]
    assert [characters[byte] for byte in others] == [chr(0x100 + n) for n in range(68)]


@given(st.binary())
def test_string_to_token_inverts_token_to_string(token):
    assert string_to_token(token_to_string(token)) == token


def test_the_byte_map_is_the_one_of_tokenizers():
    pre_tokenizers = pytest.importorskip("tokenizers.pre_tokenizers")
    assert set(byte_to_character().values()) == set(pre_tokenizers.ByteLevel.alphabet())


# ------------------------------------------------------------------ the pair


@given(
    tokens=st.lists(st.binary(min_size=1, max_size=6), unique=True, max_size=20),
    merges=st.lists(st.tuples(*[st.binary(min_size=1, max_size=4)] * 2), max_size=10),
)
@settings(max_examples=40, deadline=None)
def test_saved_vocabularies_and_merges_are_loaded_unchanged(tmp_path_factory, tokens, merges):
    directory = tmp_path_factory.mktemp("pair")
    vocab = {3 * index + 1: token for index, token in enumerate(tokens)}
    save_vocab(vocab, directory / "vocab.json")
    save_merges(merges, directory / "merges.txt")
    assert load_vocab(directory / "vocab.json") == vocab
    assert load_merges(directory / "merges.txt") == merges


def test_the_files_have_the_form_of_gpt2(tmp_path):
    save_vocab({1: b" a", 0: b"\n", 2: END.encode(), 3: "é ".encode()}, tmp_path / "vocab.json")
    save_merges([(b" ", b"a"), (b"\r", b"\n")], tmp_path / "merges.txt")
    content = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    assert content == {"Ċ": 0, "Ġa": 1, "<|endoftext|>": 2, "Ã©Ġ": 3}
    assert (tmp_path / "merges.txt").read_bytes() == "#version: 0.2\nĠ a\nč Ċ\n".encode()
    assert sorted(os.listdir(tmp_path)) == ["merges.txt", "vocab.json"]


def test_the_tokenizers_library_reads_the_files(tmp_path):
    models = pytest.importorskip("tokenizers.models")
    tokenizer = small_tokenizer()
    tokenizer.save(tmp_path)
    model = models.BPE.from_file(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    for token_id in range(256, 340):
        assert model.id_to_token(token_id) == token_to_string(tokenizer.vocab[token_id])


@pytest.mark.parametrize(
    ("content", "merges"),
    [
        (b"", []),
        (b"#version: 0.2\n", []),
        ("Ġ t\nh e\n".encode(), [(b" ", b"t"), (b"h", b"e")]),
        ("#version: 0.2\nĠ t\nh e".encode(), [(b" ", b"t"), (b"h", b"e")]),
        ("#version: 0.2\r\nĠ t\r\nh e\r\n\r\n".encode(), [(b" ", b"t"), (b"h", b"e")]),
        ("\ufeff#version: 0.2\nĠ t\n".encode(), [(b" ", b"t")]),
        # Merges that look like a version line: only the very first line is one.
        (b"# version\n#version :\n", [(b"#", b"version"), (b"#version", b":")]),
        (
            b"#version: 0.2\n#version : \n#version: 0.2\n".replace(b": \n", b":\n"),
            [(b"#version", b":"), (b"#version:", b"0.2")],
        ),
    ],
)
def test_merges_are_read_with_and_without_a_version_line(tmp_path, content, merges):
    path = tmp_path / "merges.txt"
    path.write_bytes(content)
    assert load_merges(path) == merges


def test_a_first_merge_that_looks_like_a_version_line_is_loaded_unchanged(tmp_path):
    merges = [(b"#version:", b"0.2"), (b"#version:", b"x")]
    save_merges(merges, tmp_path / "merges.txt")
    assert load_merges(tmp_path / "merges.txt") == merges


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a b\nc\n", r"merges.txt, line 2: 'c' is not a merge"),
        (b"#version: 0.2\na b c\n", r"line 2: 'a b c'"),
        (b"a  b\n", r"line 1: 'a  b'"),
        (b" a b\n", r"line 1"),
        (b"a b \n", r"line 1"),
        (b"a b\n\nc d\n", r"line 2: ''"),
        (b"a\tb\n", r"line 1"),
        ("a b\nc \u3042\n".encode(), r"line 2.*'あ'"),
        (b"a \xff\n", r"merges.txt is not UTF-8 at byte 2"),
    ],
)
def test_a_malformed_merges_file_is_refused_with_the_line(tmp_path, content, message):
    path = tmp_path / "merges.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_merges(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1, column 1"),
        ('{"a": 0,\n "b" 1}', "vocab.json, line 2, column 6"),
        ("[]", "of type list"),
        ("3", "of type int"),
        ('{"a": "0"}', "'a' is '0'"),
        ('{"a": 0.0}', "'a' is 0.0"),
        ('{"a": true}', "'a' is True"),
        ('{"a": null}', "'a' is None"),
        ('{"a": {"b": 0}}', "'a' is "),
        ('{"a": 0, "b": 0}', "b'a' and b'b' have the same id 0"),
        ('{"a": 0, "b": 1, "a": 2}', "'a' occurs twice"),
        ('{"a\\ud800": 0}', "not valid Unicode"),
        ("[" * 100_000, "vocab.json"),
        ('{"a": ' + "9" * 10_000 + "}", "vocab.json"),
    ],
)
def test_a_malformed_vocabulary_is_refused_with_the_line_or_item(tmp_path, content, message):
    path = tmp_path / "vocab.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_vocab(path)


def test_a_vocabulary_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "vocab.json").write_bytes(b'{"\xff": 0}')
    with pytest.raises(ValueError, match=r"vocab.json is not UTF-8 at byte 2"):
        load_vocab(tmp_path / "vocab.json")


def test_special_tokens_of_other_tools_may_hold_any_character(tmp_path):
    vocab = {"Ġa": 0, "<|end of text|>": 1, "<終>": 2, "<|x|>": 3}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    assert load_vocab(tmp_path / "vocab.json") == {
        0: b" a", 1: b"<|end of text|>", 2: "<終>".encode(), 3: b"<|x|>",
    }  # fmt: skip


def test_tokens_that_the_files_cannot_hold_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ids 0 and 7 .* b'a'"):
        save_vocab({7: b"a", 0: b"a"}, tmp_path / "vocab.json")
    with pytest.raises(ValueError, match="merge 1 "):
        save_merges([(b"a", b"b"), (b"a", b"")], tmp_path / "merges.txt")
    assert os.listdir(tmp_path) == []


def test_from_files_keeps_special_tokens_byte_for_byte(tmp_path):
    special_tokens = [END, "<|end of text|>", "<é>", "\n\n", "終"]
    tokenizer = small_tokenizer(tuple(special_tokens))
    tokenizer.save(tmp_path)
    paths = tmp_path / "vocab.json", tmp_path / "merges.txt"
    again = Tokenizer.from_files(*paths, special_tokens)
    assert again.vocab == tokenizer.vocab
    assert again.hash() == tokenizer.hash()
    assert Tokenizer.from_files(*map(str, paths)).special_tokens == []


def test_the_files_of_gpt2_are_saved_unchanged(tmp_path):
    vocab, merges = (
        load_vocab(data_file("gpt2_vocab.json")),
        load_merges(data_file("gpt2_merges.txt")),
    )
    assert (len(vocab), len(merges)) == (50257, 50000)
    assert (vocab[0], vocab[220], vocab[50256]) == (b"!", b" ", END.encode())
    assert merges[:2] == [(b" ", b"t"), (b" ", b"a")]
    save_vocab(vocab, tmp_path / "vocab.json")
    save_merges(merges, tmp_path / "merges.txt")
    assert load_vocab(tmp_path / "vocab.json") == vocab
    assert load_merges(tmp_path / "merges.txt") == merges


# ------------------------------------------------------------------ tokenizer directories


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W"])
def test_a_saved_tokenizer_is_loaded_unchanged(tmp_path, pattern):
    tokenizer = small_tokenizer((END, "a b", "é"), pattern)
    directory = tmp_path / "not" / "yet" / "there"
    tokenizer.save(directory)
    again = Tokenizer.from_directory(str(directory))
    assert again.hash() == tokenizer.hash()
    assert (again.vocab, again.merges) == (tokenizer.vocab, tokenizer.merges)
    assert (again.special_tokens, again.pattern) == (tokenizer.special_tokens, pattern)
    assert again.encode(TRAINING_TEXT) == tokenizer.encode(TRAINING_TEXT)


def test_the_hash_of_a_loaded_tokenizer_covers_appended_special_tokens(tmp_path):
    # By hand: a special token that is not in the vocabulary is appended when it is loaded.
    small_tokenizer((END,)).save(tmp_path)
    (vocab, merges, _, pattern, _), _ = load_tokenizer(tmp_path)
    metadata = json.loads((tmp_path / "metadata.json").read_text(encoding="utf-8"))
    special_tokens = [END, "<appended>"]
    metadata["special_tokens"] = special_tokens
    metadata["tokenizer_hash"] = tokenizer_hash(vocab, merges, special_tokens, pattern)
    (tmp_path / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    for directory in (tmp_path, tmp_path / "saved"):
        tokenizer = Tokenizer.from_directory(directory)
        expected = Tokenizer(tokenizer.vocab, merges, special_tokens, pattern=pattern).hash()
        assert tokenizer.hash() == expected
        tokenizer.save(tmp_path / "saved")


def test_metadata_holds_the_pattern_special_tokens_and_hash(tmp_path):
    vocab = {**BYTES, 400: b"ab", 401: END.encode()}
    # A pattern given by its expression is recorded by its name.
    save_tokenizer(
        tmp_path, vocab, [(b"a", b"b")], [END], PATTERNS["gpt2"], corpus="stories", unicode="17.0"
    )
    metadata = json.loads((tmp_path / "metadata.json").read_text(encoding="utf-8"))
    assert metadata.pop("regex_version")
    assert metadata == {
        "pattern": "gpt2",
        "pattern_regex": PATTERNS["gpt2"],
        "special_tokens": [END],
        "ignore_merges": False,
        "vocab_size": 402,
        "num_merges": 1,
        "tokenizer_hash": Tokenizer(vocab, [(b"a", b"b")], [END]).hash(),
        "library_version": cs336_basics.__version__,
        "corpus": "stories",
        "unicode": "17.0",
    }
    assert sorted(os.listdir(tmp_path)) == ["merges.txt", "metadata.json", "vocab.json"]


def test_a_tokenizer_that_cannot_be_saved_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"endoftext.* not in the vocabulary"):
        save_tokenizer(tmp_path, BYTES, [], [END], "gpt2")
    with pytest.raises(ValueError, match="vocab_size"):
        save_tokenizer(tmp_path, BYTES, [], [], "gpt2", vocab_size=7)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("missing", ["", "vocab.json", "merges.txt", "metadata.json"])
def test_the_error_for_a_missing_file_names_the_command_that_makes_it(tmp_path, missing):
    directory = tmp_path / "tokenizer"
    if missing:
        small_tokenizer().save(directory)
        (directory / missing).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        Tokenizer.from_directory(directory)
    message = str(caught.value)
    assert str(directory / missing) + " does not exist" in message
    assert "python -m cs336_basics train-bpe" in message
    assert f"--output {directory}" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pattern": None}, "'pattern' is None"),
        ({"pattern": "cl100k"}, "'cl100k' was"),
        ({"pattern_regex": r"\w+"}, "'gpt2' was"),
        ({"special_tokens": END}, "'special_tokens' is"),
        ({"special_tokens": [1]}, "'special_tokens' is"),
        ({"special_tokens": []}, "do not belong together"),
        ({"tokenizer_hash": "0" * 64}, "0000"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(tmp_path, change, message):
    small_tokenizer().save(tmp_path)
    path = tmp_path / "metadata.json"
    metadata = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**metadata, **change}), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_directory(tmp_path)


def test_files_of_two_tokenizers_are_refused(tmp_path):
    small_tokenizer(pattern="gpt2").save(tmp_path / "a")
    small_tokenizer(pattern=r"\w+|\W").save(tmp_path / "b")
    os.replace(tmp_path / "b" / "merges.txt", tmp_path / "a" / "merges.txt")
    with pytest.raises(ValueError, match="do not belong together"):
        load_tokenizer(tmp_path / "a")


@pytest.mark.parametrize("content", ["", "[]", "null", "{"])
def test_malformed_metadata_is_refused(tmp_path, content):
    small_tokenizer().save(tmp_path)
    (tmp_path / "metadata.json").write_text(content)
    with pytest.raises(ValueError, match=r"metadata\.json"):
        Tokenizer.from_directory(tmp_path)


# ------------------------------------------------------------------ memory, time and messages


def test_ids_that_collide_are_refused_before_they_are_keys(tmp_path):
    # They have the same hash in every process: a dict of them takes quadratic time.
    colliding = [1 + k * sys.hash_info.modulus for k in range(40_000)]
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps({f"t{i}": token_id for i, token_id in enumerate(colliding)}))
    start = time.process_time()
    with pytest.raises(ValueError, match=r"vocab\.json: id \d+ of 't1' is above 4294967295"):
        load_vocab(path)
    assert time.process_time() - start < 3  # of the dict: 12


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "metadata.json"])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="FIFOs are those of POSIX")
def test_a_fifo_in_a_tokenizer_directory_is_refused(tmp_path, name):
    small_tokenizer().save(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)  # opening it would wait for a writer
    with pytest.raises(ValueError, match=rf"{name} is a FIFO: name a regular file"):
        load_tokenizer(tmp_path)
    with pytest.raises(ValueError, match=rf"{name} is a FIFO: name a regular file"):
        small_tokenizer().save(tmp_path)


def test_the_hash_is_compared_before_the_pattern_is_compiled(tmp_path, monkeypatch):
    def fail(pattern):
        raise AssertionError

    small_tokenizer(pattern=r"\w+|\W").save(tmp_path)
    (tmp_path / "merges.txt").write_text("")
    monkeypatch.setattr(vocab_files, "resolve_pattern", fail)
    with pytest.raises(ValueError, match="do not belong together"):
        load_tokenizer(tmp_path)


def test_values_in_messages_are_cut(tmp_path):
    long = "x" * 100_000
    for name, content in {
        "a.json": json.dumps({long: "0"}),
        "b.json": json.dumps({long: 0, "y" * 100_000: 0}),
        "c.json": f'{{"{long}": 0, "{long}": 1}}',
        "d.txt": f"a b\n{long}\n",
        "e.txt": f"a b\n{long} \u3042\n",
    }.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        load = load_merges if name.endswith("txt") else load_vocab
        with pytest.raises(ValueError, match=name) as caught:
            load(tmp_path / name)
        assert len(str(caught.value)) < 500 + len(str(tmp_path))
    token = long.encode()
    for vocab, merges in (
        ({0: token, 1: token}, []),
        ({0: b"a"}, [(token, token)]),
        ({0: b"a"}, [token]),
        ({0: long}, []),
        ({-(10**4000): token}, []),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            Tokenizer(vocab, merges)
        assert len(str(caught.value)) < 500


# ------------------------------------------------------------------ crashes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_while_saving_leaves_the_old_tokenizer_or_the_new_one(tmp_path):
    run_alone(kill_while_saving, tmp_path)


def kill_while_saving(folder):
    os.fsync = lambda handle: None  # takes most of the time
    old, new = small_tokenizer(()), small_tokenizer((END, "x"))
    seen = []
    for step in itertools.count(1):
        directory = Path(folder) / str(step)
        old.save(directory)
        if not killed_at(step, lambda directory=directory: new.save(directory)):
            break
        loaded = Tokenizer.from_directory(directory)
        seen.append([old.hash(), new.hash()].index(loaded.hash()))
        pair = Tokenizer.from_files(directory / "vocab.json", directory / "merges.txt")
        assert pair.vocab == (old, new)[seen[-1]].vocab
    assert [which for which, _ in itertools.groupby(seen)] == [0, 1]


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        ([], "train-bpe --input FILE"),
        (["vocab.json"], "train-bpe --input FILE"),
        (
            ["vocab.json", "merges.txt"],
            r"read GPT-2's files with Tokenizer\.from_gpt2\('.*vocab\.json', ",
        ),
        (
            ["vocab.json", "tokenizer.json"],
            r"read tokenizer\.json with Tokenizer\.from_huggingface\(",
        ),
    ],
)
def test_a_directory_of_other_files_is_refused_with_the_way_to_read_them(tmp_path, names, advice):
    for name in names:
        (tmp_path / name).write_text("{}")
    with pytest.raises(FileNotFoundError, match=rf"metadata\.json does not exist: .*{advice}"):
        Tokenizer.from_directory(tmp_path)


def test_a_file_is_no_tokenizer_directory(tmp_path):
    (tmp_path / "vocab.json").write_text("{}")
    with pytest.raises(ValueError, match=r"vocab\.json is a file: name the directory"):
        Tokenizer.from_directory(tmp_path / "vocab.json")


def test_the_directory_of_a_run_is_refused_with_its_tokenizer(tmp_path):
    small_tokenizer().save(tmp_path / "run" / "tokenizer")
    with pytest.raises(FileNotFoundError, match=r"is a training run: name its tokenizer, .*tokeni"):
        Tokenizer.from_directory(tmp_path / "run")
