"""Runs that start from another model: its weights and tokenizer, with new data and a new start."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import shutil
import weakref

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from cs336_basics import Tokenizer, train_bpe
from cs336_basics._support.errors import MissingFileError
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.data_config import DataConfig
from cs336_basics.formats import ModelCard, export_model, export_tokenizer
from cs336_basics.formats.huggingface import load_model
from cs336_basics.model import ModelConfig
from cs336_basics.tokenizer import extend, prune
from cs336_basics.training.config import OriginConfig, TrainConfig
from cs336_basics.training.config_files import load_config
from cs336_basics.training.load_run import load_run
from cs336_basics.training.origin import find_origin, shape_from, start_from
from cs336_basics.training.start import Resumption, check_start, create_run, open_trainer
from tests.errors import rejects
from tests.formats.huggingface.test_huggingface_models import foreign_model
from tests.tokenizer.examples import byte_tokenizer
from tests.training.tiny_runs import Crash, crash_in_step, outcome

OLD_TEXT = "The cat sat on the mat, and the dog ate the hat.<|endoftext|>" * 40
NEW_TEXT = "고양이가 매트 위에 앉았다. แมวนั่งบนเสื่อ The cat.<|endoftext|>" * 40
SHAPE = ModelConfig(
    vocab_size=280,
    context_length=16,
    d_model=16,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    d_ff=24,
)


def config_for(text, *, model=SHAPE, max_steps=6, init_from=None, tokenizer=None):
    return TrainConfig(
        max_steps=max_steps,
        batch_size=2,
        eval_every=max_steps,
        eval_windows=0,
        checkpoint_every=2,
        log_every=1,
        sample_tokens=4,
        device="cpu",
        num_workers=1,
        model=model,
        init_from=init_from and str(init_from),
        data=DataConfig(
            train_path=str(text), valid_fraction=0.2, tokenizer=tokenizer and str(tokenizer)
        ),
    )


def opened(config, path, lines=None):
    """Return a context manager that opens a new run as the command does."""
    sources = check_start(config)
    run = create_run(config, path)
    report = (lambda line: None) if lines is None else lines.append
    return open_trainer(config, run, sources, report=report)


def train(config, path):
    lines = []
    with opened(config, path, lines) as trainer:
        result = trainer.fit()
    return result, lines


def resume(path, lines=None):
    run = RunDirectory(path)
    config = load_config(run.config)
    sources = check_start(config, resumed=run)
    report = (lambda line: None) if lines is None else lines.append
    with open_trainer(config, run, sources, resume=Resumption(), report=report) as trainer:
        return trainer.fit()


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two texts and a run, `old`, trained on the first."""
    folder = tmp_path_factory.mktemp("origin")
    write(folder / "new.txt", NEW_TEXT)
    train(config_for(write(folder / "old.txt", OLD_TEXT)), folder / "old")
    return folder


@pytest.fixture
def new_text(folder):
    return folder / "new.txt"


def windows_of(trainer):
    """Return the validation windows of a trainer as ids (windows, 17)."""
    windows = trainer.evaluation.windows
    pairs = [windows[i] for i in range(len(windows))]
    rows = [np.concatenate([x, y[-1:]]) for x, y in pairs]
    return torch.from_numpy(np.stack(rows).astype(np.int64))


def loss_in_transformers(directory, ids):
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, local_files_only=True)
    model.eval()
    with torch.inference_mode():
        return model(ids, labels=ids).loss.item()


