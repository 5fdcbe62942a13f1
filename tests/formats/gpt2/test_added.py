"""The added tokens beside GPT-2's pair of files are read; another way of splitting is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cs336_basics.formats.gpt2.pair import contents
from cs336_basics.tokenizer import AddedToken, Tokenizer
from tests.errors import rejects
from tests.tokenizer.examples import BYTES, END, byte_tokenizer

TEXT = f"the  <mark>  tree<|end|>{END} the"
SIZE = 258
"""Number of tokens in `vocab.json`."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tokenizer = byte_tokenizer(END, merges=[(b"t", b"h")])
    assert tokenizer.vocab_size == SIZE
    write(tmp_path, contents(tokenizer.definition))
    return tmp_path


def write(directory: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (directory / name).write_text(text, encoding="utf-8", newline="")


OLD = {
    "added_tokens.json": {"<mark>": SIZE, "  ": SIZE + 1, "<|end|>": SIZE + 2},
    "special_tokens_map.json": {"bos_token": END, "pad_token": {"content": "<mark>"}},
}
FLAGS = {"special": False, "normalized": False, "lstrip": True, "rstrip": True}
NEW = {
    "tokenizer_config.json": {
        "tokenizer_class": "GPT2Tokenizer",
        "added_tokens_decoder": {
            "257": {"content": END},
            str(SIZE): {"content": "<mark>"} | FLAGS,
            str(SIZE + 1): {"content": "<|end|>", "single_word": True},
        },
    }
}


def test_the_tokens_of_added_tokens_json_have_their_ids_and_roles(directory):
    write(directory, OLD)
    tokenizer = Tokenizer.from_gpt2(directory)
    assert tokenizer.vocab == {**BYTES, 256: b"th", 257: END.encode()} | {
        token_id: token.encode() for token, token_id in OLD["added_tokens.json"].items()
    }
    assert tokenizer.special_tokens == [END, "<mark>"]
    ids = tokenizer.encode(TEXT)
    assert ids == [256, 101, SIZE + 1, SIZE, SIZE + 1, *b"tree", SIZE + 2, 257, 32, 256, 101]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "the    tree<|end|> the"


def test_the_flags_of_tokenizer_config_json_are_kept(directory):
    write(directory, NEW)
    added = set(Tokenizer.from_gpt2(directory).definition.added_tokens)
    assert added == {
        AddedToken(END),
        AddedToken("<mark>", special=False, lstrip=True, rstrip=True),
        AddedToken("<|end|>", single_word=True),
    }


@pytest.mark.parametrize("files", [OLD, NEW], ids=["added_tokens.json", "added_tokens_decoder"])
def test_the_ids_are_those_of_transformers(directory, files):
    transformers = pytest.importorskip("transformers")
    write(directory, files)
    theirs = transformers.GPT2Tokenizer.from_pretrained(str(directory))
    tokenizer = Tokenizer.from_gpt2(directory)
    for text in (TEXT, "a<|end|>b <|end|> <mark>", "   <mark><mark>  "):
        assert tokenizer.encode(text) == theirs.encode(text)


def test_an_added_token_with_the_bytes_of_an_ordinary_token_has_its_own_id(directory):
    write(directory, {"added_tokens.json": {"th": SIZE}})
    tokenizer = Tokenizer.from_gpt2(directory)
    assert tokenizer.encode("tht") == [SIZE, ord("t")]
    assert Tokenizer.from_gpt2(directory, special_tokens=[END]).encode("tht") == [256, ord("t")]


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ({"tokenizer_class": "Qwen2Tokenizer"}, "Qwen2Tokenizer"),
        ({"tokenizer_class": ["GPT2Tokenizer"]}, "tokenizer_class"),
        ({"tokenizer_class": "CodeGenTokenizerFast", "add_prefix_space": True}, "add_prefix_space"),
        ({"add_bos_token": True}, "add_bos_token"),
    ],
)
def test_another_encoding_is_refused_unless_special_tokens_are_given(directory, config, shown):
    write(directory, {"tokenizer_config.json": config})
    with rejects(None, shown, place="tokenizer_config.json"):
        Tokenizer.from_gpt2(directory)
    assert Tokenizer.from_gpt2(directory, special_tokens=[END]).vocab_size == SIZE


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        ("added_tokens.json", [], "an array"),
        ("added_tokens.json", {"<a>": "1"}, "'1'"),
        ("added_tokens.json", {"<a>": SIZE, "<b>": SIZE}, "'<b>'"),
        ("tokenizer_config.json", "{", "JSON"),
        ("tokenizer_config.json", {"added_tokens_decoder": []}, "[]"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": {"content": "<a>"}}}, "'x'"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"300": {}}}, "{}"),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"300": {"content": "<a>", "lstrip": 1}}},
            "lstrip",
        ),
    ],
)
def test_a_malformed_file_is_refused(directory, name, content, shown):
    write(directory, {name: content})
    with rejects(None, shown, place=name):
        Tokenizer.from_gpt2(directory)


def test_an_id_that_another_token_has_is_refused(directory):
    write(directory, {"added_tokens.json": {"<a>": 97}})
    with rejects(None, "b'a'", "<a>", place=directory):
        Tokenizer.from_gpt2(directory)
