"""The table of formats: what it refuses, and that nothing is written halfway."""

from __future__ import annotations

import os

import pytest

from cs336_basics.formats import (
    TOKENIZER_FORMATS,
    check_model,
    check_tokenizer,
    export_model,
    export_tokenizer,
)
from tests.formats.exported import byte_tokenizer

EVERY_FORMAT = pytest.mark.parametrize("to", TOKENIZER_FORMATS)


def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path):
    for function in (export_tokenizer, check_tokenizer):
        with pytest.raises(ValueError, match="to is 'gguf'"):
            function(byte_tokenizer(), "gguf", tmp_path)


@EVERY_FORMAT
def test_an_output_that_exists_is_refused(tmp_path, to):
    (tmp_path / "out").mkdir()
    mine = tmp_path / "out" / "mine.txt"
    mine.write_text("mine")
    for output in (mine.parent, mine):
        with pytest.raises(FileExistsError, match=str(output)):
            export_tokenizer(byte_tokenizer(), to, output)
    assert mine.read_text() == "mine"
    assert os.listdir(mine.parent) == ["mine.txt"]


@EVERY_FORMAT
def test_an_empty_directory_is_free(tmp_path, to):
    export_tokenizer(byte_tokenizer(), to, tmp_path)
    assert any(tmp_path.iterdir())


@EVERY_FORMAT
@pytest.mark.skipif(os.name != "posix", reason="file names of any bytes are those of POSIX")
def test_a_directory_whose_name_is_no_text_is_written(tmp_path, to):
    output = tmp_path / os.fsdecode(b"caf\xe9")
    export_tokenizer(byte_tokenizer(), to, output)
    assert any(output.iterdir())


def test_what_is_no_tokenizer_is_refused(tmp_path):
    output = tmp_path / "out"
    for use in (
        lambda: export_tokenizer(None, "gpt2", output),
        lambda: check_tokenizer(None, "gpt2", output),
        lambda: export_model(None, None, "onnx", output),
        lambda: check_model(None, None, "onnx", output),
    ):
        with pytest.raises(TypeError, match="tokenizer is None: pass a Tokenizer"):
            use()
    pytest.importorskip("torch")
    for use in (export_model, check_model):
        with pytest.raises(TypeError, match="model is None: pass a TransformerLM"):
            use(None, byte_tokenizer(), "onnx", output)
