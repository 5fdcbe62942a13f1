"""Test that every loader either loads a damaged file or raises a short ValueError or OSError."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import os
import random
import re
import time
import tracemalloc
import warnings

import pytest

pytest.importorskip("torch")

from cs336_basics.commands._cli import complain, describe_error
from cs336_basics.data.preparation_record import Stages
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import config_to_yaml, load_config
from tests.artifacts import KINDS, Artifact
from tests.formats.huggingface.random_files import random_file

MAX_SECONDS = 5
MAX_BYTES = 30_000_000
"""Maximum memory of Python objects, in bytes. The files are at most about 50 KB each."""

SPECIAL_NUMBERS = [b"NaN", b"Infinity", b"-1", b"1e999", b"9" * 400, b"1" + b"0" * 5000, b"true"]
SPECIAL_VALUES = [b"null", b'""', b"[]", b"{}", b'"\\ud800"', b'"' + b"x" * 5000 + b'"', b"[" * 500,
                  rb'"\u001b]0;title\u0007\u202e"', '"\x1b[31m\u202e\x9b"'.encode(),
                  b'"\\e[31m\\L"']  # fmt: skip
"""The last ones are strings with escape sequences, in JSON and YAML."""

CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def write_record(path, version):
    path.mkdir(exist_ok=True)
    (path / "text.txt").write_text("text")
    record = {"a": {"inputs": {"x": version}, "sha256": "0" * 64}}
    (path / "stages.json").write_text(json.dumps(record))


def run_stage(path):
    stages = Stages(path, str)
    with contextlib.suppress(ValueError):  # the damaged record lists other inputs
        stages.run("a", {"x": 1}, [path / "text.txt"], lambda: None)


def write_huggingface(path, version):
    """Write a tokenizer.json of another library that has all parts."""
    content = random_file(random.Random(version))
    token_id = content["model"]["vocab"]["a"]
    content["added_tokens"] = [{"id": len(content["model"]["vocab"]), "content": "<m>",
                                "lstrip": True, "special": False}]  # fmt: skip
    content["normalizer"] = {"type": "NFC"}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "[0-9]"}, "behavior": "MergedWithNext"},
        {"type": "ByteLevel", "use_regex": False}]}  # fmt: skip
    content["post_processor"] = {"type": "BertProcessing", "cls": ["a", token_id],
                                 "sep": ["a", token_id]}  # fmt: skip
    path.mkdir(exist_ok=True)
    # On separate lines, a damaged part is more often a valid file.
    (path / "tokenizer.json").write_text(json.dumps(content, separators=(",\n", ": ")), "utf-8")


def write_own(path, version):
    """Write a tokenizer.json that only this library reads, with all parts."""
    write_huggingface(path, version)
    definition = Tokenizer.from_pretrained(path).definition
    vocab = {i: token for i, token in definition.vocab.items() if token != b"\x00"}
    Tokenizer.of(definition.replaced(vocab=vocab)).save(path)


def write_tekken(path, version):
    config = {"pattern": r"\p{L}+|[\s\S]", "default_vocab_size": 257 + version,
              "default_num_special_tokens": version}  # fmt: skip
    tokens = [*(bytes([byte]) for byte in range(256)), b"ab"]
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode()}
        for rank, token in enumerate(tokens)
    ]
    path.mkdir(exist_ok=True)
    (path / "tekken.json").write_text(
        json.dumps({"config": config, "vocab": vocab, "special_tokens": [
            {"rank": 0, "token_str": "<s>"}]}, separators=(",\n", ": "))
    )  # fmt: skip


LOADED = {
    **KINDS,
    "tokenizer of Hugging Face": Artifact(write_huggingface, Tokenizer.from_pretrained),
    "tokenizer of this library": Artifact(write_own, Tokenizer.from_directory),
    "Tekken": Artifact(write_tekken, Tokenizer.from_pretrained),
    "configuration": Artifact(
        lambda path, version: path.write_text(config_to_yaml(TrainConfig())), load_config
    ),
    "record of the preparation": Artifact(write_record, run_stage),
}
UNREAD = {"README.md", "encoding.py", "generation_config.json", "tokenizer_config.json",
          "training.json", "artifact.txt", "text.txt", "tokens.txt", "tokens.npy"}  # fmt: skip
"""Files that are only written, or from which an artifact is made."""


def write_files(directory):
    """Write a file of each kind, and return a mapping from each file to the function to load it."""
    loaders = {}
    for name, kind in LOADED.items():
        path = directory / name / "artifact"
        path.parent.mkdir()
        for version in (1, 2):
            kind.write(path, version)
        for file in sorted(path.parent.rglob("*")):
            if file.is_file() and file.name not in UNREAD:
                loaders[file] = functools.partial(kind.load, path)
    return loaders


def mutated(content, chooser):
    """Return a file's content after damaging it in one to three random ways."""
    content = bytearray(content)
    for _ in range(chooser.randint(1, 3)):
        start = chooser.randrange(len(content) + 1)
        size = chooser.choice([1, 1, 2, 8, 60])
        kind = chooser.randrange(7)
        if kind == 0 and content:
            content[start % len(content)] ^= 1 << chooser.randrange(8)
        elif kind == 1:
            content[start : start + size] = chooser.randbytes(size)
        elif kind == 2:
            del content[start : start + size]
        elif kind == 3:
            content[start:start] = content[max(0, start - size) : start] * chooser.choice([1, 50])
        elif kind == 4:
            content[start:] = b""
        elif kind == 5:
            replace_value(content, chooser)
        else:
            content[start:start] = chooser.choice(
                [b"\x00", b"\xff", b"\n", b"*a", b"&a ", b'"', b"[{"]
            )
    return bytes(content)


