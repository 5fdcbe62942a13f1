"""Rank files give the same ids here and in tiktoken, and unsupported tokenizers are rejected."""

from __future__ import annotations

import base64
import runpy
import subprocess
import sys

import pytest

from cs336_basics._support.errors import (
    InputError,
    InputTypeError,
    MissingFileError,
    UnavailableError,
)
from cs336_basics.formats import check_tokenizer, export_tokenizer
from cs336_basics.formats.tiktoken.loading import load_ranks, load_tiktoken
from cs336_basics.formats.tiktoken.ranks import merges_of_ranks
from cs336_basics.splitting.patterns.named_patterns import GPT2
from cs336_basics.tokenizer import Tokenizer
from tests.errors import rejects
from tests.formats.exported import chosen_texts, random_texts, trained
from tests.tokenizer.examples import BYTES, END, byte_tokenizer

tiktoken = pytest.importorskip("tiktoken")


def test_the_exported_python_runs_from_any_directory(tmp_path):
    ours = trained("cl100k")
    export_tokenizer(ours, "tiktoken", tmp_path / "my encoding")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "my encoding" / "encoding.py")],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    assert done.stdout == f"{ours.encode('Hello, world')} Hello, world\n"
    encoding = runpy.run_path(str(tmp_path / "my encoding" / "encoding.py"))["load"]()
    for text in chosen_texts():
        assert encoding.encode(text, allowed_special="all") == ours.encode(text)
        assert encoding.decode(ours.encode(text)) == text


