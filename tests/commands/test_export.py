"""`python -m cs336_basics export`: converting a tokenizer or a run to other formats."""

from __future__ import annotations

import importlib
import json
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import pytest
import torch

from cs336_basics import commands
from cs336_basics._support.validation import option
from cs336_basics.checkpoints.checkpoint import write_checkpoint
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.commands._options import UsageError
from cs336_basics.data.data_config import DataConfig
from cs336_basics.data.preparation_record import Stages
from cs336_basics.formats import exports
from cs336_basics.formats.export_format import TokenizerFormat
from cs336_basics.formats.huggingface import huggingface_models, load_model
from cs336_basics.formats.megatron import load_indexed_dataset
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.tokenizer import Tokenizer, encode_rows
from cs336_basics.training import AdamW
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import config_to_yaml
from cs336_basics.training.owner_of_run import owner_of_run
from tests.commands.small_run import command, error_of
from tests.errors import rejects
from tests.formats.exported import trained
from tests.processes import run_python

main = command("export")

MODEL = ModelConfig(
    vocab_size=1500, context_length=24, d_model=16, num_layers=1, num_heads=2, d_ff=32
)


def make_run(directory, model_config=MODEL, tokenizer=None, data=None):
    """Write a run with metrics, data records, and untrained models as checkpoints 1 and 2."""
    run = RunDirectory(directory)
    run.checkpoints.mkdir(parents=True)
    run.data.mkdir()
    config = TrainConfig(model=model_config, data=data or DataConfig())
    tokenizer = tokenizer or trained("gpt2")
    run.config.write_text(config_to_yaml(config))
    tokenizer.save(run.tokenizer)
    owner = owner_of_run(run, config, tokenizer)
    for step in (1, 2):
        torch.manual_seed(step)
        model = TransformerLM(model_config)
        write_checkpoint(run.checkpoint(step), model, AdamW(model.parameters()), step, owner)
        run.append_metrics({"step": step, "tokens": 96 * step, "train_loss": 7.5 - step}, {})
        run.append_metrics({"step": step, "tokens": 96 * step, "val_loss": 7.75 - step}, {})
    stages = Stages(run.data, lambda line: None)
    for split, digit in (("train", "a"), ("valid", "b")):
        stages.check(f"{split} tokens", {"source": digit * 64, "tokenizer": "c" * 64}, int)
    return run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run")


