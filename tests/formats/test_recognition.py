"""A file or directory of another kind is named, with the method that reads it or why none does."""

from __future__ import annotations

import json

import pytest

from cs336_basics._support.errors import InputError
from cs336_basics.formats import export_tokenizer
from cs336_basics.tokenizer import Tokenizer
from tests.errors import rejects
from tests.formats.exported import trained
from tests.tokenizer.examples import small_tokenizer

SENTENCEPIECE = b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\n\x0c\n\x03<s>\x15\0\0\0\0\x18\x03\n\x08"
WORDPIECE = b"[PAD]\n[unused1]\n[UNK]\n[CLS]\n[SEP]\nthe\n##s\n"
RANKS = b"AA== 0\nAQ== 1\nAg== 2\n"
MERGES = "#version: 0.2\nĠ t\nĠ a\n".encode()
BPE = {"type": "BPE", "vocab": {}, "merges": []}

FILES = {
    "sentencepiece": (SENTENCEPIECE, ["SentencePiece", "sentencepiece"]),
    "wordpiece": (WORDPIECE, ["WordPiece"]),
    "ranks": (RANKS, ["from_tiktoken", "pattern"]),
    "merges": (MERGES, ["from_gpt2"]),
    "pickle": (b"\x80\x04abc", ["pickle"]),
    "gguf": (b"GGUF\x03\0\0\0", ["llama.cpp"]),
    "config of a tokenizer": (b'{"tokenizer_class": "X"}', ["tokenizer.json"]),
    "config of a model": (b'{"model_type": "llama"}', ["tokenizer.json"]),
    "vocab.json": (json.dumps({chr(i): i for i in range(300)}).encode(), ["from_gpt2"]),
    "BERT": (json.dumps({"model": {"type": "WordPiece"}, "normalizer": {"type": "BertNormalizer"},
                         "post_processor": {"type": "Other"}}).encode(), ["WordPiece"]),
    "T5": (json.dumps({"model": {"type": "Unigram", "vocab": []}, "normalizer": {"type": "Other"}}
                      ).encode(), ["Unigram", "T5"]),
    "Llama 2": (json.dumps({"model": {**BPE, "byte_fallback": True}, "normalizer": {
                            "type": "Sequence", "normalizers": [{"type": "Prepend"}]}}).encode(),
                ["byte_fallback", "SentencePiece"]),
    "CLIP": (json.dumps({"model": {**BPE, "end_of_word_suffix": "</w>"}, "normalizer": {
                         "type": "Lowercase"}}).encode(), ["end_of_word_suffix", "CLIP"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("load", [Tokenizer.from_pretrained, Tokenizer.from_huggingface])
def test_a_file_of_another_kind_is_named(tmp_path, kind, load):
    content, shown = FILES[kind]
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "ignore=" not in message
    for text in shown:
        assert text in message


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece", "merges", "pickle"])
def test_a_file_that_is_not_a_rank_file_is_named(tmp_path, kind):
    content, shown = FILES[kind]
    (tmp_path / "x.model").write_bytes(content)
    with rejects(None, shown[0]):
        Tokenizer.from_tiktoken(tmp_path / "x.model", pattern="gpt2")


LOADERS = {
    "from_pretrained": Tokenizer.from_pretrained,
    "from_gpt2": Tokenizer.from_gpt2,
    "from_tiktoken": Tokenizer.from_tiktoken,
}

DIRECTORIES = {
    "tokenizer.json": ("huggingface", "from_pretrained"),
    "vocab.json and merges.txt": ("gpt2", "from_gpt2"),
    "export for tiktoken": ("tiktoken", "from_tiktoken"),
}


@pytest.mark.parametrize("name", DIRECTORIES)
@pytest.mark.parametrize("loader", LOADERS)
def test_a_directory_is_read_or_the_error_names_the_method_that_reads_it(tmp_path, name, loader):
    to, reader = DIRECTORIES[name]
    export_tokenizer(trained("gpt2"), to, tmp_path)
    if loader == reader:
        assert LOADERS[loader](tmp_path).merges == trained("gpt2").merges
        return
    with rejects(None, name) as caught:
        LOADERS[loader](tmp_path)
    assert f"Tokenizer.{reader}(" in str(caught.value)
    assert "train-bpe" not in str(caught.value)


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece", "ranks"])
@pytest.mark.parametrize("loader", LOADERS)
def test_the_only_file_of_a_directory_is_named(tmp_path, kind, loader):
    content, shown = FILES[kind]
    name = {"wordpiece": "vocab.txt"}.get(kind, "tokenizer.model")
    (tmp_path / name).write_bytes(content)
    with rejects(None, shown[0]) as caught:
        LOADERS[loader](tmp_path)
    assert name in str(caught.value)
    assert "train-bpe" not in str(caught.value)


def test_a_file_of_ranks_needs_a_pattern(tmp_path):
    path = tmp_path / "tokenizer.model"
    path.write_bytes(b"\n".join(b"%b %d" % (_base64(i), i) for i in range(256)))
    assert Tokenizer.from_tiktoken(path, pattern="gpt2").encode("a") == [97]


def _base64(byte: int) -> bytes:
    import base64

    return base64.b64encode(bytes([byte]))


def test_a_run_is_pointed_to_its_tokenizer(tmp_path):
    small_tokenizer().save(tmp_path / "run" / "tokenizer")
    for load in (Tokenizer.from_directory, Tokenizer.from_pretrained):
        with rejects(None, f"pass {tmp_path / 'run' / 'tokenizer'}", place=tmp_path / "run"):
            load(tmp_path / "run")
