"""Exported as GPT-2's pair of files, a tokenizer gives the same ids in what reads such pairs."""

from __future__ import annotations

import json

import pytest

from cs336_basics.formats import check_tokenizer, export_tokenizer
from cs336_basics.tokenizer import Tokenizer
from tests.formats.exported import SPECIAL, byte_tokenizer, chosen_texts, random_texts, trained

tokenizers = pytest.importorskip("tokenizers")


def test_texts_get_equal_ids_in_tokenizers(tmp_path):
    ours = trained("gpt2")
    export_tokenizer(ours, "gpt2", tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["merges.txt", "vocab.json"]
    theirs = tokenizers.ByteLevelBPETokenizer(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    )
    theirs.add_special_tokens([tokenizers.AddedToken(token, normalized=False) for token in SPECIAL])
    for text in [*chosen_texts(), *random_texts(3, 1000)]:
        assert theirs.encode(text).ids == ours.encode(text), text


def test_the_check_loads_the_pair_in_tokenizers(tmp_path):
    export_tokenizer(trained("gpt2"), "gpt2", tmp_path)
    agreement = check_tokenizer(trained("gpt2"), "gpt2", tmp_path)
    assert agreement.runtime == f"tokenizers {tokenizers.__version__}"
    assert agreement.lines[0].startswith("ids equal on 25 texts")


def test_special_tokens_are_plain_text_in_vocab_json(tmp_path):
    tokenizer = byte_tokenizer("<|end of text|>", "猫", merges=[(b" ", b"t")])
    export_tokenizer(tokenizer, "gpt2", tmp_path)
    strings = json.loads((tmp_path / "vocab.json").read_text("utf-8"))
    assert strings["<|end of text|>"] == 257
    assert strings["猫"] == 258
    assert strings["Ġt"] == 256
    assert strings["Ġ"] == 32


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (byte_tokenizer(pattern="cl100k"), "readers of vocab.json and merges.txt split as GPT-2"),
        (byte_tokenizer("<é>"), "its character 'é' would be decoded as a byte"),
        (Tokenizer({0: b"a"}, []), "has no token for byte 0x00"),
    ],
)
def test_what_the_pair_cannot_hold_is_refused(tmp_path, tokenizer, message):
    with pytest.raises(ValueError, match=message):
        export_tokenizer(tokenizer, "gpt2", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_older_metadata_file_is_removed(tmp_path):
    """Else the directory would look like a tokenizer directory whose files do not fit."""
    byte_tokenizer().save(tmp_path)
    export_tokenizer(trained("gpt2"), "gpt2", tmp_path, overwrite=True)
    assert not (tmp_path / "metadata.json").exists()
    assert Tokenizer.from_gpt2(tmp_path).vocab == trained("gpt2").vocab
