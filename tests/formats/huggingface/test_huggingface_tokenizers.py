"""Exported to Hugging Face, a tokenizer gives the same ids, text and offsets there."""

from __future__ import annotations

import random

import pytest

from cs336_basics.formats import check_tokenizer, export_tokenizer
from cs336_basics.formats.gpt2.vocab_files import load_merges, load_vocab
from cs336_basics.formats.huggingface import huggingface_tokenizers as exports
from cs336_basics.tokenizer import Tokenizer
from tests.formats.exported import (
    PATTERNS,
    SPECIAL,
    byte_tokenizer,
    chosen_texts,
    random_texts,
    trained,
)
from tests.tokenizer.examples import CORPORA, END, data_file
from tests.tokenizer.test_peer_agreement import (
    characters_without_differences,
    without_differences,
)

tokenizers = pytest.importorskip("tokenizers")

EVERY_PATTERN = pytest.mark.parametrize("pattern", PATTERNS)


def loaded(tokenizer, directory):
    export_tokenizer(tokenizer, "huggingface", directory)
    return tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Name of a pattern -> our tokenizer, and the exported one as tokenizers loads it."""
    return {
        name: (trained(name), loaded(trained(name), tmp_path_factory.mktemp("export") / name))
        for name in PATTERNS
    }


def assert_equal(ours, theirs, text):
    ids, offsets = ours.encode_with_offsets(text)
    found = theirs.encode(text)
    assert found.ids == ids, text
    assert found.offsets == offsets, text
    assert theirs.decode(ids, skip_special_tokens=False) == ours.decode(ids), text


@EVERY_PATTERN
def test_chosen_texts_get_equal_ids_text_and_offsets(exported, pattern):
    for text in chosen_texts():
        assert_equal(*exported[pattern], text)


@EVERY_PATTERN
def test_random_texts_get_equal_ids_text_and_offsets(exported, pattern):
    for text in random_texts(0, 200):
        assert_equal(*exported[pattern], text)


@EVERY_PATTERN
def test_every_character_gets_the_same_ids_in_every_context(exported, pattern):
    ours, theirs = exported[pattern]
    # Before and after an apostrophe, a letter, a number, white space and punctuation.
    characters = characters_without_differences()
    text = "".join(f"'{c}s 's{c}1{c}\n{c}." for c in characters[:: 29 if pattern == "gpt2" else 97])
    assert theirs.encode(text).ids == ours.encode(text)


@pytest.mark.slow
@EVERY_PATTERN
@pytest.mark.parametrize("seed", range(5))
def test_50_000_random_texts_get_equal_ids_text_and_offsets(exported, pattern, seed):
    number = 50_000 if pattern == "gpt2" else 5_000
    for text in random_texts(seed + 1, number // 5):
        assert_equal(*exported[pattern], text)


@pytest.mark.parametrize("name", CORPORA)
@EVERY_PATTERN
def test_slices_of_real_text_get_equal_ids_text_and_offsets(exported, pattern, name):
    for text in slices(name, 2, 30_000):
        assert_equal(*exported[pattern], text)


def slices(name, number, size):
    chooser = random.Random(name)
    path = data_file(f"{name}.txt")
    with open(path, "rb") as file:
        for _ in range(number):
            file.seek(chooser.randrange(path.stat().st_size))
            yield without_differences(file.read(size).decode("utf-8", errors="replace"))


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    vocab = load_vocab(data_file("gpt2_vocab.json"))
    merges = load_merges(data_file("gpt2_merges.txt"))
    ours = Tokenizer(vocab, merges, [END])
    return ours, loaded(ours, tmp_path_factory.mktemp("gpt2"))


@pytest.mark.parametrize("name", CORPORA)
def test_real_text_gets_equal_ids_text_and_offsets_with_the_vocabulary_of_gpt2(gpt2, name):
    for text in slices(name, 2, 30_000):
        assert_equal(*gpt2, text)


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_whole_corpora_get_equal_ids(exported, gpt2, name):
    with open(data_file(f"{name}.txt"), "rb") as file:
        text = without_differences(file.read(20_000_000).decode("utf-8", errors="replace"))
    for ours, theirs in [*exported.values(), gpt2]:
        for start in range(0, len(text), 500_000):
            part = text[start : start + 500_000]
            same = theirs.encode(part).ids == ours.encode(part)  # too long for pytest to explain
            assert same, (name, start)


@EVERY_PATTERN
def test_autotokenizer_gives_equal_ids_and_names_the_special_tokens(tmp_path, pattern):
    transformers = pytest.importorskip("transformers")
    ours = trained(pattern)
    export_tokenizer(ours, "huggingface", tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert theirs.is_fast
    assert (theirs.eos_token, theirs.pad_token, theirs.bos_token) == (END, END, None)
    assert theirs.eos_token_id == ours.special_token_id(END)
    assert set(theirs.all_special_tokens) >= {END}
    assert len(theirs) == ours.vocab_size
    for text in chosen_texts():
        ids = ours.encode(text)
        assert theirs(text)["input_ids"] == ids
        assert theirs.decode(ids) == ours.decode(ids)


def test_ids_with_gaps_are_kept(tmp_path):
    vocab = {byte + (byte >= 100) * 7: bytes([byte]) for byte in range(256)}
    vocab |= {300: b"th", 500: END.encode(), 1000: b"the"}
    ours = Tokenizer(vocab, [(b"t", b"h"), (b"th", b"e")], [END])
    assert_equal(ours, loaded(ours, tmp_path), f"then the{END} x")


def test_a_tokenizer_without_special_tokens_is_exported(tmp_path):
    transformers = pytest.importorskip("transformers")
    ours = byte_tokenizer()
    assert_equal(ours, loaded(ours, tmp_path), f"é {END}")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert (theirs.eos_token, theirs.pad_token) == (None, None)
    assert theirs(f"é {END}")["input_ids"] == ours.encode(f"é {END}")


REFUSED = [
    (lambda: byte_tokenizer("<é>"), r"special token '<é>' cannot be exported: its character 'é'"),
    (lambda: byte_tokenizer("Ġthe", merges=[(b" ", b"t")]), "its character 'Ġ' would be decoded"),
    (lambda: byte_tokenizer(" t", merges=[(b" ", b"t")]), "' t' cannot be exported: it is also"),
    (lambda: byte_tokenizer(" "), "' ' cannot be exported: it is also a token of ordinary text"),
    (lambda: Tokenizer({0: b"a", 1: b"b"}, []), "has no token for byte 0x00"),
    (lambda: byte_tokenizer(pattern=r"\w+|\W"), "uses syntax that may mean something else in Hug"),
    (lambda: byte_tokenizer(pattern=r"[^ ]+|\s+$"), "uses syntax that may mean something else"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_the_format_cannot_represent_is_refused_before_anything_is_written(
    tmp_path, make, message
):
    with pytest.raises(ValueError, match=message):
        export_tokenizer(make(), "huggingface", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_check_finds_another_tokenizer(tmp_path):
    export_tokenizer(trained("gpt2"), "huggingface", tmp_path)
    with pytest.raises(RuntimeError, match="gives different ids for the text"):
        check_tokenizer(trained("cl100k"), "huggingface", tmp_path)


def test_the_check_uses_tokenizers_where_transformers_is_not_installed(tmp_path, monkeypatch):
    def missing(*_):
        raise ImportError("No module named 'transformers'")

    export_tokenizer(trained("gpt2"), "huggingface", tmp_path)
    monkeypatch.setattr(exports, "_check_transformers", missing)
    agreement = check_tokenizer(trained("gpt2"), "huggingface", tmp_path)
    assert agreement.runtime == f"tokenizers {tokenizers.__version__}"
    assert agreement.lines[0].startswith("ids equal on 25 texts, ")


def test_files_that_autotokenizer_would_mix_in_are_removed(tmp_path):
    transformers = pytest.importorskip("transformers")
    ours = trained("gpt2")
    ours.save(tmp_path)  # vocab.json and merges.txt
    (tmp_path / "added_tokens.json").write_text('{"<|other|>": 3}')
    (tmp_path / "notes.txt").write_text("mine")
    export_tokenizer(ours, "huggingface", tmp_path, overwrite=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "metadata.json", "notes.txt", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert theirs("a<|other|>")["input_ids"] == ours.encode("a<|other|>")


def test_special_tokens_are_found_by_their_names(exported):
    ours, theirs = exported["gpt2"]
    assert {token: theirs.token_to_id(token) for token in SPECIAL} == {
        token: ours.special_token_id(token) for token in SPECIAL
    }
