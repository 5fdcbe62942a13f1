"""Every kind of file and directory: how it is written and loaded."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from cs336_basics._support import files
from cs336_basics.checkpoints import checkpoint, torch_file
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.counting import WordCounts
from cs336_basics.formats import export_model, export_tokenizer, export_tokens
from cs336_basics.formats.huggingface import load_model
from cs336_basics.formats.megatron import load_indexed_dataset
from cs336_basics.formats.onnx import onnx_models
from cs336_basics.tokenizer import Tokenizer, encode_file, load_document_starts, load_token_file
from tests.formats.exported import READERS
from tests.formats.models import random_model
from tests.tokenizer.examples import END, byte_tokenizer


class Artifact(NamedTuple):
    """A kind of file or directory.

    Attributes:
        write: Function of a path and a version, 1 or 2, that writes this version.
        load: Function of a path that returns its content, in a form that can be compared.
        needs: Libraries that the kind needs.
    """

    write: Callable[[Path, int], Any]
    load: Callable[[Path], Any]
    needs: tuple[str, ...] = ()


def new(write, load, *needs):
    """Return a kind of directory whose version 1 is missing. Its content includes all names."""

    def write_version(path, version):
        if version == 2:
            write(path)

    def load_version(path):
        names = sorted(str(p.relative_to(path)) for p in path.rglob("*"))
        return (names, load(path)) if path.exists() else None

    return Artifact(write_version, load_version, needs)


def tokenizer(version, **options):
    return byte_tokenizer(END, merges=[(b"a", b"b"), (b"ab", b"c")][:version], **options)


def saved_tokenizer(**options):
    return Artifact(
        lambda path, version: tokenizer(version, **options).save(path),
        lambda path: Tokenizer.from_directory(path).hash(),
    )


def exported_tokenizer(to):
    def load(path):
        return READERS[to](path).hash() == tokenizer(2).hash()

    return new(lambda path: export_tokenizer(tokenizer(2), to, path), load)


def write_tokens(path, version):
    text = path.with_suffix(".txt")
    text.write_text(f"abc{END}" * version)
    encode_file(
        tokenizer(1), text, path.with_suffix(".npy"), num_workers=1, chunk_size=1, overwrite=True,
        document_starts=True,
    )  # fmt: skip


def load_tokens(path):
    path = path.with_suffix(".npy")
    tokens = load_token_file(path, tokenizer_hash=tokenizer(1).hash())
    return tokens.tolist(), load_document_starts(path).tolist()


def write_counts(path, version):
    counts = WordCounts.from_mapping({b"a": version, b"bc": 5}, "gpt2", [END])
    counts.save(path.with_suffix(".npz"))


def export_dataset(path):
    write_tokens(path.with_name("tokens"), 2)
    export_tokens(path.with_name("tokens.npy"), "megatron", path)


def load_dataset(path):
    return [array.tolist() for array in load_indexed_dataset(path / "tokens")]


def write_metrics(path, version):
    run = RunDirectory(path)
    run.path.mkdir(exist_ok=True)
    if version == 1:
        for step in range(1, 4):
            run.append_metrics({"step": step, "train_loss": 2.0}, {"seconds": 1.0})
    run.truncate_metrics(4 - version)


def load_metrics(path):
    run = RunDirectory(path)
    run.seconds()
    # The metrics and the timings are replaced one after the other, so compare only the metrics.
    return run.best(), [row["step"] for row in run.read_metrics()]


def linear_model(value=0.0):
    """Return a model with equal weights, and an optimizer after a step."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    for parameter in model.parameters():
        parameter.data.fill_(value)
    return model, optimizer


def load_linear_model(load, path):
    model, optimizer = linear_model()
    step = load(path, model, optimizer)
    weights = [value.tolist() for value in model.state_dict().values()]
    state = optimizer.state_dict()
    momenta = [entry["momentum_buffer"].tolist() for entry in state["state"].values()]
    return step, weights, momenta, state["param_groups"]


def load_huggingface(path):
    loaded = load_model(path)
    return loaded.config, {name: value.tolist() for name, value in loaded.state_dict().items()}


@functools.cache
def model(num_layers):
    size = {"context_length": 16, "d_model": 16, "num_heads": 2, "d_ff": 24}
    return random_model(vocab_size=259, num_layers=num_layers, **size)


def write_model(to, path, num_layers=2):
    export_model(model(num_layers), tokenizer(2), to, path, overwrite=to == "gguf")


KINDS = {
    "tokenizer": saved_tokenizer(),
    "tokenizer that other libraries reject": saved_tokenizer(pattern=r"\w+|\W"),
    **{f"tokenizer for {to}": exported_tokenizer(to) for to in READERS},
    "token file": Artifact(write_tokens, load_tokens),
    "Megatron dataset": new(export_dataset, load_dataset),
    "word counts": Artifact(
        write_counts, lambda path: dict(WordCounts.load(path.with_suffix(".npz")))
    ),
    "metrics": Artifact(write_metrics, load_metrics),
    "checkpoint": Artifact(
        lambda path, version: checkpoint.write_checkpoint(path, *linear_model(version), version),
        functools.partial(load_linear_model, checkpoint.read_checkpoint),
    ),
    "course checkpoint": Artifact(
        lambda path, version: torch_file.save_checkpoint(*linear_model(version), version, path),
        functools.partial(load_linear_model, torch_file.load_checkpoint),
    ),
    "Hugging Face model": new(functools.partial(write_model, "huggingface"), load_huggingface),
}
"""The kinds that this library loads."""


def write_directory(path):
    with files.new_directory(path) as directory:
        (directory / "a").write_text("a")
        (directory / "folder").mkdir()
        (directory / "folder" / "b").write_text("b")


def export_onnx(path):
    import onnx

    with pytest.MonkeyPatch.context() as patch:
        # An empty graph, because exporting a real one takes seconds.
        patch.setattr(onnx_models, "_graph", lambda *_: onnx.ModelProto())
        write_model("onnx", path)


def load_onnx(path):
    import onnx

    return onnx.load(path / "model.onnx").producer_name


def load_gguf(path):
    import gguf

    return gguf.GGUFReader(path).get_field("llama.block_count").contents()


WRITTEN = {
    "JSON file": Artifact(
        lambda path, version: files.write_json(path, ["x" * 100] * version),
        lambda path: json.loads(path.read_text()),
    ),
    "directory": new(write_directory, os.listdir),
    "ONNX model": new(export_onnx, load_onnx, "onnx", "onnxscript"),
    "GGUF model": Artifact(functools.partial(write_model, "gguf"), load_gguf, ("gguf",)),
}
"""The kinds that this library only writes."""
