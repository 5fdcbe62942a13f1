"""Exported tokenizers give the same ids in the other library, and can be imported again."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re

import pytest

from cs336_basics._support.errors import InputTypeError, OutputExistsError, RunError
from cs336_basics.formats import (
    MODEL_FORMATS,
    TOKENIZER_FORMATS,
    check_model,
    check_tokenizer,
    export_model,
    export_tokenizer,
    export_tokens,
)
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.encoders.backends import BACKENDS
from tests.errors import rejects
from tests.formats.exported import (
    PATTERNS,
    PUBLISHED,
    READERS,
    chosen_texts,
    damaged,
    random_texts,
    trained,
)
from tests.formats.models import random_model
from tests.tokenizer.examples import (
    CORPORA,
    END,
    byte_tokenizer,
    data_file,
    skip_unless_available,
)
from tests.tokenizer.test_reference import without_differences

TINY = {"context_length": 16, "d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 24}

EVERY_FORMAT = pytest.mark.parametrize("to", TOKENIZER_FORMATS)

NAMES = [*PATTERNS, PUBLISHED]


def fits(pattern, *formats):
    """Return whether the formats support a pattern: gpt2 has only one, and tiktoken drops text."""
    is_partial = pattern == "partial" and "tiktoken" in formats
    return not is_partial and (pattern in ("gpt2", PUBLISHED) or "gpt2" not in formats)


ROUTES = [route for route in itertools.product(PATTERNS, READERS, READERS) if fits(*route)]
EVERY_PATTERN = pytest.mark.parametrize(
    ("pattern", "to"), [pair for pair in itertools.product(NAMES, TOKENIZER_FORMATS) if fits(*pair)]
)


@pytest.mark.parametrize(("pattern", "first", "second"), ROUTES)
def test_a_tokenizer_survives_every_pair_of_formats(tmp_path, pattern, first, second):
    tokenizer = trained(pattern)
    for number, name in enumerate((first, second)):
        export_tokenizer(tokenizer, name, tmp_path / str(number))
        tokenizer = READERS[name](tmp_path / str(number))
    assert tokenizer.hash() == trained(pattern).hash()


@pytest.mark.parametrize("to", READERS)
def test_a_tokenizer_without_special_tokens_can_be_imported_again(tmp_path, to):
    tokenizer = byte_tokenizer(merges=[(b"a", b"b"), (b"ab", b"c")])
    export_tokenizer(tokenizer, to, tmp_path)
    assert READERS[to](tmp_path).hash() == tokenizer.hash()


def runtime_of(tokenizer, to, directory):
    """Export a tokenizer. Return the other library's encode function."""
    export_tokenizer(tokenizer, to, directory)
    try:
        return TOKENIZER_FORMATS[to]().runtime(directory, tokenizer.special_tokens)[1]
    except ImportError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("number", [150, pytest.param(50_000, marks=pytest.mark.slow)])
@EVERY_PATTERN
def test_the_other_library_gives_equal_ids(tmp_path, pattern, to, number):
    encode = runtime_of(trained(pattern), to, tmp_path)
    for text in [*chosen_texts(), *random_texts(number, number)]:
        assert encode(text) == trained(pattern).encode(text), text


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", PUBLISHED])
def test_every_backend_gives_the_ids_of_tiktoken(tmp_path, pattern, backend):
    encode = runtime_of(trained(pattern), "tiktoken", tmp_path)
    tokenizer = Tokenizer.of(trained(pattern).definition, backend=skip_unless_available(backend))
    for text in [*chosen_texts(), *random_texts(3, 100)]:
        ids = encode(text)
        assert tokenizer.encode(text) == ids, text
        assert tokenizer.decode(ids) == text


@pytest.mark.slow
@EVERY_PATTERN
@pytest.mark.parametrize("name", CORPORA)
def test_whole_corpora_have_equal_ids(tmp_path, pattern, to, name):
    with open(data_file(f"{name}.txt"), "rb") as file:
        text = without_differences(file.read(20_000_000).decode("utf-8", errors="replace"))
    encode = runtime_of(trained(pattern), to, tmp_path)
    for start in range(0, len(text), 500_000):
        part = text[start : start + 500_000]
        same = encode(part) == trained(pattern).encode(part)
        assert same, start  # pytest would take too long to explain a difference


