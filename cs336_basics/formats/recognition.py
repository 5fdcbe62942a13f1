"""Recognize files of tokenizers by their content, to say which method reads them, or why none does.

The functions return or raise an InputError, because they are asked only when a loader has got a
file that it does not read.
"""

from __future__ import annotations

import os
import re
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import open_regular

_START = 4096
"""Number of bytes that are read from the start of a file."""

# A SentencePiece model is a protobuf message that starts with pieces: field 1, their length, and
# their text (field 1), length and score (field 2, a float).
_SENTENCEPIECE = re.compile(rb"\n[\x02-\x7f]\n[\x01-\x7f].{1,127}?\x15", re.DOTALL)
_RANK_LINE = re.compile(rb"\s*[A-Za-z0-9+/]*={0,2} \d{1,10}\s*(\n|\Z)")
_PLAN = "tokenizers of this kind do not split text into bytes, so this library does not read them"
_FROM_PAIR = "pass its directory to Tokenizer.from_gpt2, or both files to Tokenizer.from_files"
_FROM_TOKENIZER_JSON = "pass the tokenizer.json beside it"

_MODELS = {
    "WordPiece": "BERT's WordPiece",
    "Unigram": "a Unigram model of SentencePiece, such as T5's",
    "WordLevel": "a list of whole words",
}
"""Types of models other than BPE."""


def check_model_type(model: dict[str, Any]) -> None:
    """Raise ValueError unless the model of a `tokenizer.json` is byte-level byte-pair encoding."""
    kind = model.get("type", "BPE")
    if kind != "BPE":
        name = _MODELS.get(kind) if isinstance(kind, str) else None
        described = f"{name} ({kind})" if name else f"of type {short_repr(kind)}"
        raise InputError(
            f"the model's type must be BPE, but this tokenizer is {described}; {_PLAN}"
        )
    if model.get("byte_fallback"):
        raise InputError(
            "the model's byte_fallback is not supported: it is SentencePiece's byte-pair encoding, "
            "such as Llama 2's, whose tokens are characters; only bytes without a character token "
            "become bytes"
        )
    if suffix := model.get("end_of_word_suffix"):
        raise InputError(
            f"the model's end_of_word_suffix {short_repr(suffix)} is not supported: tokens would "
            "have a suffix at the end of words, as in CLIP's and GPT-1's tokenizers"
        )


def is_rank_file(content: bytes) -> bool:
    """Return whether a file starts with lines of a rank file of tiktoken."""
    first = content[:_START].splitlines()[:3]
    return bool(first) and all(map(_RANK_LINE.match, first))


def is_tekken(content: Any) -> bool:
    """Return whether the content of a JSON file has Tekken's layout."""
    return (
        isinstance(content, dict)
        and isinstance(content.get("config"), dict)
        and isinstance(content.get("vocab"), list)
        and "pattern" in content["config"]
    )


def recognized_content(content: bytes, path: str | os.PathLike[str]) -> InputError | None:
    """Return an error about a file that is not JSON, or None if it may be JSON or is unknown."""
    kind, remedy = _kind_of(content[:_START])
    return InputError(f"this is {kind}", place=str(path), remedy=remedy) if kind else None


def recognized_directory(directory: str | os.PathLike[str]) -> InputError | None:
    """Return an error about a directory, for a loader that does not read it, or None."""
    directory = os.fspath(directory)
    if not os.path.isdir(directory):
        return None
    with os.scandir(directory) as entries:
        names = {entry.name for entry in entries if entry.is_file()}
    for name in ("tokenizer.json", "tekken.json"):
        if name in names:
            return InputError(
                f"this directory contains a {name}",
                place=directory,
                remedy=f"read it with Tokenizer.from_pretrained({directory!r})",
            )
    for pair in (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")):
        if names.issuperset(pair):
            return InputError(
                f"this directory contains GPT-2's pair of files, {' and '.join(pair)}",
                place=directory,
                remedy=f"read it with Tokenizer.from_gpt2({directory!r})",
            )
    if {"ranks.tiktoken", "encoding.json"} <= names:
        return InputError(
            "this directory is an export for tiktoken",
            place=directory,
            remedy=f"read it with Tokenizer.from_tiktoken({directory!r})",
        )
    inside = os.path.join(directory, "tokenizer")
    if os.path.isfile(os.path.join(inside, "tokenizer.json")):
        return InputError(
            "this directory contains no tokenizer, but a directory with one, as a run does",
            place=directory,
            remedy=f"pass {inside}",
        )
    likely = [name for name in sorted(names) if name.endswith((".model", ".tiktoken", ".json"))]
    likely += names & {"vocab.txt"}
    for name in likely:
        with open_regular(os.path.join(directory, name)) as file:
            kind, remedy = _kind_of(file.read(_START))
        if kind:
            return InputError(f"this is {kind}", place=os.path.join(directory, name), remedy=remedy)
    return None


def _kind_of(start: bytes) -> tuple[str, str]:
    """Return what a file is, and what to do, or two empty strings."""
    if start[:1] == b"\x80":
        return "a pickle, which could run code", "convert it with the library that wrote it"
    if start[:4] == b"GGUF":
        return "a model of llama.cpp", "pass the tokenizer.json of the model that it was made from"
    if _SENTENCEPIECE.match(start):
        return (
            "a SentencePiece model, whose tokens are characters, so this library does not read it",
            "use the sentencepiece package",
        )
    lines = start.splitlines()
    if b"[UNK]" in lines or (b"[PAD]" in lines and b"[CLS]" in lines):
        return f"the vocab.txt of BERT's WordPiece; {_PLAN}", "use the tokenizers package"
    if start.lstrip()[:1] in (b"{", b"["):
        return "", ""
    if start.startswith(b"#version:"):
        return (
            "the merges.txt of GPT-2's pair of files",
            _FROM_PAIR,
        )
    if is_rank_file(start):
        return (
            "a rank file of tiktoken",
            "read it with Tokenizer.from_tiktoken(path, special_tokens, pattern=...)",
        )
    return "", ""


def check_is_tokenizer_json(content: dict[str, Any]) -> None:
    """Raise ValueError if a JSON file without a model is another known file."""
    if isinstance(content.get("model"), dict):
        return
    if "tokenizer_class" in content:
        raise InputError(
            "the file is a tokenizer_config.json, which has no vocabulary",
            remedy=_FROM_TOKENIZER_JSON,
        )
    if "architectures" in content or "model_type" in content:
        raise InputError("the file is the config.json of a model", remedy=_FROM_TOKENIZER_JSON)
    if len(content) >= 256 and all(type(value) is int for value in content.values()):
        raise InputError(
            "the file is the vocab.json of GPT-2's pair of files",
            remedy=_FROM_PAIR,
        )