def test_a_run_starts_with_the_weights_and_the_tokenizer_of_another_and_says_so(
    folder, new_text, tmp_path
):
    old = folder / "old"
    config, _ = start_from(config_for(new_text, init_from=old))
    checkpoint = RunDirectory(old).newest_checkpoint()
    record = config.origin
    assert config.model == load_config(RunDirectory(old).config).model
    result, lines = train(config, tmp_path / "new")
    run = RunDirectory(tmp_path / "new")
    (line,) = [line for line in lines if line.startswith("starting from")]
    assert line == (f"starting from {checkpoint} (step 6, validation loss {record.loss:.4f})")
    # The loss before the first step is the old model's, on the new text.
    model, tokenizer = load_run(old)
    with opened(config, tmp_path / "again") as trainer:
        assert trainer.step == 0
        assert not trainer.optimizer.state
        before = trainer.evaluate().loss
        for name, value in model.state_dict().items():
            assert torch.equal(trainer.model.state_dict()[name], value)
        ids = windows_of(trainer)
    logits = model(ids[:, :-1])
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    assert before == pytest.approx(expected.item(), abs=1e-5)
    rows = run.read_metrics()
    assert (rows[0]["step"], rows[0]["val_loss"]) == (0, before)
    assert result.val_loss < before
    assert run.best().step == 6  # the loss before the first step does not count
    assert Tokenizer.from_directory(run.tokenizer).hash() == tokenizer.hash()
    saved = load_config(run.config)
    assert saved.origin == record
    assert (record.step, record.tokenizer) == (6, tokenizer.hash())
    assert record.weights is not None
    assert len(record.weights) == 64


def test_a_checkpoint_may_be_named_and_a_hash_is_compared(folder, new_text):
    run = RunDirectory(folder / "old")
    config = config_for(new_text, init_from=run.checkpoint(4))
    found, _ = start_from(config)
    assert (found.origin.step, found.origin.loss) == (4, None)
    assert start_from(dataclasses.replace(config, origin=found.origin))[0] == found
    for key in ("weights", "tokenizer"):
        wrong = dataclasses.replace(found.origin, **{key: "0" * 64})
        with rejects("init_from", "0" * 64, getattr(found.origin, key)):
            start_from(dataclasses.replace(config, origin=wrong))
    with rejects("origin.step"):
        TrainConfig(origin=OriginConfig(step=3))


def test_the_weights_are_loaded_once_and_not_kept_during_training(folder, new_text, tmp_path):
    shutil.copytree(folder / "old", tmp_path / "old")
    config, origin = start_from(config_for(new_text, init_from=tmp_path / "old"))
    lines = []
    origin.load = lambda: pytest.fail("loaded twice")
    kept = weakref.ref(origin._kept)
    shutil.rmtree(tmp_path / "old" / "checkpoints")
    sources, run = check_start(config), create_run(config, tmp_path / "new")
    with open_trainer(config, run, sources, origin=origin, report=lines.append) as trainer:
        gc.collect()
        assert kept() is None
        expected = load_run(folder / "old").model.state_dict()
        for name, value in trainer.model.state_dict().items():
            assert torch.equal(value, expected[name])
    assert any(line.startswith("starting from") for line in lines)


def written_as(kind, folder, directory):
    """Write the run of `folder` as a run or as a Hugging Face directory, and return its file."""
    if kind == "run":
        shutil.copytree(folder / "old", directory)
        return RunDirectory(directory).checkpoint(6)
    export_model(*load_run(folder / "old"), "huggingface", directory)
    return directory / "model.safetensors"