@pytest.fixture
def tokenizer(tmp_path):
    trained("gpt2").save(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def lines_of(capsys, *words):
    assert main([str(word) for word in words]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out.splitlines()


def rejected(capsys, *words):
    """Return the message of a command that is rejected."""
    assert main([str(word) for word in words]) == 2
    return error_of(capsys, "export")


@pytest.mark.parametrize(
    ("to", "runtime", "files"),
    [
        ("huggingface", "transformers", ["tokenizer.json", "tokenizer_config.json"]),
        ("tiktoken", "tiktoken", ["encoding.json", "encoding.py", "ranks.tiktoken"]),
        ("gpt2", "tokenizers", ["merges.txt", "vocab.json"]),
    ],
)
def test_an_exported_tokenizer_is_compared(tmp_path, tokenizer, capsys, to, runtime, files):
    pytest.importorskip(runtime)
    out = tmp_path / "out"
    words = ["--tokenizer", tokenizer, "--to", to, "--output", out]
    first, *listed, ids, decoded = lines_of(capsys, *words)
    assert first == f"written to  {out}"
    assert [line.split()[0].rstrip(",") for line in listed] == files
    assert all(line.startswith(f"checked     {runtime} ") for line in (ids, decoded))
    assert ": ids equal on 25 texts, " in ids
    assert ": decoded text equal" in decoded


def test_files_that_are_kept_are_named_and_their_tokens_are_those_of_the_model(
    tmp_path, run, capsys
):
    pytest.importorskip("transformers")
    config = json.dumps({"eos_token": "<|im_end|>", "chat_template": "{{ 1 }}"})
    kept = {"tokenizer_config.json": config, "additional_chat_templates/a.jinja": "{{ 2 }}"}
    for name, content in kept.items():
        (run.tokenizer / name).parent.mkdir(exist_ok=True)
        (run.tokenizer / name).write_text(content)
    out = tmp_path / "out"
    words = ["--run", run.path, "--to", "huggingface", "--output", out, "--keep-files"]
    first, _, *files = lines_of(capsys, *words)
    assert first == f"kept        {', '.join(kept)}, unchanged, from {run.tokenizer}"
    assert "additional_chat_templates/a.jinja, 7 bytes" in [line.strip() for line in files]
    for name, content in kept.items():
        assert (out / name).read_text() == content
    end = Tokenizer.from_directory(out).special_token_id("<|im_end|>")
    for name in ("config.json", "generation_config.json"):
        assert json.loads((out / name).read_text())["eos_token_id"] == end
    assert "--eos-token" in rejected(capsys, *words[:-2], "new", *words[-1:], "--eos-token", "a")
    assert "--keep-files" in rejected(capsys, *words[:3], "gguf", *words[4:])


def test_it_is_said_that_there_is_nothing_to_keep(tmp_path, tokenizer, capsys):
    out = tmp_path / "out"
    words = ["--tokenizer", tokenizer, "--to", "huggingface", "--output", out, "--keep-files"]
    assert lines_of(capsys, *words)[0].startswith(f"kept        nothing: {tokenizer} has no ")


def test_an_exported_run_has_a_card_and_is_compared(tmp_path, run, capsys):
    pytest.importorskip("transformers")
    out = tmp_path / "my model"
    words = ["--run", run.path, "--to", "huggingface", "--output", out]
    _, *files, ids, logits = lines_of(capsys, *words)
    names = ["README.md", "config.json", "generation_config.json", "model.safetensors"]
    names += ["tokenizer.json", "tokenizer_config.json"]
    assert [line.split(",")[0].strip() for line in files] == names
    assert "auto_map" not in (out / "config.json").read_text()  # no code
    assert ": ids equal on 25 texts, " in ids
    assert "LlamaForCausalLM: logits within " in logits
    assert logits.endswith("16 greedy tokens equal")
    card = (out / "README.md").read_text("utf-8")
    for expected in (
        "# my model",
        "license: unknown",
        "| optimizer steps | 2 |",
        "| tokens trained on | 192 |",
        "| training loss | 5.5000 |",
        "| validation loss | 5.7500 |",
        f"| training: sample, train | `{'a' * 64}` |",
        f"| validation: sample, valid | `{'b' * 64}` |",
    ):
        assert expected in card, expected


def test_the_roles_of_special_tokens_are_exported(tmp_path, tokenizer, capsys):
    words = ["--pad-token", "<|im_end|>", "--eos-token", "<|im_start|>", "--output", tmp_path / "o"]
    lines_of(capsys, "--tokenizer", tokenizer, "--to", "huggingface", *words)
    config = json.loads((tmp_path / "o" / "tokenizer_config.json").read_text())
    assert (config["pad_token"], config["eos_token"]) == ("<|im_end|>", "<|im_start|>")


def test_the_checkpoint_can_be_chosen(tmp_path, run, capsys):
    out = tmp_path / "out"
    lines_of(capsys, "--run", run.path, "--to", "huggingface", "--output", out,
             "--checkpoint", run.checkpoint(1))  # fmt: skip
    torch.manual_seed(1)
    expected = TransformerLM(MODEL).state_dict()
    found = load_model(out).state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert "| optimizer steps | 1 |" in (out / "README.md").read_text("utf-8")


def test_without_the_runtime_the_tokenizer_is_exported_but_not_compared(tmp_path, tokenizer):
    code = """
import sys
from cs336_basics.__main__ import main
sys.exit(main(["export", *sys.argv[1:]]))
"""
    for to in exports.TOKENIZER_FORMATS:
        words = ["--tokenizer", tokenizer, "--to", to, "--output", tmp_path / to]
        done = run_python(code, *words, missing=("tokenizers", "transformers", "tiktoken", "torch"))
        assert done.stderr == ""
        # A format whose library is not hidden is compared.
        last = done.stdout.splitlines()[-1]
        assert re.fullmatch(r"checked {5}(no: \w+ is not installed|.*: ids equal .*)", last)


def test_a_difference_in_logits_sets_status_1(tmp_path, run, capsys, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setattr(huggingface_models, "LOGITS_LIMIT", 1e-30)
    words = ["--run", str(run.path), "--to", "huggingface", "--output", str(tmp_path / "out")]
    assert main(words) == 1
    assert "logits differ" in capsys.readouterr().err


def test_token_files_are_exported(tmp_path, capsys):
    tokenizer, out = trained("gpt2"), tmp_path / "out"
    texts, paths = ["the cat", "a", "It's"], [tmp_path / "1.npy", tmp_path / "2.npy"]
    encode_rows(tokenizer, texts[:2], paths[0], document_starts=True)
    encode_rows(tokenizer, texts[2:], paths[1], document_starts=True)
    lines = lines_of(capsys, "--tokens", *paths, "--to", "megatron", "--output", out)
    ids, starts = load_indexed_dataset(out / "tokens")
    assert tokenizer.decode_batch(np.split(ids, starts[1:])) == texts
    assert lines == [
        f"written to  {out}",
        f"            tokens.bin, {ids.nbytes} bytes",
        "            tokens.idx, 102 bytes",
    ]
    words = ["--tokens", paths[0], "--to", "megatron", "--output", out]
    assert "exists and is not an empty directory" in rejected(capsys, *words)
    encode_rows(tokenizer, texts, plain := tmp_path / "plain.npy")
    words = ["--tokens", plain, "--to", "megatron", "--output", tmp_path / "plain"]
    assert "--document-starts of encode" in rejected(capsys, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--to gpt2", "give exactly one of --tokenizer DIR, --run DIR and --tokens FILE"),
        (
            "--tokens t.npy --to gguf",
            f"--to must be one of {', '.join(exports.TOKEN_FORMATS)} for --tokens, got gguf",
        ),
        ("--tokens t.npy --to megatron", "t.npy"),
        ("--tokenizer t --to gguf", "for --tokenizer, got gguf"),
        ("--tokenizer t --to gpt2 --checkpoint c", "--checkpoint does not apply"),
        ("--run r --to huggingface --type f16", "--type does not apply"),
        ("--run r --to gguf --without-cache", "--without-cache does not apply"),
        ("--tokenizer t --to tiktoken --eos-token p", "--eos-token does not apply"),
        ("--tokenizer absent --to gpt2", "absent"),
        ("--run absent --to huggingface", "absent"),
    ],
)
def test_conflicting_options_are_a_one_line_error(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in rejected(capsys, *words.split(), "--output", "o")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def model_run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run") / "run").path


@pytest.mark.parametrize(
    ("words", "kinds"), [([], "F32"), (["--type", "f16"], "F16, F32"), (["--type", "q8_0"], "F16")]
)
def test_an_exported_gguf_file_is_compared(tmp_path, model_run, capsys, words, kinds):
    gguf = pytest.importorskip("gguf")
    out = tmp_path / "my model.gguf"
    words = ["--run", model_run, "--to", "gguf", "--output", out, *words]
    written, file, read_back, *compared = lines_of(capsys, *words)
    assert written == f"written to  {out}"
    assert file.split() == ["my", "model.gguf,", f"{out.stat().st_size:,}", "bytes"]
    assert read_back.startswith("checked     gguf ")
    assert f"weights ({kinds}" in read_back
    if find_spec("llama_cpp") is None:
        assert read_back.endswith("; not run in llama.cpp: llama-cpp-python is not installed")
    else:
        assert "logits within" in compared[-1]
    description = gguf.GGUFReader(out).get_field("general.description").contents()
    assert "; 2 steps; 192 tokens; training loss 5.5000; validation loss 5.7500; " in description


@pytest.mark.slow
def test_an_exported_onnx_directory_is_compared(tmp_path, model_run, capsys):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    out = tmp_path / "out"
    words = ["--run", model_run, "--to", "onnx", "--output", out]
    written, *files, ids, logits = lines_of(capsys, *words)
    assert written == f"written to  {out}"
    names = ["model.onnx", "tokenizer.json", "tokenizer_config.json"]
    assert [line.split(",")[0].strip() for line in files] == names
    assert ": ids equal on 25 texts, " in ids
    assert " with the cache: logits within " in logits
    assert logits.endswith("16 greedy tokens equal")


@dataclass(kw_only=True)
class ListedTokens(TokenizerFormat):
    """A new format: a text file that lists the tokens."""

    name: ClassVar[str] = "list"
    encoding: str = option("list: encoding of the file", "utf-8", metavar="NAME")

    def contents(self, tokenizer):
        return {"tokens.txt": "\n".join(map(repr, tokenizer.vocab.values())).encode(self.encoding)}

    def runtime(self, directory, special_tokens):
        raise ImportError("no other library", name="none")


def test_a_new_format_is_one_class_and_one_entry(tmp_path, monkeypatch, capsys):
    trained("gpt2").save(tmp_path / "tokenizer")
    importlib.import_module("cs336_basics.commands.export")
    monkeypatch.setitem(exports.TOKENIZER_FORMATS, "list", ListedTokens)
    monkeypatch.setattr(commands, "export", sys.modules["cs336_basics.commands.export"])
    monkeypatch.delitem(sys.modules, "cs336_basics.commands.export")
    command = importlib.import_module("cs336_basics.commands.export").COMMAND
    words = ["--tokenizer", str(tmp_path / "tokenizer"), "--to", "list", "--encoding", "utf-16"]
    command.run([*words, "--output", str(tmp_path / "out")])
    assert "checked     no: none is not installed" in capsys.readouterr().out
    lines = (tmp_path / "out" / "tokens.txt").read_text("utf-16").splitlines()
    assert len(lines) == len(trained("gpt2"))
    with rejects("encoding", kind=UsageError):
        command.run([*words[:3], "gpt2", *words[4:], "--output", str(tmp_path / "other")])
