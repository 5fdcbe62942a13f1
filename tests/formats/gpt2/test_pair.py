"""GPT-2's two files are written and read, and malformed files are rejected."""

from __future__ import annotations

import json
import sys
import time
import warnings

import pytest

from cs336_basics._support.errors import InputTypeError, MissingFileError
from cs336_basics.formats import export_tokenizer
from cs336_basics.formats.gpt2.pair import contents, load_gpt2, load_merges, load_vocab
from cs336_basics.tokenizer import Tokenizer
from tests.errors import rejects
from tests.tokenizer.examples import BYTES, END, byte_tokenizer, data_file, small_tokenizer

# ------------------------------------------------------------------ out


def test_the_files_have_the_format_of_gpt2():
    tokenizer = byte_tokenizer("<|end of text|>", "猫", merges=[(b" ", b"t"), (b"\r", b"\n")])
    written = contents(tokenizer.definition)
    assert written["merges.txt"] == "#version: 0.2\nĠ t\nč Ċ\n"
    strings = json.loads(written["vocab.json"])
    assert [strings[key] for key in ("Ġ", "Ġt", "čĊ")] == [32, 256, 257]
    assert [strings[key] for key in ("<|end of text|>", "猫")] == [258, 259]  # plain text


@pytest.mark.parametrize(
    ("tokenizer", "fields"),
    [
        (byte_tokenizer(pattern="cl100k"), ("pattern", "gpt2", "'cl100k'")),
        (byte_tokenizer("<é>"), (None, "'<é>'")),
        (Tokenizer({0: b"a"}, []), (None, "0x00")),
        (Tokenizer({**BYTES, 256: b"ab"}, [], ignore_merges=True), (None, "b'ab'")),
    ],
)
def test_a_tokenizer_that_the_files_cannot_represent_is_refused(tmp_path, tokenizer, fields):
    with rejects(*fields):
        export_tokenizer(tokenizer, "gpt2", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------ in


def write_pair(directory, special=END, names=("vocab.json", "merges.txt")):
    """Write a pair of files like GPT-2's, where the special token is last and in plain text."""
    tokenizer = small_tokenizer((special,))
    written = contents(tokenizer.definition)
    (directory / names[0]).write_text(written["vocab.json"], "utf-8")
    (directory / names[1]).write_text(written["merges.txt"], "utf-8")
    return tokenizer


@pytest.mark.parametrize("special", [END, "<|end of text|>", "<終>"])
@pytest.mark.parametrize("names", [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")])
def test_special_tokens_are_given_or_are_the_tokens_that_no_merge_makes(tmp_path, special, names):
    tokenizer = write_pair(tmp_path, special, names)
    files = [tmp_path / name for name in names]
    found = Tokenizer.from_gpt2(tmp_path)
    assert found.special_tokens == [special]
    text = f"It's the cat{special}that ate"
    assert found.encode(text) == tokenizer.encode(text)
    for same in (found, Tokenizer.from_gpt2(*files), Tokenizer.from_files(*files, [special])):
        assert same.hash() == tokenizer.hash()
    assert Tokenizer.from_files(*map(str, files)).special_tokens == []
    found = Tokenizer.from_gpt2(tmp_path, special_tokens=[special, "<|new|>"])
    assert found.special_token_id("<|new|>") == tokenizer.vocab_size


def test_a_file_without_its_last_merge_warns(tmp_path):
    merges = [(b"l", b"o"), (b"lo", b"w")]
    vocab = dict(enumerate([*BYTES.values(), b"lo", b"low", END.encode()]))
    whole = contents(Tokenizer(vocab, merges, [END]).definition)
    (tmp_path / "vocab.json").write_text(whole["vocab.json"], "utf-8")
    for text in (whole["merges.txt"], "".join(whole["merges.txt"].splitlines(True)[:-1])):
        (tmp_path / "merges.txt").write_text(text, "utf-8")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = load_gpt2(tmp_path)
        assert bool(caught) == ("low" in found.special_tokens)
    (warning,) = caught
    assert "such as 'low', so they are read as special tokens" in str(warning.message)


def test_the_vocabulary_of_gpt2_is_read_and_written_unchanged(tmp_path):
    files = data_file("gpt2_vocab.json"), data_file("gpt2_merges.txt")
    found = Tokenizer.from_gpt2(*files)
    assert (found.vocab_size, len(found.merges), found.special_tokens) == (50_257, 50_000, [END])
    assert (found.vocab[0], found.vocab[220], found.merges[0]) == (b"!", b" ", (b" ", b"t"))
    assert found.encode(f"Hello world{END}") == [15496, 995, 50256]
    written = contents(found.definition)
    assert json.loads(written["vocab.json"]) == json.loads(files[0].read_text("utf-8"))
    merges = files[1].read_text("utf-8").splitlines()
    first = 1 if merges[0].startswith("#version") else 0
    assert written["merges.txt"].splitlines()[1:] == merges[first:]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        load_gpt2(tmp_path / "absent")
    with rejects(None, tmp_path / "vocab.json", kind=MissingFileError):
        load_gpt2(tmp_path)
    write_pair(tmp_path)
    with rejects(None, "vocab.json"):
        load_gpt2(tmp_path / "vocab.json")


def test_a_token_that_can_be_neither_ordinary_nor_special_is_refused(tmp_path):
    write_pair(tmp_path)
    strings = json.loads((tmp_path / "vocab.json").read_text("utf-8"))
    (tmp_path / "vocab.json").write_text(json.dumps({**strings, "ÃÃ": 9999}), "utf-8")
    with rejects(None, "b'\\xc3\\xc3'"):
        load_gpt2(tmp_path)
    assert 9999 in Tokenizer.from_gpt2(tmp_path, special_tokens=[END]).vocab


@pytest.mark.parametrize(
    ("content", "merges"),
    [
        (b"", []),
        (b"#version: 0.2\n", []),
        ("Ġ t\nh e\n".encode(), [(b" ", b"t"), (b"h", b"e")]),
        ("#version: 0.2\nĠ t\nh e".encode(), [(b" ", b"t"), (b"h", b"e")]),
        ("#version: 0.2\r\nĠ t\r\nh e\r\n\r\n".encode(), [(b" ", b"t"), (b"h", b"e")]),
        ("\ufeff#version: 0.2\nĠ t\n".encode(), [(b" ", b"t")]),
        # Only the first line can be a version line.
        (b"# version\n#version :\n", [(b"#", b"version"), (b"#version", b":")]),
        (
            b"#version: 0.2\n#version :\n#version: 0.2\n",
            [(b"#version", b":"), (b"#version:", b"0.2")],
        ),
    ],
)
def test_merges_are_read_with_and_without_a_version_line(tmp_path, content, merges):
    path = tmp_path / "merges.txt"
    path.write_bytes(content)
    assert load_merges(path) == merges


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (b"a b\nc\n", (None, "merges.txt", "line 2", "'c'")),
        (b"#version: 0.2\na b c\n", (None, "line 2", "'a b c'")),
        (b"a  b\n", (None, "line 1", "'a  b'")),
        (b"a b\n\nc d\n", (None, "line 2")),
        ("a b\nc \u3042\n".encode(), (None, "line 2", "'c あ'")),
        (b"a \xff\n", (None, "merges.txt", 2)),
    ],
)
def test_a_malformed_merges_file_is_refused_with_the_line(tmp_path, content, fields):
    path = tmp_path / "merges.txt"
    path.write_bytes(content)
    with rejects(*fields):
        load_merges(path)


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (b'{"a": 0,\n "b" 1}', (None, "vocab.json", "line 2", 6)),
        (b"[]", (None, "an array")),
        (b'{"a": "0"}', (None, "b'a'", "'0'")),
        (b'{"a": 0, "b": 0}', (None, "b'a'", "b'b'", "id 0")),
        (b'{"a": 0, "b": 1, "a": 2}', (None, "'a'")),
        (b'{"a\\ud800": 0}', (None, "vocab.json")),
        (b'{"\xff": 0}', (None, "vocab.json", 2)),
        (b"[" * 100_000, (None, "vocab.json")),
        (b'{"a": ' + b"9" * 10_000 + b"}", (None, "vocab.json")),
    ],
)
def test_a_malformed_vocabulary_is_refused_with_the_line_or_item(tmp_path, content, fields):
    path = tmp_path / "vocab.json"
    path.write_bytes(content)
    with rejects(*fields):
        load_vocab(path)