@pytest.mark.parametrize("kind", ["run", "huggingface"])
def test_shapes_are_read_without_the_weights(folder, new_text, tmp_path, kind):
    file = written_as(kind, folder, tmp_path / "old")
    config = config_for(new_text, init_from=tmp_path / "old")
    expected, _ = start_from(config)
    size = file.stat().st_size
    content = bytearray(file.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    content[start:] = b"\xff" * (size - start)  # NaN
    file.write_bytes(content)
    with rejects(None):  # the checksum of a checkpoint, or the numbers of other files
        start_from(config)
    found = shape_from(config)
    assert (found.model, found.data) == (expected.model, expected.data)
    assert found.origin == dataclasses.replace(expected.origin, weights=None)
    check_start(found)
    with rejects("init_from", "0" * 64):
        shape_from(dataclasses.replace(config, origin=OriginConfig(weights="0" * 64)))


@pytest.mark.parametrize("kind", ["run", "huggingface"])
def test_shapes_in_the_files_are_compared_with_the_configuration(folder, new_text, tmp_path, kind):
    file = written_as(kind, folder, tmp_path / "old")
    config = config_for(new_text, init_from=tmp_path / "old")
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith("lm_head.weight"))
    for damage, shown in (
        ({name: tensors[name][:, :-1].contiguous()}, (name, "(280, 16), got (280, 15)")),
        ({name: None}, (name, "got none")),
    ):
        changed = {key: value for key, value in {**tensors, **damage}.items() if value is not None}
        save_file(changed, file)
        with rejects(None, *shown):
            shape_from(config)
    file.write_bytes(b"no header")
    with rejects(None, file):
        shape_from(config)


def test_a_resumed_run_equals_an_uninterrupted_one(folder, new_text, tmp_path):
    shutil.copytree(folder / "old", tmp_path / "old")
    config, _ = start_from(config_for(new_text, init_from=tmp_path / "old"))
    train(config, tmp_path / "whole")
    whole = outcome(tmp_path / "whole")
    path = tmp_path / "run"
    for step in (1, 5):  # before and after the first checkpoint
        with opened(config, path) as trainer:

            def crash(*_, trainer=trainer, step=step):
                if trainer.step == step - 1:
                    raise Crash

            trainer.optimizer.register_step_pre_hook(crash)
            with pytest.raises(Crash):
                trainer.fit()
        if step == 5:  # the checkpoints of the run are all that it needs
            (tmp_path / "old").rename(tmp_path / "moved")
        resume(path)
        files = outcome(path)
        for name in ("metrics.jsonl", "checkpoints/step_00000006.safetensors", "config.yaml"):
            assert files[name] == whole[name], (step, name)
        assert [name for name in files if "samples" in name] == [
            name for name in whole if "samples" in name
        ]
        shutil.rmtree(path)


def test_a_run_without_a_checkpoint_does_not_resume_from_another_origin(folder, new_text, tmp_path):
    shutil.copytree(folder / "old", tmp_path / "old")
    config, _ = start_from(config_for(new_text, init_from=tmp_path / "old"))
    with opened(config, tmp_path / "new"):
        pass
    old = RunDirectory(tmp_path / "old")
    shutil.copy(old.checkpoint(4), old.checkpoint(6))
    with rejects("init_from", config.origin.weights):
        resume(tmp_path / "new")
    shutil.rmtree(old.path)
    with pytest.raises(FileNotFoundError, match="old"):
        resume(tmp_path / "new")


@pytest.mark.parametrize("change", ["extended", "pruned", "both"])
def test_the_vectors_of_another_tokenizer_follow_their_tokens(folder, new_text, tmp_path, change):
    model, old = load_run(folder / "old")
    new = old
    if change != "extended":
        new = prune(new, 270, folder / "old.txt", num_workers=1).tokenizer
    if change != "pruned":
        start = (new.vocab, new.merges)
        vocab, merges = train_bpe(new_text, 300, [END_OF_TEXT], continue_from=start, num_workers=1)
        new = Tokenizer(vocab, merges, [END_OF_TEXT])
    new.save(tmp_path / "tokenizer")
    config, _ = start_from(
        config_for(new_text, init_from=folder / "old", tokenizer=tmp_path / "tokenizer")
    )
    assert config.model.vocab_size == new.vocab_size != old.vocab_size
    lines = []
    with opened(config, tmp_path / "new", lines) as trainer:
        tables = [
            (model.token_embeddings.weight, trainer.model.token_embeddings.weight),
            (model.lm_head.weight, trainer.model.lm_head.weight),
        ]
    kept = compared = 0
    for token_id, token in new.vocab.items():
        old_id = old.token_to_id(END_OF_TEXT if token == END_OF_TEXT.encode() else token)
        kept += old_id is not None
        with contextlib.suppress(UnicodeDecodeError):  # a token may end within a character
            ids = old.encode(token.decode()) if old_id is None else [old_id]
            compared += old_id is None
            for before, after in tables:
                torch.testing.assert_close(after[token_id], before[ids].mean(0))
    assert (compared > 3) == (change != "pruned")
    (line,) = [line for line in lines if line.startswith("vocabulary: ")]
    assert f"{kept:,} of {len(old):,} tokens keep their vectors" in line
    assert f"{new.vocab_size - kept:,} new ones start as the mean of their parts" in line


