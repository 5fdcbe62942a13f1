"""A small run's curves, samples, generated text and losses, compared with the library."""

import json
import math
import os
import shutil

import pytest

from cs336_basics._support.errors import InputError, MissingFileError
from cs336_basics.checkpoints.run_dir import comparable
from tests.commands.small_run import fill_weights
from tests.errors import rejects

torch = pytest.importorskip("torch", reason="needs the torch extra")

from cs336_basics.generation import Sampling  # noqa: E402
from cs336_basics.model.inspection import attention_weights  # noqa: E402
from cs336_basics.playground.runs import Runs  # noqa: E402
from cs336_basics.training.load_run import load_run  # noqa: E402

TEXT = "Once upon a time"


@pytest.fixture(scope="module")
def runs(run_path):
    return Runs([run_path])


def test_curves_are_the_metrics_and_samples_the_files(run_path, runs):
    answer = runs.curves({"run": 0})
    rows = [json.loads(line) for line in (run_path / "metrics.jsonl").read_text().splitlines()]
    for kind in ("train_loss", "val_loss"):
        expected = [(row["step"], comparable(row, kind)) for row in rows if kind in row]
        assert answer["losses"][kind] == expected != []
    (run_path / "samples" / "step_99999999.txt").symlink_to("/etc/passwd")
    assert runs.curves({"run": 0}) == answer
    (run_path / "samples" / "step_99999999.txt").unlink()
    os.rename(run_path / "samples", run_path / "real")
    (run_path / "samples").symlink_to("real")
    assert runs.curves({"run": 0})["samples"] == []
    (run_path / "samples").unlink()
    os.rename(run_path / "real", run_path / "samples")
    newest = max((run_path / "samples").iterdir())
    assert answer["samples"][0] == {
        "name": newest.stem,
        "text": newest.read_bytes().decode("utf-8", "replace"),
    }


def test_the_generated_text_is_that_of_the_run(run_path, runs):
    asked = {"text": TEXT, "max_new_tokens": 20, "seed": 3, "top_k": 5}
    rows = []
    runs.generate(asked, rows.append)
    sampling = Sampling(temperature=0.8, top_k=5, top_p=0.95)
    generator = torch.Generator().manual_seed(3)
    text = "".join(row["text"] for row in rows)
    assert text == load_run(run_path).generate(TEXT, 20, sampling, generator=generator)


def test_filters_exclude_some_of_the_next_tokens(runs):
    asked = {"text": TEXT, "temperature": 1.0, "top_k": 3, "top_p": 1.0}
    tokens = runs.next_tokens(asked)["tokens"]
    assert [token["kept"] for token in tokens] == [True] * 3 + [False] * 17


def test_the_next_token_after_each_token_of_a_text(run_path, runs):
    run = load_run(run_path)
    ids = run.tokenizer.encode(TEXT)
    for index in range(len(ids)):
        with torch.no_grad():
            logits = run.model(torch.tensor([ids[: index + 1][-16:]]))[0, -1]
        answer = runs.next_tokens({"text": TEXT, "temperature": 1.0, "token": index})
        assert answer["index"] == index
        assert [token["id"] for token in answer["after"]] == [ids[index]]
        probabilities = logits.double().softmax(-1)
        top = probabilities.topk(20).indices.tolist()
        following = ids[index + 1 : index + 2]
        found = [token["id"] for token in answer["tokens"]]
        assert found == [*top, *(token_id for token_id in following if token_id not in top)]
        assert [token["id"] for token in answer["tokens"] if token["follows"]] == following
        expected = [probabilities[token_id].item() for token_id in found]
        assert [t["probability"] for t in answer["tokens"]] == pytest.approx(expected)
    last = runs.next_tokens({"text": TEXT, "temperature": 1.0})
    assert last == answer == runs.next_tokens({"text": TEXT, "temperature": 1.0, "token": 10**9})
    empty = runs.next_tokens({"text": "", "token": 3})
    assert (empty["index"], empty["after"], len(empty["tokens"])) == (-1, [], 20)


