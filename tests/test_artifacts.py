"""Kill writers, or let them fail, at any call: the complete old or new artifact remains."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

from cs336_basics._support import files  # noqa: E402
from cs336_basics.checkpoints import checkpoint, torch_file  # noqa: E402
from cs336_basics.checkpoints.run_dir import RunDirectory  # noqa: E402
from cs336_basics.formats import export_model, export_tokenizer, export_tokens  # noqa: E402
from cs336_basics.formats.huggingface import load_model  # noqa: E402
from cs336_basics.formats.megatron import load_indexed_dataset  # noqa: E402
from cs336_basics.formats.onnx import onnx_models  # noqa: E402
from cs336_basics.pretokenization import WordCounts  # noqa: E402
from cs336_basics.tokenizer import (  # noqa: E402
    Tokenizer,
    encode_file,
    load_document_starts,
    load_token_file,
)
from tests.faults import fail_at_every_call, restore, states_at_every_call  # noqa: E402
from tests.formats.models import random_model  # noqa: E402
from tests.tokenizer.examples import END, byte_tokenizer  # noqa: E402


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


def write_directory(path):
    with files.new_directory(path) as directory:
        (directory / "a").write_text("a")
        (directory / "folder").mkdir()
        (directory / "folder" / "b").write_text("b")


def check_directory(path):
    assert sorted(file.name for file in path.rglob("*")) == ["a", "b", "folder"]


def tokenizer(version):
    return byte_tokenizer(END, merges=[(b"a", b"b"), (b"ab", b"c")][:version])


def write_tokens(path, version):
    text = path.with_suffix(".txt")
    text.write_text(f"abc{END}" * version)
    encode_file(
        tokenizer(1), text, path.with_suffix(".npy"), num_workers=1, chunk_size=1, overwrite=True,
        document_starts=True,
    )  # fmt: skip


def read_tokens(path):
    path = path.with_suffix(".npy")
    starts = load_document_starts(path)
    tokens = load_token_file(path, tokenizer_hash=tokenizer(1).hash())
    assert tokens.tolist() == tokenizer(1).encode(f"abc{END}") * len(starts)
    return len(starts)


def write_counts(path, version):
    WordCounts.from_mapping({b"a": version}, "gpt2", []).save(path.with_suffix(".npz"))


def read_counts(path):
    return WordCounts.load(path.with_suffix(".npz"))[b"a"]


def write_metrics(path, version):
    run = RunDirectory(path)
    run.path.mkdir(exist_ok=True)
    if version == 1:
        for step in range(1, 4):
            run.append_metrics({"step": step}, {"seconds": 1.0})
    run.truncate_metrics(4 - version)


def read_metrics(path):
    rows = RunDirectory(path).read_metrics()
    # The metrics and the timings are replaced one after the other, so check only the metrics.
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    return 4 - len(rows)


def linear_model():
    model = torch.nn.Linear(2, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def exported_tokenizer(to, num_files):
    def write(path):
        export_tokenizer(tokenizer(2), to, path)

    def read(path):
        assert len(list(path.iterdir())) == num_files
        assert getattr(Tokenizer, f"from_{to}")(path).hash() == tokenizer(2).hash()

    return new(write, read)


def export_dataset(path):
    write_tokens(path.with_name("tokens"), 2)
    export_tokens(path.with_name("tokens.npy"), "megatron", path)


def check_dataset(path):
    assert len(load_indexed_dataset(path / "tokens")[1]) == 2


@functools.cache
def model(num_layers):
    size = {"context_length": 16, "d_model": 16, "num_heads": 2, "d_ff": 24}
    return random_model(vocab_size=259, num_layers=num_layers, **size)


def write_model(to, path, num_layers=2):
    export_model(model(num_layers), tokenizer(2), to, path, overwrite=to == "gguf")


def check_huggingface(path):
    assert {file.name for file in path.iterdir()} >= {"README.md", "generation_config.json"}
    load_model(path)


def export_onnx(path):
    import onnx

    with pytest.MonkeyPatch.context() as patch:
        # An empty graph, because exporting a real one takes seconds.
        patch.setattr(onnx_models, "_graph", lambda *_: onnx.ModelProto())
        write_model("onnx", path)


def check_onnx(path):
    import onnx

    assert (path / "tokenizer_config.json").exists()
    onnx.load(path / "model.onnx")


def read_gguf(path):
    import gguf

    return int(gguf.GGUFReader(path).get_field("llama.block_count").contents())


KINDS = {
    "JSON file": Artifact(
        lambda path, version: files.write_json(path, ["x" * 100] * version),
        lambda path: len(json.loads(path.read_text())),
    ),
    "directory": new(write_directory, check_directory),
    "tokenizer": Artifact(
        lambda path, version: tokenizer(version).save(path),
        lambda path: len(Tokenizer.from_directory(path).merges),
    ),
    "token file": Artifact(write_tokens, read_tokens),
    "word counts": Artifact(write_counts, read_counts),
    "metrics": Artifact(write_metrics, read_metrics),
    "checkpoint": Artifact(
        lambda path, version: checkpoint.write_checkpoint(path, *linear_model(), version),
        lambda path: checkpoint.read_checkpoint(path, *linear_model()),
    ),
    "course checkpoint": Artifact(
        lambda path, version: torch_file.save_checkpoint(*linear_model(), version, path),
        lambda path: torch_file.load_checkpoint(path, *linear_model()),
    ),
    "tokenizer for tiktoken": exported_tokenizer("tiktoken", 3),
    "tokenizer for GPT-2": exported_tokenizer("gpt2", 2),
    "tokenizer for Hugging Face": exported_tokenizer("huggingface", 2),
    "Megatron dataset": new(export_dataset, check_dataset),
    "Hugging Face model": new(lambda path: write_model("huggingface", path), check_huggingface),
    "ONNX model": new(export_onnx, check_onnx, "onnx", "onnxscript"),
    "GGUF model": Artifact(functools.partial(write_model, "gguf"), read_gguf, ("gguf",)),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_fault_at_any_call_leaves_the_old_artifact_or_the_new_one(tmp_path, name):
    """Write version 2 of an artifact over version 1, with a fault at each call."""
    artifact = KINDS[name]
    for library in artifact.needs:
        pytest.importorskip(library)
    folders = (tmp_path / str(number) for number in itertools.count())

    def prepared(version=1):
        path = next(folders) / "artifact"
        path.parent.mkdir()
        artifact.write(path, version)
        return path

    def version_after_fault(path):
        version = artifact.read(path)
        if version == 1:  # the next writer removes temporary files
            artifact.write(path, 2)
            assert artifact.read(path) == 2
            assert not list(path.parent.rglob(".*")), list(path.parent.rglob("*"))
        return version

    prepared(version=2)  # imports modules, whose files do not count
    path, seen = prepared(), set()
    for _ in fail_at_every_call(lambda: artifact.write(path, 2)):  # noqa: B023 -- the latest path
        seen.add(version_after_fault(path))
        path = prepared()
    assert artifact.read(path) == 2
    assert seen == {1, 2}
    path, seen = prepared(), set()
    for state in states_at_every_call(lambda: artifact.write(path, 2), path.parent):
        folder = next(folders)
        restore(state, folder)
        seen.add(version_after_fault(folder / path.name))
    assert seen == {1, 2}