@pytest.mark.parametrize("load", [load_vocab, load_merges])
def test_a_pickle_is_refused(tmp_path, load):
    with rejects(None, "vocab.pkl"):
        load(tmp_path / "vocab.pkl")


def test_ids_that_collide_are_refused_before_they_are_keys(tmp_path):
    # All these ids have the same hash in every process, so adding them to a dict takes quadratic
    # time.
    colliding = [1 + k * sys.hash_info.modulus for k in range(40_000)]
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps({f"t{i}": token_id for i, token_id in enumerate(colliding)}))
    start = time.process_time()
    with rejects(None, "b't1'", place="vocab.json"):
        load_vocab(path)
    assert time.process_time() - start < 3  # adding them to a dict would take 12 s


def test_values_in_messages_are_shortened(tmp_path):
    long = "x" * 100_000
    (tmp_path / "a.json").write_text(json.dumps({long: "0"}))
    (tmp_path / "b.txt").write_text(f"a b\n{long}\n")
    for name, load in (("a.json", load_vocab), ("b.txt", load_merges)):
        with rejects(None, place=name) as caught:
            load(tmp_path / name)
        assert len(str(caught.value)) < 500 + len(str(tmp_path))


def test_a_tokenizer_json_is_pointed_to_its_loader(tmp_path):
    small_tokenizer().save(tmp_path)
    file = tmp_path / "tokenizer.json"
    with rejects("merges_filepath", "from_directory", kind=InputTypeError):
        Tokenizer.from_files(file)
    with rejects(None, "from_directory", place=file):
        Tokenizer.from_files(file, file)