def test_losses_belong_to_the_tokens_that_fit_the_context(run_path, runs):
    answer = runs.losses({"text": TEXT * 5})
    run = load_run(run_path)
    ids = run.tokenizer.encode(TEXT * 5)
    assert answer["num_tokens"] == len(ids) > 16
    assert [token["id"] for token in answer["tokens"]] == ids[:16]
    start = run.tokenizer.special_token_id("<|endoftext|>")
    with torch.no_grad():
        logits = run.model(torch.tensor([[start, *ids[:15]]]))[0]
    expected = -logits.log_softmax(-1)[range(16), ids[:16]]
    found = [token["loss"] for token in answer["tokens"]]
    assert found == pytest.approx(expected.tolist(), rel=1e-4)
    assert runs.losses({"text": ""})["tokens"] == []


def test_attention_is_a_row_of_the_weights(run_path, runs):
    asked = {"text": TEXT, "layer": 0, "head": 1, "token": 2}
    answer = runs.attention(asked)
    run = load_run(run_path)
    ids = run.tokenizer.encode(TEXT)
    assert [token["id"] for token in answer["tokens"]] == ids[:16]
    expected = attention_weights(run.model, torch.tensor(ids[:16]), 0)[1, 2]
    assert answer["weights"] == pytest.approx(expected.tolist())
    last = attention_weights(run.model, torch.tensor(ids[:16]), 0)[1, -1]
    for token in (None, 10**9):
        assert runs.attention({**asked, "token": token})["weights"] == pytest.approx(last.tolist())
    assert runs.attention({**asked, "text": ""})["weights"] == []
    with rejects("layer", 0, 1):
        runs.attention({**asked, "layer": 1})
    with rejects("head", 2):
        runs.attention({**asked, "head": 2})


def test_wrong_requests_are_errors(tmp_path, runs):
    for asked in ({"run": 1}, {"run": -1}, {"run": "/etc"}):
        with rejects("run"):
            runs.curves(asked)
    for wrong in ({"text": "a" * 20_001}, {"text": "a", "top_p": 2}, {"text": "a", "seed": 2**64}):
        with pytest.raises(InputError):
            runs.generate(wrong, print)
    with rejects(None, tmp_path, kind=MissingFileError):
        Runs([tmp_path])


@pytest.mark.parametrize("temperature", [1e-320, 1e-30, 1e300])
def test_extreme_temperatures_give_finite_probabilities(runs, temperature):
    tokens = runs.next_tokens({"text": TEXT, "temperature": temperature})["tokens"]
    assert all(0 <= token["probability"] <= 1 for token in tokens)


def copied_run(run_path, directory, weight):
    """Return answers about a copy of the run with all weights set to one value."""
    shutil.copytree(run_path, directory, ignore=shutil.ignore_patterns(".lock"))
    return Runs([directory]), fill_weights(directory, weight)


ASKED = {"text": TEXT, "temperature": 0.8, "top_p": 0.95}


def test_weights_that_are_not_finite_are_an_error_that_names_the_checkpoint(run_path, tmp_path):
    runs, checkpoint = copied_run(run_path, tmp_path / "run", math.nan)
    for answer in (runs.next_tokens, runs.losses, runs.attention):
        with rejects(None, checkpoint, "weight"):
            answer(ASKED)
    with rejects(None, checkpoint, "weight"):
        runs.generate(ASKED, print)


def test_results_that_are_not_finite_are_an_error(run_path, tmp_path):
    runs, _ = copied_run(run_path, tmp_path / "run", 1e10)  # too large to multiply
    for answer in (runs.next_tokens, runs.losses, runs.attention):
        with rejects(None, "finite"):
            answer(ASKED)


def test_curves_leave_out_what_json_cannot_represent(run_path, tmp_path):
    runs, _ = copied_run(run_path, tmp_path / "run", 0.0)
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write('{"step": 13, "train_loss": NaN}\n{"step": 14, "val_loss": 1e999}\n')
    with open(tmp_path / "run" / "timings.jsonl", "a") as file:
        file.write('{"step": 13, "kind": "training", "seconds": 1e999}\n')
    answer = runs.curves({})
    json.dumps(answer, allow_nan=False)
    assert answer["losses"]["train_loss"][-1][0] == 12
