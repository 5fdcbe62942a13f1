"""Exported to tiktoken, a tokenizer gives the same ids there."""

from __future__ import annotations

import runpy
import subprocess
import sys

import pytest

from cs336_basics.formats import check_tokenizer, export_tokenizer
from cs336_basics.formats.gpt2.vocab_files import load_merges, load_vocab
from cs336_basics.formats.tiktoken.tiktoken_files import tiktoken_ranks
from cs336_basics.tokenizer import Tokenizer
from tests.formats.exported import PATTERNS, byte_tokenizer, chosen_texts, random_texts, trained
from tests.tokenizer.examples import CORPORA, END, data_file
from tests.tokenizer.test_peer_agreement import without_differences

tiktoken = pytest.importorskip("tiktoken")

EVERY_PATTERN = pytest.mark.parametrize("pattern", PATTERNS)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Name of a pattern -> our tokenizer, and the encoding that the exported Python loads."""
    found = {}
    for name in PATTERNS:
        directory = tmp_path_factory.mktemp("export") / name
        export_tokenizer(trained(name), "tiktoken", directory)
        found[name] = trained(name), runpy.run_path(str(directory / "encoding.py"))["load"]()
    return found


def assert_equal(ours, theirs, text):
    ids = ours.encode(text)
    assert theirs.encode(text, allowed_special="all") == ids, text
    assert theirs.decode(ids) == ours.decode(ids), text


@EVERY_PATTERN
def test_texts_get_equal_ids(exported, pattern):
    for text in [*chosen_texts(), *random_texts(0, 500)]:
        assert_equal(*exported[pattern], text)


@pytest.mark.slow
@EVERY_PATTERN
def test_50_000_random_texts_get_equal_ids(exported, pattern):
    for text in random_texts(1, 50_000):
        assert_equal(*exported[pattern], text)


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_whole_corpora_get_equal_ids(exported, name):
    with open(data_file(f"{name}.txt"), "rb") as file:
        text = without_differences(file.read(20_000_000).decode("utf-8", errors="replace"))
    for ours, theirs in exported.values():
        same = theirs.encode(text, allowed_special="all") == ours.encode(text)
        assert same  # the lists are too long for pytest to explain


def test_the_vocabulary_of_gpt2_gets_equal_ids(tmp_path):
    vocab = load_vocab(data_file("gpt2_vocab.json"))
    merges = load_merges(data_file("gpt2_merges.txt"))
    ours = Tokenizer(vocab, merges, [END])
    export_tokenizer(ours, "tiktoken", tmp_path)
    theirs = runpy.run_path(str(tmp_path / "encoding.py"))["load"]()
    for text in [*chosen_texts(), *random_texts(2, 500)]:
        assert_equal(ours, theirs, text)


def test_the_python_runs_as_a_program_from_any_directory(tmp_path):
    ours = trained("cl100k")
    export_tokenizer(ours, "tiktoken", tmp_path / "my encoding")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "my encoding" / "encoding.py")],
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    assert done.stdout == f"{ours.encode('Once upon a time')} Once upon a time\n"


def test_the_encoding_has_the_name_of_its_directory(tmp_path):
    export_tokenizer(trained("gpt2"), "tiktoken", tmp_path / "mine")
    encoding = runpy.run_path(str(tmp_path / "mine" / "encoding.py"))["load"]()
    assert encoding.name == "mine"
    assert encoding.n_vocab == trained("gpt2").vocab_size


def test_the_check_names_the_version(tmp_path):
    export_tokenizer(trained("partial"), "tiktoken", tmp_path)
    agreement = check_tokenizer(trained("partial"), "tiktoken", tmp_path)
    assert agreement.runtime == f"tiktoken {tiktoken.__version__}"


AB, BC = (b"a", b"b"), (b"b", b"c")
REFUSED = {
    "falling ids": (
        lambda: Tokenizer(
            {**{i: bytes([i]) for i in range(256)}, 300: b"ab", 299: b"cd"},
            [AB, (b"c", b"d")],
        ),
        r"merge 0 makes b'ab', id 300, and merge 1 b'cd', id 299: .* must rise",
    ),
    "other parts": (
        lambda: byte_tokenizer(merges=[AB, BC, (b"a", b"bc")]),
        r"the merges that make b'abc' cannot be represented by ranks: tiktoken would join "
        r"\[b'ab', b'c'\]",
    ),
    "a token that no merge makes": (
        lambda: Tokenizer({**{i: bytes([i]) for i in range(256)}, 256: b"the"}, []),
        r"token b'the' is made by no merge, but tiktoken would produce it",
    ),
    "a prefix": (
        lambda: byte_tokenizer("<|a", "<|a|>"),
        r"special token b'<\|a\|>' begins with b'<\|a', another one: tiktoken may take either",
    ),
    "a special token that is also ordinary": (
        lambda: byte_tokenizer("ab", merges=[AB]),
        r"special token b'ab' is also a token of ordinary text",
    ),
    "a missing byte": (lambda: Tokenizer({0: b"a"}, []), "has no token for byte 0x00"),
    "another syntax": (
        lambda: byte_tokenizer(pattern=r"\w+|\W"),
        r"uses syntax that may mean something else in tiktoken",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_ranks_cannot_represent_is_refused_before_anything_is_written(tmp_path, name):
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        export_tokenizer(make(), "tiktoken", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tiktoken_gives_different_ids_for_a_refused_merge():
    """With these ranks tiktoken gives different ids: the refused merge is not what it does."""
    tokenizer = byte_tokenizer(merges=[AB, BC, (b"a", b"bc")])
    ranks = {token: i for i, token in tokenizer.vocab.items()}
    theirs = tiktoken.Encoding("", pat_str=r"\S+", mergeable_ranks=ranks, special_tokens={})
    assert theirs.encode("abc") != tokenizer.encode("abc")
    assert tiktoken_ranks(byte_tokenizer(merges=[AB, BC]).vocab, [AB, BC], [])[b"bc"] == 257