def huggingface_directory(name, directory, vocab_size, tokenizer):
    """Write a small random model made by transformers, with a tokenizer."""
    theirs = foreign_model(name, directory, vocab_size, max_shard_size="20KB")
    export_tokenizer(tokenizer, "huggingface", directory.with_name("tokenizer"))
    for file in directory.with_name("tokenizer").iterdir():
        shutil.copy(file, directory)
    return theirs


@pytest.mark.numerical(seeds=False)  # the bound of 1e-5 is far above the rounding errors
@pytest.mark.parametrize("name", ["SmolLM-135M", "Llama-3.2-1B", "Qwen2.5-0.5B", "Qwen3-0.6B"])
def test_losses_are_equal_at_each_door_of_a_fine_tuned_huggingface_model(name, new_text, tmp_path):
    tokenizer = byte_tokenizer(END_OF_TEXT, merges=[(b"a", b"t"), (b" ", b"c")])
    given = tmp_path / "given"
    huggingface_directory(name, given, tokenizer.vocab_size + 5, tokenizer)  # some ids are unused
    config, _ = start_from(
        dataclasses.replace(
            config_for(new_text, init_from=given),
            model=dataclasses.replace(SHAPE, context_length=16),
        ),
        given=["model.context_length"],
    )
    assert config.model.vocab_size == tokenizer.vocab_size + 5
    assert config.model.context_length == 16
    with opened(config, tmp_path / "run") as trainer:
        ids = windows_of(trainer)
        assert trainer.evaluate().loss == pytest.approx(loss_in_transformers(given, ids), abs=1e-5)
        result = trainer.fit()
    assert result.val_loss < RunDirectory(tmp_path / "run").read_metrics()[0]["val_loss"]
    model, own = load_run(tmp_path / "run")
    card = ModelCard(origin=config.origin_facts())
    export_model(model, own, "huggingface", tmp_path / "out", card=card)
    found = loss_in_transformers(tmp_path / "out", ids)
    assert found == pytest.approx(result.val_loss, abs=1e-5)
    assert load_model(tmp_path / "out").config == config.model
    page = (tmp_path / "out" / "README.md").read_text()
    assert "| started from | given |" in page
    assert config.origin.weights.split(", ")[0] in page


def test_a_tokenizer_without_the_end_of_text_token_gets_it_with_the_vector_of_its_own(
    new_text, tmp_path
):
    tokenizer = byte_tokenizer("<|end_of_text|>")
    given = tmp_path / "given"
    theirs = huggingface_directory("Llama-3.2-1B", given, tokenizer.vocab_size, tokenizer)
    content = json.loads((given / "config.json").read_text())
    (given / "config.json").write_text(json.dumps({**content, "eos_token_id": [256, 7]}))
    config, _ = start_from(config_for(new_text, init_from=given))
    with opened(config, tmp_path / "run") as trainer:
        assert trainer.tokenizer.special_token_id(END_OF_TEXT) == 257
        table = trainer.model.token_embeddings.weight
        assert torch.equal(table[:257], theirs.model.embed_tokens.weight)
        assert torch.equal(table[257], table[256])
    assert resume(tmp_path / "run").step == 6


