"""Mistral's Tekken files have the ids of mistral-common: special tokens first, then ranks."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from cs336_basics.splitting.patterns.named_patterns import GPT2, O200K
from cs336_basics.tokenizer import Tokenizer
from tests.errors import rejects
from tests.formats.exported import chosen_texts, random_texts

tiktoken = pytest.importorskip("tiktoken")

TOKENS = [bytes([byte]) for byte in range(256)]
TOKENS += [b"th", b"the", b" t", b" the", b"  ", b"<s", b"<s>", "é".encode(), b"12", b"unused"]


def tekken(tokens=TOKENS, *, pattern=GPT2, size=None, num_special=30, special=None, **config):
    """Return the content of a file. One token is left out, as in the real files."""
    content = {
        "config": {
            "pattern": pattern,
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": len(tokens) - 1 + num_special if size is None else size,
            "default_num_special_tokens": num_special,
            "version": "v3",
            **config,
        },
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
            for rank, token in enumerate(tokens)
        ],
    }
    if special is not None:
        content["special_tokens"] = [
            {"rank": rank, "token_str": text, "is_control": True}
            for rank, text in enumerate(special)
        ]
    return content


def saved(content, directory, name="tekken.json"):
    path = directory / name
    path.write_text(json.dumps(content), "utf-8")
    return path


@pytest.mark.parametrize("load", [Tokenizer.from_pretrained, Tokenizer.from_tiktoken])
def test_ids_are_those_of_tiktoken_after_the_special_tokens(tmp_path, load):
    ours = load(saved(tekken(), tmp_path, "any name.json"))
    ranks = {token: rank for rank, token in enumerate(TOKENS[:-1])}
    theirs = tiktoken.Encoding("x", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={})
    for text in [*chosen_texts(), *random_texts(12, 100), "the  <s> café 12"]:
        expected = [token_id + 30 for token_id in theirs.encode(text, disallowed_special=())]
        ids = ours.encode(text, allowed_special=())
        assert ids == expected
        assert ours.decode(ids) == text
    assert ours.special_tokens[:3] == ["<unk>", "<s>", "</s>"]
    assert ours.special_tokens[20:] == [f"<SPECIAL_{number}>" for number in range(20, 30)]
    assert ours.encode("<s>") == [1]
    assert len(ours) == len(TOKENS) - 1 + 30


def test_the_special_tokens_of_the_file_are_used(tmp_path):
    ours = Tokenizer.from_tiktoken(saved(tekken(special=["<a>", "<b>"], num_special=3), tmp_path))
    assert ours.special_tokens == ["<a>", "<b>", "<SPECIAL_2>"]
    assert ours.encode("<b>a") == [1, 100]


def test_a_directory_with_the_file_is_read_and_saved(tmp_path):
    saved(tekken(pattern=O200K), tmp_path)
    ours = Tokenizer.from_pretrained(tmp_path)
    assert ours.pattern == "o200k"
    ours.save(tmp_path / "saved")
    assert Tokenizer.from_pretrained(tmp_path / "saved").definition == ours.definition


@pytest.mark.parametrize("given", [{"pattern": "gpt2"}, {"special_tokens": {"<a>": 1}}])
def test_a_pattern_or_special_tokens_beside_those_of_the_file_are_refused(tmp_path, given):
    with rejects(*given):
        Tokenizer.from_tiktoken(saved(tekken(), tmp_path), **given)


def changed(**parts):
    return {**tekken(), **parts}


BAD = [
    tekken(pattern=5),
    tekken(pattern=r"\w+"),
    tekken(size=10**12),
    tekken(size=1000),
    tekken(size=3),
    tekken(num_special=-1),
    tekken(num_special=10**9),
    tekken(num_special=5, special=None),
    tekken(num_special=1, special=["<a>", "<b>"]),
    tekken(special=["<a>", "<a>"]),
    tekken(special=["<a>", ""]),
    tekken([*TOKENS, b"the", b"x"]),
    tekken([*TOKENS[:9], b"", *TOKENS[9:]]),
    tekken(TOKENS[1:]),
    changed(vocab=[{"rank": 0}] * 300),
    changed(vocab=[5] * 300),
    changed(special_tokens=7),
    changed(special_tokens=[7]),
    changed(special_tokens=[{"rank": 5, "token_str": "<a>"}]),
    changed(special_tokens=[{"rank": [], "token_str": "<a>"}]),
]


@pytest.mark.parametrize("index", range(len(BAD)))
def test_a_damaged_file_is_refused_with_its_name(tmp_path, index):
    path = saved(BAD[index], tmp_path)
    for load in (Tokenizer.from_pretrained, Tokenizer.from_tiktoken):
        with rejects(None, place=path):
            load(path)


def test_a_token_that_occurs_twice_is_named(tmp_path):
    path = saved(tekken([*TOKENS, b"the", b"x"]), tmp_path)
    with rejects(None, "token b'the'", place=path):
        Tokenizer.from_tiktoken(path)


def test_the_real_files_of_mistral(tmp_path):
    """Set CS336_TEKKEN to the data directory of an installed mistral-common."""
    paths = sorted(Path(os.environ.get("CS336_TEKKEN", "/nowhere")).glob("tekken_*.json"))
    if not paths:
        pytest.skip("needs tekken_*.json: set CS336_TEKKEN to mistral_common/data")
    for path in paths:
        ours = Tokenizer.from_pretrained(path)
        content = json.loads(path.read_text("utf-8"))
        config = content["config"]
        number = config["default_num_special_tokens"]
        ranks = {
            base64.b64decode(item["token_bytes"]): item["rank"]
            for item in content["vocab"][: config["default_vocab_size"] - number]
        }
        theirs = tiktoken.Encoding(
            "x", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={}
        )
        for text in [*chosen_texts(), *random_texts(13, 200)]:
            expected = [token_id + number for token_id in theirs.encode_ordinary(text)]
            assert ours.encode(text, allowed_special=()) == expected