@EVERY_FORMAT
def test_a_damaged_export_of_a_tokenizer_raises_expected_errors_only(tmp_path, to):
    runtime_of(trained("gpt2"), to, tmp_path)  # skips the test if the library is missing
    for file in sorted(tmp_path.iterdir()):
        content = file.read_bytes()
        for bad in (b"", b"\xff\x00", b"[1]", content[: len(content) // 2]):
            file.write_bytes(bad)
            with contextlib.suppress(RuntimeError, OSError):
                check_tokenizer(trained("gpt2"), to, tmp_path)
        file.write_bytes(content)


@pytest.mark.parametrize("to", ["huggingface", "gguf"])  # for ONNX, see test_onnx_models.py
def test_a_damaged_export_of_a_model_raises_expected_errors_only(tmp_path, to):
    pytest.importorskip({"huggingface": "transformers", "gguf": "gguf"}[to])
    tokenizer = byte_tokenizer(END, merges=[(b"a", b"b")])
    model = random_model(vocab_size=tokenizer.vocab_size, **TINY)
    export_model(model, tokenizer, to, tmp_path / "out")
    names = {"huggingface": "out/model.safetensors", "gguf": "out"}
    for _ in damaged(tmp_path / names[to], 40 if to == "gguf" else 12):
        with contextlib.suppress(RuntimeError, OSError):
            check_model(model, tokenizer, to, tmp_path / "out")


@EVERY_FORMAT
def test_the_check_finds_a_different_tokenizer(tmp_path, to):
    runtime_of(trained("gpt2"), to, tmp_path)
    assert check_tokenizer(trained("gpt2"), to, tmp_path).lines[0].startswith("ids equal on 25 te")
    other = byte_tokenizer(*trained("gpt2").special_tokens)
    with rejects(None, "ids", kind=RunError):
        check_tokenizer(other, to, tmp_path)


def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path):
    for function in (export_tokenizer, check_tokenizer):
        with rejects("to", "'gguf'"):
            function(byte_tokenizer(), "gguf", tmp_path)
    with rejects("to", "'gpt2'"):
        export_tokens(tmp_path / "a.npy", "gpt2", tmp_path)


@EVERY_FORMAT
def test_an_output_that_exists_is_refused(tmp_path, to):
    (tmp_path / "out").mkdir()
    mine = tmp_path / "out" / "mine.txt"
    mine.write_text("mine")
    for output in (mine.parent, mine):
        with rejects(None, output, kind=OutputExistsError):
            export_tokenizer(byte_tokenizer(), to, output)
    assert mine.read_text() == "mine"
    assert os.listdir(mine.parent) == ["mine.txt"]


@EVERY_FORMAT
@pytest.mark.skipif(os.name != "posix", reason="POSIX only")
def test_a_directory_whose_name_is_not_utf8_is_written(tmp_path, to):
    output = tmp_path / os.fsdecode(b"caf\xe9")
    export_tokenizer(byte_tokenizer(), to, output)
    assert any(output.iterdir())


@pytest.mark.parametrize("to", MODEL_FORMATS)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_with_files_is_not_replaced_by_a_model(tmp_path, to, overwrite):
    pytest.importorskip("torch")
    (tmp_path / "notes.txt").write_text("")
    model = random_model(vocab_size=byte_tokenizer().vocab_size, **TINY)
    with pytest.raises(OSError, match=re.escape(str(tmp_path))):
        export_model(model, byte_tokenizer(), to, tmp_path, overwrite=overwrite)


def test_other_types_are_refused(tmp_path):
    output = tmp_path / "out"
    for use in (
        lambda: export_tokenizer(None, "gpt2", output),
        lambda: check_tokenizer(None, "gpt2", output),
        lambda: export_model(None, None, "onnx", output),
        lambda: check_model(None, None, "onnx", output),
    ):
        with rejects("tokenizer", kind=InputTypeError):
            use()
    pytest.importorskip("torch")
    for use in (export_model, check_model):
        with rejects("model", "None", kind=InputTypeError):
            use(None, byte_tokenizer(), "onnx", output)


@pytest.mark.parametrize("to", MODEL_FORMATS)
@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_model_that_is_not_finite_is_refused_before_writing(tmp_path, to, value):
    torch = pytest.importorskip("torch")
    tokenizer = byte_tokenizer(END)
    model = random_model(vocab_size=tokenizer.vocab_size, **TINY)
    with torch.no_grad():
        model.layers[0].ffn.w3.weight[3, 5] = value
    with rejects(None, "layers.0.ffn.w3.weight", "finite"):
        export_model(model, tokenizer, to, tmp_path / "out")
    assert not (tmp_path / "out").exists()