def test_fields_that_contradict_the_model_are_refused(folder, new_text):
    old = folder / "old"
    wrong = dataclasses.replace(SHAPE, d_model=32, context_length=8, attention="reference")
    config = config_for(new_text, model=wrong, init_from=old)
    found, _ = start_from(config, ["model.context_length", "max_steps"])
    assert found.model == dataclasses.replace(
        load_config(RunDirectory(old).config).model, context_length=8, attention="reference"
    )
    with rejects("model.d_model", 16, 32):
        start_from(config, ["model.d_model"])


def test_what_is_not_a_model_is_refused_before_a_run_exists(folder, new_text, tmp_path):
    write(tmp_path / "weights.safetensors", "")
    for path in (tmp_path, tmp_path / "weights.safetensors", new_text):
        with rejects("init_from", path.name):
            find_origin(path)
    with rejects(None, tmp_path / "nowhere", kind=MissingFileError):
        find_origin(tmp_path / "nowhere")
    with rejects("init_from"):
        check_start(config_for(new_text, init_from=folder / "old"))
    tokenizer = extend(byte_tokenizer(END_OF_TEXT), ["cat", "mat"])
    huggingface_directory("Llama-2", tmp_path / "given", 257, tokenizer)
    with rejects(None, "257", tokenizer.vocab_size):
        find_origin(tmp_path / "given")


@pytest.mark.parametrize(("key", "value"), [("normalizer", "NFC"), ("pattern", "cl100k")])
def test_options_for_a_new_tokenizer_are_refused(key, value, folder, new_text):
    config = config_for(new_text, init_from=folder / "old")
    data = dataclasses.replace(config.data, **{key: value})
    with rejects(f"data.{key}", value):
        start_from(dataclasses.replace(config, data=data))


def test_instruction_data_adds_its_special_tokens_to_the_model(folder, tmp_path):
    rows = [{"ask": f"The cat {i}?", "say": "sat on the mat."} for i in range(100)]
    path = write(tmp_path / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    config = config_for(path, init_from=folder / "old")
    data = dataclasses.replace(config.data, prompt_field="ask", answer_field="say")
    config, _ = start_from(dataclasses.replace(config, data=data))
    assert config.model.vocab_size == SHAPE.vocab_size + 2
    train(config, tmp_path / "whole")
    with opened(config, tmp_path / "run") as trainer:
        old, tokenizer = load_run(folder / "old")
        new = trainer.tokenizer
        assert new.special_tokens == [END_OF_TEXT, "<|user|>", "<|assistant|>"]
        assert list(new.vocab.items())[: len(tokenizer)] == list(tokenizer.vocab.items())
        rows = trainer.model.state_dict()["lm_head.weight"]
        assert torch.equal(rows[: len(tokenizer)], old.state_dict()["lm_head.weight"])
        crash_in_step(trainer, 4)
    resume(tmp_path / "run")
    resumed, whole = outcome(tmp_path / "run"), outcome(tmp_path / "whole")
    names = [name for name in whole if not name.startswith("data/")]  # it names the directory
    assert {name: resumed[name] for name in names} == {name: whole[name] for name in names}


@pytest.mark.parametrize("damage", ["foreign", "not finite"])
def test_weights_that_cannot_be_used_are_refused_before_the_text_is_encoded(
    folder, new_text, tmp_path, damage
):
    shutil.copytree(folder / "old", tmp_path / "old")
    run = RunDirectory(tmp_path / "old")
    if damage == "foreign":
        path, match = run.path, "step_00000006"
        other = dataclasses.replace(SHAPE, d_ff=32)
        train(config_for(new_text, model=other), tmp_path / "other")
        shutil.copy(RunDirectory(tmp_path / "other").checkpoint(6), run.checkpoint(6))
    else:
        path, match = tmp_path / "exported", "lm_head"
        export_model(*load_run(run.path), "huggingface", path)
        tensors = load_file(path / "model.safetensors")
        tensors["lm_head.weight"][0, 0] = float("nan")
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    with rejects(None, match):
        start_from(config_for(new_text, init_from=path))