AB, BC = (b"a", b"b"), (b"b", b"c")
REFUSED = {
    "falling ids": (
        lambda: Tokenizer(
            {**BYTES, 300: b"ab", 299: b"cd"},
            [AB, (b"c", b"d")],
        ),
        ["b'ab'", "id 300"],
    ),
    "different parts": (
        lambda: byte_tokenizer(merges=[AB, BC, (b"a", b"bc")]),
        ["b'abc'", "id 258", "[b'ab', b'c']"],
    ),
    "a token that no merge makes": (
        lambda: Tokenizer({**BYTES, 256: b"the"}, []),
        ["b'the'"],
    ),
    "a prefix": (
        lambda: byte_tokenizer("<|a", "<|a|>"),
        ["b'<|a|>'", "b'<|a'"],
    ),
    "a special token that is also an ordinary token": (
        lambda: byte_tokenizer("ab", merges=[AB]),
        ["b'ab'"],
    ),
    "a missing byte": (lambda: Tokenizer({0: b"a"}, []), ["0x00"]),
    "unsupported syntax": (
        lambda: byte_tokenizer(pattern=r"\w+|\W"),
        [r"'\\w+|\\W'", "tiktoken"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_tokenizer_that_ranks_cannot_represent_is_refused_before_writing(tmp_path, name):
    make, shown = REFUSED[name]
    with pytest.raises(InputError) as caught:
        export_tokenizer(make(), "tiktoken", tmp_path / "out")
    assert all(value in str(caught.value) for value in shown)
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------ read

RANKS = {bytes([byte]): byte for byte in range(256)}


def write_ranks(path, ranks):
    lines = [b"%b %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items()]
    path.write_bytes(b"".join(lines))


def test_a_file_of_ranks_gives_the_same_ids_as_tiktoken(tmp_path):
    ranks = {**RANKS, b"th": 256, b" t": 257, b"the": 258, b" the": 260}
    special = {END: 300, "<|x|>": 259}
    write_ranks(tmp_path / "my.tiktoken", ranks)
    pattern = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|[\s\S]"
    ours = Tokenizer.from_tiktoken(tmp_path / "my.tiktoken", special, pattern=pattern)
    theirs = tiktoken.Encoding("", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    for text in [*chosen_texts(), *random_texts(0, 300), f"the then{END} theth<|x|>"]:
        assert ours.encode(text) == theirs.encode(text, allowed_special="all")


def test_a_file_without_a_pattern_is_refused(tmp_path):
    write_ranks(tmp_path / "my.tiktoken", RANKS)
    with rejects(None, "my.tiktoken"):
        Tokenizer.from_tiktoken(tmp_path / "my.tiktoken")
    with rejects("pattern", "'gpt3'"):
        Tokenizer.from_tiktoken(tmp_path / "my.tiktoken", pattern="gpt3")


@pytest.fixture
def registered(monkeypatch):
    """Add an encoding to tiktoken's registry, as an extension would."""
    from tiktoken import registry
    from tiktoken_ext import openai_public

    def make():
        return {
            "name": "small_base",
            "pat_str": openai_public.r50k_pat_str,
            "mergeable_ranks": {**RANKS, b"he": 256, b"the": 257},
            "special_tokens": {END: 258},
        }

    tiktoken.list_encoding_names()  # fills the registry
    monkeypatch.setitem(registry.ENCODING_CONSTRUCTORS, "small_base", make)
    yield
    registry.ENCODINGS.pop("small_base", None)


def test_an_encoding_is_loaded_from_tiktoken_by_name(registered):
    ours = Tokenizer.from_tiktoken("small_base")
    theirs = tiktoken.get_encoding("small_base")
    assert ours.pattern == "gpt2"
    other = Tokenizer.from_tiktoken("small_base", {"<|im_start|>": 1000})
    assert (other.special_tokens, other.encode("the<|im_start|>")) == (
        ["<|im_start|>"],
        [257, 1000],
    )
    for text in [*chosen_texts(), *random_texts(1, 300)]:
        assert ours.encode(text) == theirs.encode(text, allowed_special="all")


def test_an_existing_file_comes_before_an_encoding(registered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_ranks(tmp_path / "small_base", {**RANKS, b"xy": 256})
    assert Tokenizer.from_tiktoken("small_base", pattern="gpt2").vocab[256] == b"xy"


def test_an_unknown_name_is_refused_with_the_known_ones():
    with rejects(None, "cl101k_base", " cl100k_base", kind=MissingFileError):
        Tokenizer.from_tiktoken("cl101k_base")
    with rejects(None, "gpt-4", "cl100k_base", kind=MissingFileError):
        Tokenizer.from_tiktoken("gpt-4")


def test_a_failed_download_is_reported_in_one_line(monkeypatch):
    def fail(name):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(tiktoken, "get_encoding", fail)
    with pytest.raises(OSError, match=r"gpt2\b.*: no route to host$"):
        Tokenizer.from_tiktoken("gpt2")


def test_a_missing_tiktoken_is_named_with_the_command_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with rejects(None, "cl100k_base", kind=UnavailableError):
        Tokenizer.from_tiktoken("cl100k_base")
    write_ranks(tmp_path / "my.tiktoken", RANKS)  # reading files does not need tiktoken
    assert Tokenizer.from_tiktoken(tmp_path / "my.tiktoken", pattern="gpt2").vocab_size == 256


def test_a_missing_file_or_byte_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.tiktoken"):
        load_tiktoken(tmp_path / "absent.tiktoken")
    with rejects(None, tmp_path / "encoding.json", kind=MissingFileError):
        load_tiktoken(tmp_path)
    write_ranks(tmp_path / "x", {b"a": 0})
    with rejects(None, "0x00"):
        load_tiktoken(tmp_path / "x", pattern="gpt2")


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b"!!! 300", (None, "line 257", "b'!!! 300'")),
        (b"YWI=", (None, "line 257", "b'YWI='")),
        (b"YWI= -1", (None, "line 257")),
        (b"YWI= 4294967296", (None, "line 257")),
        (b"YWI= " + b"9" * 5000, (None, "line 257")),
        ("YWI= ٣٠٠".encode(), (None, "line 257")),
        (b"== 256", (None, "line 257")),
        (b"YQ== 256", (None, "line 257", "b'a'", "rank 256")),
        (b"YWI= 255", (None, "line 257", "b'ab'", "rank 255")),
        (b"YWI= 4294967295", (None, "4294967295", "b'ab'")),  # tiktoken does not join a and b
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, fields):
    path = tmp_path / "my.tiktoken"
    write_ranks(path, RANKS)
    path.write_bytes(path.read_bytes() + line + b"\n")
    with rejects(*fields) as raised:
        load_tiktoken(path, pattern="gpt2")
    assert str(path) in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("special", "fields"),
    [
        ({END: 5}, (None, "id 5")),
        ({END: "5"}, (None, "'5'")),
        ({END: -5}, (None, "-")),
        ({END: 1 << 40}, (None, 4294967295)),
        ({"": 300}, ("special_tokens",)),
        ({"b": 97}, (None, "id 97")),
    ],
)
def test_invalid_special_tokens_are_refused(tmp_path, special, fields):
    write_ranks(tmp_path / "x", RANKS)
    with rejects(*fields):
        Tokenizer.from_tiktoken(tmp_path / "x", special, pattern="gpt2")


@pytest.mark.parametrize("special", [["<s>"], {b"<|x|>": 300}, {300: "<|x|>"}])
def test_special_tokens_must_be_a_mapping_of_strings(tmp_path, special):
    write_ranks(tmp_path / "x", RANKS)
    with pytest.raises(InputTypeError):
        Tokenizer.from_tiktoken(tmp_path / "x", special, pattern="gpt2")


def test_an_export_with_a_damaged_description_is_refused(tmp_path):
    export_tokenizer(trained("gpt2"), "tiktoken", tmp_path)
    (tmp_path / "encoding.json").write_text('{"special_tokens": {}}')
    with rejects(None, "encoding.json", "'pat_str'"):
        Tokenizer.from_tiktoken(tmp_path)


def test_importing_or_checking_an_export_does_not_run_its_python(tmp_path):
    export_tokenizer(trained("gpt2"), "tiktoken", tmp_path)
    (tmp_path / "encoding.py").write_text("raise SystemExit")
    check_tokenizer(trained("gpt2"), "tiktoken", tmp_path)
    assert Tokenizer.from_tiktoken(tmp_path).hash() == trained("gpt2").hash()


def test_long_tokens_take_time_proportional_to_their_length(tmp_path):
    ranks = dict(RANKS)
    token = b"ab"
    while len(token) <= 1 << 16:
        ranks[token] = len(ranks)
        token += token
    assert merges_of_ranks(ranks)[-1] == (b"ab" * (1 << 14), b"ab" * (1 << 14))
    write_ranks(tmp_path / "x", ranks)
    assert load_ranks(tmp_path / "x") == ranks


@pytest.mark.parametrize(
    "tokens", [[b"ab" * 10_000_000], [b"a" * 2**n for n in range(1, 24)]], ids=["one", "doubled"]
)
def test_tokens_that_are_too_long_in_total_are_refused(tmp_path, tokens):
    ranks = {token: rank for rank, token in enumerate([*RANKS, *tokens])}
    write_ranks(tmp_path / "x", ranks)
    with rejects(None, f"{len(tokens[-1]):,}"):
        Tokenizer.from_tiktoken(tmp_path / "x", pattern="gpt2")


def test_the_empty_token_of_whisper_is_left_out(tmp_path):
    write_ranks(tmp_path / "x", RANKS)
    size = len(RANKS)
    with open(tmp_path / "x", "ab") as file:
        file.write(b"= %d\n" % size)
    ours = Tokenizer.from_tiktoken(tmp_path / "x", {END: size + 1}, pattern="gpt2")
    assert len(ours) == size + 1
    assert ours.encode(f"a{END}") == [97, size + 1]


def test_an_encoding_is_read():
    encoding = tiktoken.Encoding(
        "x",
        pat_str=GPT2,
        mergeable_ranks={**RANKS, b"zzz": 300},
        special_tokens={END: 400, "a": 401},
    )
    ours = Tokenizer.from_tiktoken(encoding)
    for text in [*chosen_texts(), f"zzz zzzz{END} a"]:
        assert ours.encode(text) == encoding.encode(text, allowed_special="all")
    assert ours.source is None
    for source in (5, None, object()):
        with rejects("source", kind=InputTypeError):
            Tokenizer.from_tiktoken(source)
