"""Kill writers, or let them fail, at any call: the complete old or new artifact remains."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults import fail_at_every_call, kill_at_every_call, run_alone

# Imports are inside functions, because most artifacts do not need torch, which slows forks down.


class Artifact(NamedTuple):
    """A kind of file or directory. `read` returns the version, 1 or 2, that `write` wrote."""

    write: Callable[[Path, int], Any]
    read: Callable[[Path], int]
    needs: tuple[str, ...] = ()


def new(write, read, *needs):
    """Return an artifact whose version 1 is a missing path. `read` checks version 2."""

    def write_version(path, version):
        if version == 2:
            write(path)

    def read_version(path):
        if not path.exists():
            return 1
        read(path)
        return 2

    return Artifact(write_version, read_version, needs)


def write_json(path, version):
    from cs336_basics._support.files import write_json

    write_json(path, ["x" * 100] * version)


def read_json(path):
    import json

    return len(json.loads(path.read_text()))


def write_directory(path):
    from cs336_basics._support.files import new_directory

    with new_directory(path) as directory:
        (directory / "a").write_text("a")
        (directory / "folder").mkdir()
        (directory / "folder" / "b").write_text("b")


def check_directory(path):
    assert sorted(file.name for file in path.rglob("*")) == ["a", "b", "folder"]


def tokenizer(version):
    from tests.tokenizer.examples import byte_tokenizer

    return byte_tokenizer("<|endoftext|>", merges=[(b"a", b"b"), (b"ab", b"c")][:version])


def read_tokenizer(path):
    from cs336_basics.tokenizer import Tokenizer

    return len(Tokenizer.from_directory(path).merges)


def write_tokens(path, version):
    from cs336_basics.tokenizer import encode_file

    text = path.with_suffix(".txt")
    text.write_text("abc<|endoftext|>" * version)
    encode_file(
        tokenizer(1), text, path.with_suffix(".npy"), num_workers=1, chunk_size=1, overwrite=True,
        document_starts=True,
    )  # fmt: skip


def read_tokens(path):
    from cs336_basics.tokenizer import load_document_starts, load_token_file

    path = path.with_suffix(".npy")
    starts = load_document_starts(path)
    tokens = load_token_file(path, tokenizer_hash=tokenizer(1).hash())
    assert tokens.tolist() == tokenizer(1).encode("abc<|endoftext|>") * len(starts)
    return len(starts)


def write_counts(path, version):
    from cs336_basics.pretokenization import WordCounts

    WordCounts.from_mapping({b"a": version}, "gpt2", []).save(path.with_suffix(".npz"))


def read_counts(path):
    from cs336_basics.pretokenization import WordCounts

    return WordCounts.load(path.with_suffix(".npz"))[b"a"]


def write_metrics(path, version):
    from cs336_basics.checkpoints.run_dir import RunDirectory

    run = RunDirectory(path)
    run.path.mkdir(exist_ok=True)
    if version == 1:
        for step in range(1, 4):
            run.append_metrics({"step": step}, {"seconds": 1.0})
    run.truncate_metrics(4 - version)


def read_metrics(path):
    from cs336_basics.checkpoints.run_dir import RunDirectory

    rows = RunDirectory(path).read_metrics()
    # The metrics and the timings are replaced one after the other, so check only the metrics.
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    return 4 - len(rows)


def linear_model():
    import torch

    torch.set_num_threads(1)  # other threads do not exist in a forked child
    model = torch.nn.Linear(2, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def write_checkpoint(path, version):
    from cs336_basics.checkpoints.checkpoint import write_checkpoint

    write_checkpoint(path, *linear_model(), version)


def read_checkpoint(path):
    from cs336_basics.checkpoints.checkpoint import read_checkpoint

    return read_checkpoint(path, *linear_model())


def write_torch_file(path, version):
    from cs336_basics.checkpoints.torch_file import save_checkpoint

    save_checkpoint(*linear_model(), version, path)


def read_torch_file(path):
    from cs336_basics.checkpoints.torch_file import load_checkpoint

    return load_checkpoint(path, *linear_model())


def exported_tokenizer(to, num_files):
    def write(path):
        from cs336_basics.formats import export_tokenizer

        export_tokenizer(tokenizer(2), to, path)

    def read(path):
        from cs336_basics.tokenizer import Tokenizer

        assert len(list(path.iterdir())) == num_files
        assert getattr(Tokenizer, f"from_{to}")(path).hash() == tokenizer(2).hash()

    return new(write, read)


def export_dataset(path):
    from cs336_basics.formats import export_tokens

    write_tokens(path.with_name("tokens"), 2)
    export_tokens(path.with_name("tokens.npy"), "megatron", path)


def check_dataset(path):
    from cs336_basics.formats.megatron import load_indexed_dataset

    assert len(load_indexed_dataset(path / "tokens")[1]) == 2


@functools.cache
def model(num_layers):
    import torch

    from tests.formats.models import random_model

    torch.set_num_threads(1)
    size = {"context_length": 16, "d_model": 16, "num_heads": 2, "d_ff": 24}
    return random_model(vocab_size=259, num_layers=num_layers, **size)


def export_model(to, path, num_layers=2):
    from cs336_basics.formats import export_model

    export_model(model(num_layers), tokenizer(2), to, path, overwrite=to == "gguf")


def check_huggingface(path):
    from cs336_basics.formats.huggingface import load_model

    assert {file.name for file in path.iterdir()} >= {"README.md", "generation_config.json"}
    load_model(path)


def export_onnx(path):
    from cs336_basics.formats.onnx import onnx_models

    if not hasattr(onnx_models._graph, "cache_info"):
        onnx_models._graph = functools.cache(onnx_models._graph)
    onnx_models._graph(model(2), False)  # cached, because it takes seconds
    export_model("onnx", path)


def check_onnx(path):
    import onnx

    assert (path / "tokenizer_config.json").exists()
    onnx.load(path / "model.onnx")


def read_gguf(path):
    import gguf

    return int(gguf.GGUFReader(path).get_field("llama.block_count").contents())


KINDS = {
    "JSON file": Artifact(write_json, read_json),
    "directory": new(write_directory, check_directory),
    "tokenizer": Artifact(lambda path, version: tokenizer(version).save(path), read_tokenizer),
    "token file": Artifact(write_tokens, read_tokens),
    "word counts": Artifact(write_counts, read_counts),
    "metrics": Artifact(write_metrics, read_metrics),
    "checkpoint": Artifact(write_checkpoint, read_checkpoint),
    "course checkpoint": Artifact(write_torch_file, read_torch_file),
    "tokenizer for tiktoken": exported_tokenizer("tiktoken", 3),
    "tokenizer for GPT-2": exported_tokenizer("gpt2", 2),
    "tokenizer for Hugging Face": exported_tokenizer("huggingface", 2),
    "Megatron dataset": new(export_dataset, check_dataset),
    "Hugging Face model": new(lambda path: export_model("huggingface", path), check_huggingface),
    "ONNX model": new(export_onnx, check_onnx, "onnx", "onnxscript"),
    "GGUF model": Artifact(functools.partial(export_model, "gguf"), read_gguf, ("gguf",)),
}


def check_every_call(name, folder):
    """Write version 2 of an artifact over version 1, with a fault at each call."""
    os.fsync = lambda handle: None  # the real fsync would take most of the time
    artifact = KINDS[name]
    paths = (Path(folder, str(number), "artifact") for number in itertools.count())
    for faults in (
        fail_at_every_call,
        kill_at_every_call,
        functools.partial(kill_at_every_call, after=True),
    ):
        path, seen = prepared(artifact, paths), []
        for _ in faults(lambda: artifact.write(path, 2)):  # noqa: B023 -- use the latest path
            seen.append(artifact.read(path))
            if seen[-1] == 1:  # the next writer removes temporary files
                artifact.write(path, 2)
                assert artifact.read(path) == 2
                assert not list(path.parent.rglob(".*")), list(path.parent.rglob("*"))
            path = prepared(artifact, paths)
        assert artifact.read(path) == 2
        assert set(seen) == {1, 2}


def prepared(artifact, paths):
    path = next(paths)
    path.parent.mkdir()
    artifact.write(path, 1)
    artifact.read(path)  # imports modules once, before the children need them
    return path


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("name", KINDS)
def test_a_fault_at_any_call_leaves_the_old_artifact_or_the_new_one(tmp_path, name):
    for library in KINDS[name].needs:
        pytest.importorskip(library)
    run_alone(check_every_call, name, tmp_path)