def replace_value(content, chooser):
    """Replace a random number or string in a text file with an unusual value."""
    found = list(re.finditer(rb'-?\d+(\.\d+)?|"[^"\n]*"', bytes(content)))
    if found:
        match = chooser.choice(found)
        content[match.start() : match.end()] = chooser.choice(SPECIAL_NUMBERS + SPECIAL_VALUES)


def load_damaged(loaders, chooser):
    """Damage a random file, load it and check the error, if any. Return whether there was one."""
    path, load = chooser.choice(list(loaders.items()))
    whole = path.read_bytes()
    path.write_bytes(mutated(whole, chooser))
    try:
        return is_refused(path, load)
    finally:
        path.write_bytes(whole)


def is_refused(path, load):
    """Load a file and check the error, the time and the memory. Return whether it is refused.

    `tracemalloc` must be running.
    """
    start = time.perf_counter()
    tracemalloc.reset_peak()
    try:
        load()
        return False
    except (ValueError, OSError) as error:
        message = str(error)
        assert "\n" not in message.strip(), message
        assert len(message) < 1000, message
        assert path.name in message or path.parent.name in message, message
        controls = CONTROLS.findall(printed(error))
        assert not controls, message
        return True
    except RuntimeError as error:
        # torch raises RuntimeError for valid weights from a different model.
        if path.suffix != ".safetensors" and "checkpoint" not in path.parent.name:
            raise AssertionError from error
        return True
    finally:
        assert time.perf_counter() - start < MAX_SECONDS, path.read_bytes()
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES, path.read_bytes()


def printed(error):
    """Return what a command prints for an error."""
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        complain(describe_error(error))
    return stderr.getvalue()


def damage_files(tmp_path, seed, seconds):
    # All messages name the file, so all of them contain the escape sequence of its directory.
    directory = tmp_path if os.name == "nt" else tmp_path / "a\x1b]0;title\x07\u202e"
    directory.mkdir(exist_ok=True)
    loaders = write_files(directory)
    for load in loaders.values():
        load()
    chooser = random.Random(seed)
    end, number, refused = time.perf_counter() + seconds, 0, 0
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while time.perf_counter() < end or number < 50:
                refused += load_damaged(loaders, chooser)
                number += 1
    except BaseException as error:
        error.args = (*error.args, f"seed {seed}, file {number}")
        raise
    finally:
        tracemalloc.stop()
    assert refused > number // 3
    return number


def test_damaged_files_are_loaded_or_raise_a_short_error(tmp_path):
    damage_files(tmp_path, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_damaged_files_are_loaded_or_raise_a_short_error(tmp_path, seed):
    damage_files(tmp_path, seed, 60)
