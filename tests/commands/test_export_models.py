"""`python -m cs336_basics export --run ... --to gguf | onnx`."""

from __future__ import annotations

import dataclasses
import sys
from importlib.util import find_spec

import pytest

from tests.commands.test_export import MODEL, error_of, lines_of, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run") / "run").path


@pytest.mark.parametrize(
    ("words", "kinds"), [([], "F32"), (["--type", "f16"], "F16, F32"), (["--type", "q8_0"], "F16")]
)
def test_a_run_becomes_a_gguf_file_and_the_agreement_is_printed(
    tmp_path, run, capsys, words, kinds
):
    gguf = pytest.importorskip("gguf")
    out = tmp_path / "my model.gguf"
    words = ["--run", run, "--to", "gguf", "--output", out, *words]
    written, file, read_back, *compared = lines_of(capsys, *words)
    assert written == f"written to  {out}"
    assert file.split() == ["my", "model.gguf,", f"{out.stat().st_size:,}", "bytes"]
    assert read_back.startswith("checked     gguf ")
    assert f"weights ({kinds}" in read_back
    if find_spec("llama_cpp") is None:
        assert compared[0].endswith("not run in llama.cpp: llama-cpp-python is not installed")
    else:
        assert "logits within" in compared[-1]
    description = gguf.GGUFReader(out).get_field("general.description").contents()
    assert "; 2 steps; 192 tokens; training loss 5.5000; validation loss 5.7500; " in description


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ([], "with"),
        # (docs/formats.md runs this command, too.)
        pytest.param(["--without-cache"], "without", marks=pytest.mark.slow),
    ],
)
def test_a_run_becomes_an_onnx_directory_and_the_agreement_is_printed(
    tmp_path, run, capsys, words, kind
):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    out = tmp_path / "out"
    words = ["--run", run, "--to", "onnx", "--output", out, *words]
    written, *files, ids, logits = lines_of(capsys, *words)
    assert written == f"written to  {out}"
    names = ["model.onnx", "tokenizer.json", "tokenizer_config.json"]
    assert [line.split(",")[0].strip() for line in files] == names
    assert ": ids equal on 25 texts, " in ids
    assert f" {kind} the cache: logits within " in logits
    assert logits.endswith("16 greedy tokens equal")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--to", "huggingface", "--type", "f16"],
            "--type has no meaning for --run to hug",
        ),
        (["--to", "gguf", "--without-cache"], "--without-cache has no meaning for --run to gguf"),
        (["--to", "onnx", "--type", "f32"], "--type has no meaning for --run to onnx"),
        (["--to", "gguf", "--type", "q8"], "--type is 'q8'"),
    ],
)
def test_an_option_of_another_format_is_refused(tmp_path, run, capsys, words, message):
    assert message in error_of(capsys, "--run", run, "--output", tmp_path / "o", *words)
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_alone_has_no_gguf(tmp_path, run, capsys):
    words = ["--tokenizer", run / "tokenizer", "--to", "gguf", "--output", tmp_path / "o"]
    assert "not to gguf" in error_of(capsys, *words)


def test_a_switch_that_llama_cpp_lacks_is_named(tmp_path, capsys):
    pytest.importorskip("gguf")
    run = make_run(tmp_path / "run", dataclasses.replace(MODEL, logit_soft_cap=30.0))
    message = error_of(capsys, "--run", run.path, "--to", "gguf", "--output", tmp_path / "o.gguf")
    assert message.startswith("the model has logit_soft_cap 30.0, which neither Llama nor Qwen3")
    assert not (tmp_path / "o.gguf").exists()


def test_a_missing_library_is_one_line_with_what_installs_it(tmp_path, run, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    message = error_of(capsys, "--run", run, "--to", "gguf", "--output", tmp_path / "o.gguf")
    assert message.endswith("pip install 'cs336-basics[gguf]'")
