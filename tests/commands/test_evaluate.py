"""`python -m cs336_basics evaluate`: figures of runs and Hugging Face models, side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from cs336_basics import load_run
from cs336_basics._support.text import ASSISTANT, USER
from cs336_basics.data.data_config import DataConfig
from cs336_basics.formats import export_model
from cs336_basics.model import ModelConfig
from cs336_basics.tokenizer import encode_file
from cs336_basics.training.text_evaluation import evaluate
from tests.commands.small_run import command, error_of, fill_weights, pipe
from tests.commands.test_export import make_run
from tests.formats.exported import trained
from tests.tokenizer.examples import END, byte_tokenizer

main = command("evaluate")

TEXTS = (
    "Once upon a time there was a cat.",
    "\u20ac 5 \U0001f994 na\u00efve\n\n",
    "def f(x):\n    return x",
)
SMALL = ModelConfig(
    vocab_size=1500, context_length=24, d_model=16, num_layers=1, num_heads=2, d_ff=32
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs with different tokenizers, the first also as a Hugging Face model, and three texts.

    Each run has the checkpoints 1 and 2. The second is the best.
    """
    directory = tmp_path_factory.mktemp("evaluate")
    make_run(directory / "words", SMALL, trained("gpt2"))
    make_run(directory / "bytes", SMALL, byte_tokenizer(END))
    export_model(*load_run(directory / "words"), "huggingface", directory / "llama")
    for number, text in enumerate(TEXTS):
        (directory / f"{number}.txt").write_text(text, encoding="utf-8", newline="")
    rows = "".join(json.dumps({"text": text}) + "\n" for text in ("", *TEXTS))
    (directory / "rows.jsonl").write_text(rows)
    return directory


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def results_of(capsys, *words):
    assert main([*words, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


FILES = ("0.txt", "1.txt", "2.txt")


def test_several_models_and_texts_are_in_one_table(capsys):
    words = ["--run", "words", "bytes", "--model", "llama", "--input", *FILES]
    assert main(words) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["model", "text", "step"]
    assert [line.split()[:2] for line in lines[:9]] == [
        [model, file] for model in ("words", "bytes", "llama") for file in FILES
    ]
    assert [line.split()[2] for line in lines[:6]] == ["2"] * 6
    assert "without special tokens" in lines[9]
    assert "only bits/byte compares models" in lines[10]
    results = results_of(capsys, *words)
    for line, result in zip(lines, results, strict=False):
        cells = line.split()
        assert cells[-1] == f"{result['bits_per_byte']:.4f}"
        assert cells[-3] == f"{result['loss']:.4f}"
        assert result["stride"] == result["context_length"] == 24
    # Without a separator at its end, the first token of a text is not predicted.
    assert [r["bytes"] for r in results[3:6]] == [len(t.encode()) - 1 for t in TEXTS]
    for run, exported in zip(results[:3], results[6:], strict=True):
        assert exported["loss"] == pytest.approx(run["loss"], rel=1e-5)
        assert exported["bits_per_byte"] == pytest.approx(run["bits_per_byte"], rel=1e-5)


@pytest.mark.numerical(seeds=False)
@pytest.mark.parametrize("stride", [24, 7])
def test_figures_equal_those_of_transformers(capsys, folder, stride):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained("llama", local_files_only=True)
    encode = transformers.AutoTokenizer.from_pretrained("llama", local_files_only=True)
    results = results_of(
        capsys, "--run", "words", "--model", "llama", "--input", *FILES, "--stride", str(stride)
    )
    for number, text in enumerate(TEXTS):
        ids = torch.tensor(encode(text).input_ids)
        nats, seen = 0.0, 1
        for start in range(0, len(ids), stride):
            window = ids[start : start + 25]  # transformers predicts all but the first
            labels = window.clone()
            labels[: seen - start] = -100
            count = int((labels[1:] != -100).sum())
            with torch.no_grad():
                nats += count * float(theirs(window[None], labels=labels[None]).loss)
            seen = start + len(window)
            if seen == len(ids):
                break
        for result in (results[number], results[3 + number]):
            assert result["tokens"] == len(ids) - 1
            assert result["loss"] == pytest.approx(nats / (len(ids) - 1), rel=1e-5)
            # transformers' tokenizer knows the bytes of the predicted text, too.
            predicted = encode.decode(ids[1:]).encode()
            assert result["bytes"] == len(predicted) or "\ufffd" in predicted.decode()


@pytest.fixture(scope="module")
def chats(folder):
    """A run on prompts and answers, packed and not, and two turns."""
    tokenizer = byte_tokenizer(END, USER, ASSISTANT)
    fields = {"train_path": "turns.jsonl", "prompt_field": "ask", "answer_field": "say"}
    for pack in ("joined", "documents"):
        make_run(folder / f"chat-{pack}", SMALL, tokenizer, DataConfig(**fields, pack=pack))
        make_run(folder / pack, SMALL, tokenizer, DataConfig(pack=pack))
    rows = [{"ask": "Who?", "say": "A cat."}, {"ask": "And?", "say": TEXTS[0]}]
    (folder / "turns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


TURNS = ("--input", "turns.jsonl", "--prompt-field", "ask", "--answer-field", "say")


def test_only_answers_count(capsys, chats):
    (result,) = results_of(capsys, "--run", "chat-joined", *TURNS)
    assert result["counted"] == "answers"
    assert result["bytes"] == sum(len(row["say"]) for row in chats)
    assert result["tokens"] == result["bytes"] + len(chats)  # and the token at each end
    assert main(["--run", "chat-joined", *TURNS]) == 0
    assert "of the answers only" in capsys.readouterr().out
    (result,) = results_of(capsys, "--run", "chat-joined", "--input", "0.txt")
    assert result["counted"] == "all"
    assert main(["--run", "joined", "chat-joined", "--input", "0.txt"]) == 0
    assert "instruction data: chat-joined; without --prompt-field" in capsys.readouterr().out


@pytest.mark.parametrize("words", [TURNS, ("--input", "rows.jsonl", "--field", "text")])
def test_a_run_is_read_as_it_was_trained_unless_told_otherwise(capsys, chats, words):
    names = ["chat-joined", "chat-documents"] if words == TURNS else ["joined", "documents"]
    own = results_of(capsys, "--run", *names, *words)
    assert [result["pack"] for result in own] == ["joined", "documents"]
    # The weights are the same, so only the reading differs.
    assert own[0]["loss"] != pytest.approx(own[1]["loss"], rel=1e-4)
    assert own[0]["tokens"] == own[1]["tokens"]
    for pack, expected in zip(("joined", "documents"), own, strict=True):
        for result in results_of(capsys, "--run", *names, *words, "--pack", pack):
            assert result["pack"] == pack
            assert result["loss"] == pytest.approx(expected["loss"])
    assert main(["--run", *names, *words]) == 0
    assert "pack" in capsys.readouterr().out.splitlines()[0].split()


def test_prompts_and_answers_need_both_fields_and_json_lines(capsys, chats, folder):
    encode_file(byte_tokenizer(END), folder / "0.txt", folder / "ids.npy")
    for words, message in (
        (["--input", "turns.jsonl", "--prompt-field", "ask"], "--prompt-field requires"),
        ([*TURNS, "--field", "say"], "--field cannot be given with --answer-field"),
        (["--input", "0.txt", *TURNS[2:]], "--answer-field 'say' applies only to JSON Lines"),
        (["--input", "ids.npy", *TURNS[2:]], "--answer-field applies only to JSON Lines"),
        (["--input", "rows.jsonl", "--prompt-field", "ask", "--answer-field", "text"], "'ask'"),
    ):
        assert main(["--run", "chat-joined", *words]) == 2
        assert message in error_of(capsys, "evaluate")
    assert main(["--run", "words", *TURNS]) == 2
    assert "words: the tokenizer has no special token <|user|>" in error_of(capsys, "evaluate")


def test_each_document_has_a_line_of_its_own(capsys, folder):
    words = ["--run", "words", "bytes", "--input", "rows.jsonl", "2.txt", "--field", "text"]
    assert main([*words, "--per-document", "out.jsonl"]) == 0
    out = capsys.readouterr().out
    assert "documents" in out.splitlines()[0].split()
    assert "written to out.jsonl" in out
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    expected = [
        (run, file, number, text)
        for run in ("words", "bytes")
        for file, texts in (("rows.jsonl", TEXTS), ("2.txt", TEXTS[2:]))
        for number, text in enumerate(texts)
    ]
    for line, (run, file, number, text) in zip(lines, expected, strict=True):
        score = evaluate(load_run(run), text).total
        assert (line["model"], line["input"], line["document"]) == (run, file, number)
        assert line["loss"] == pytest.approx(score.loss, rel=1e-5)
        assert line["bits_per_byte"] == pytest.approx(score.bits_per_byte, rel=1e-5)
        assert (line["tokens"], line["bytes"]) == (score.tokens, len(text.encode()))
        assert line["start"]
        assert text.startswith(line["start"])
    assert main([*words, "--per-document", "out.jsonl"]) == 2
    assert "exists" in error_of(capsys, "evaluate")
    assert main([*words, "--per-document", "out.txt"]) == 2
    assert "--per-document must end in .jsonl" in error_of(capsys, "evaluate")


def test_the_checkpoint_can_be_named(capsys, folder):
    def loss(*words):
        (result,) = results_of(capsys, "--run", "words", "--input", "0.txt", *words)
        return result["step"], result["loss"]

    first, second = loss("--checkpoint", "1"), loss()
    assert (first[0], second[0]) == (1, 2)
    assert first[1] != second[1]
    assert loss("--checkpoint", "last") == loss("--checkpoint", "best") == second
    path = "words/checkpoints/step_00000001.safetensors"
    assert loss("--checkpoint", path) == first
    words = ["--run", "words", "--input", "0.txt", "--checkpoint"]
    assert main([*words, "3"]) == 2
    assert "--checkpoint must be a checkpoint in words" in error_of(capsys, "evaluate")


def test_token_files_and_standard_input_are_read(capsys, folder, monkeypatch):
    tokenizer = load_run("bytes").tokenizer
    encode_file(tokenizer, "0.txt", "0.npy", overwrite=True)
    pipe(monkeypatch, TEXTS[0].encode())
    np.array(tokenizer.encode(TEXTS[0]), "<u2").tofile("0.bin")
    np.array(tokenizer.encode(TEXTS[0]), "<u4").tofile("wide.bin")
    files = ["0.npy", "0.txt", "-", "0.bin"]
    results = results_of(capsys, "--run", "bytes", "--input", *files)
    assert [result["input"] for result in results] == files
    words = ["--input", "wide.bin", "--token-dtype", "uint32"]
    results += results_of(capsys, "--run", "bytes", *words)
    assert len({result["loss"] for result in results}) == 1
    assert main(["--run", "words", "--input", "0.npy"]) == 2
    assert "another tokenizer" in error_of(capsys, "evaluate")


def test_a_shorter_window_can_be_chosen(capsys):
    words = ["--run", "words", "--input", "0.txt", "--context-length"]
    (result,) = results_of(capsys, *words, "8")
    assert (result["context_length"], result["stride"]) == (8, 8)
    assert main([*words, "25"]) == 2
    assert "--context-length must be" in error_of(capsys, "evaluate")


def test_what_cannot_be_evaluated_is_named(capsys, folder, tmp_path):
    for words, named in (
        (["--input", "0.txt"], "pass --run or --model"),
        (["--model", "llama", "--checkpoint", "best", "--input", "0.txt"], "--checkpoint requires"),
        (["--run", "llama", "--input", "0.txt"], "llama is not a run directory: it contains a mod"),
        (["--run", "absent", "--input", "0.txt"], "absent does not exist"),
        (["--run", ".", "--input", "0.txt"], ". is not a run directory: config.yaml is missing"),
        (["--model", "rows.jsonl", "--input", "0.txt"], "--model must be"),
        (["--run", "words", "--input", "rows.jsonl"], "--field"),
        (["--run", "words", "--input", "missing.txt"], "missing.txt"),
    ):
        assert main(words) == 2
        assert named in error_of(capsys, "evaluate")
    broken = make_run(tmp_path / "broken", SMALL, byte_tokenizer(END))
    fill_weights(broken.path, float("nan"))
    assert main(["--run", str(broken.path), "--input", "0.txt"]) == 2
    assert "must be finite" in error_of(capsys, "evaluate")
    export_model(*load_run("words"), "huggingface", broken.path / "llama")
    weights = load_file(broken.path / "llama" / "model.safetensors")
    weights["model.norm.weight"][0] = float("nan")
    save_file(weights, broken.path / "llama" / "model.safetensors", {"format": "pt"})
    assert main(["--model", str(broken.path / "llama"), "--input", "0.txt"]) == 2
    assert "must be finite" in error_of(capsys, "evaluate")


def test_a_text_of_one_token_has_no_figures(capsys, folder):
    (folder / "one.txt").write_text("a")
    assert main(["--run", "bytes", "--input", "one.txt"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-3:] == ["-", "-", "-"]
    (result,) = results_of(capsys, "--run", "bytes", "--input", "one.txt")
    assert result["loss"] is result["bits_per_byte"] is None
