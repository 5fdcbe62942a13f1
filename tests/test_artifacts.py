"""Kill writers, or let them fail, at any call: the complete old or new artifact remains."""

from __future__ import annotations

import functools
import itertools
import os
from pathlib import Path

import pytest

from tests.faults import fail_at_every_call, kill_at_every_call, run_alone


class Json:
    """A JSON file."""

    def write(self, path, version):
        from cs336_basics._support.files import write_json

        write_json(path, ["x" * 100] * version)

    def read(self, path):
        import json

        return len(json.loads(path.read_text()))


class Directory:
    """A directory that does not exist in version 1."""

    def write(self, path, version):
        from cs336_basics._support.files import new_directory

        if version == 2:
            with new_directory(path) as directory:
                (directory / "a").write_text("a")
                (directory / "folder").mkdir()
                (directory / "folder" / "b").write_text("b")

    def read(self, path):
        return 2 if sorted(file.name for file in path.rglob("*")) == ["a", "b", "folder"] else 1


class SavedTokenizer:
    """A saved tokenizer."""

    def write(self, path, version):
        from cs336_basics.tokenizer import Tokenizer

        vocab = {byte: bytes([byte]) for byte in range(256)}
        merges = [(b"t", b"h"), (b"th", b"e")][:version]
        vocab.update({256 + i: b"".join(pair) for i, pair in enumerate(merges)})
        Tokenizer(vocab, merges).save(path)

    def read(self, path):
        from cs336_basics.tokenizer import Tokenizer

        return Tokenizer.from_directory(path).vocab_size - 256


class TokenFile:
    """A token file with document starts."""

    def write(self, path, version):
        from cs336_basics.tokenizer import Tokenizer, encode_rows

        tokenizer = Tokenizer({byte: bytes([byte]) for byte in range(256)}, [])
        rows = ["abc"] * version
        encode_rows(tokenizer, rows, path.with_suffix(".npy"), document_starts=True, overwrite=True)

    def read(self, path):
        from cs336_basics.tokenizer import load_document_starts

        return len(load_document_starts(path.with_suffix(".npy")))


class Counts:
    """A file of word counts."""

    def write(self, path, version):
        from cs336_basics.pretokenization import WordCounts

        WordCounts.from_mapping({b"a": version}, "gpt2", []).save(path.with_suffix(".npz"))

    def read(self, path):
        from cs336_basics.pretokenization import WordCounts

        return WordCounts.load(path.with_suffix(".npz"))[b"a"]


class RunFiles:
    """A run's metrics."""

    def write(self, path, version):
        from cs336_basics.checkpoints.run_dir import RunDirectory

        run = RunDirectory(path)
        run.path.mkdir(exist_ok=True)
        if version == 1:
            for step in range(1, 4):
                run.append_metrics({"step": step}, {"seconds": 1.0})
        run.truncate_metrics(4 - version)

    def read(self, path):
        from cs336_basics.checkpoints.run_dir import RunDirectory

        run = RunDirectory(path)
        rows = run.read_metrics()
        # The metrics and the timings are replaced one after the other, so check only the metrics.
        assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
        return 4 - len(rows)


class Checkpoint:
    """A run's checkpoint."""

    def run(self):
        import torch

        torch.set_num_threads(1)  # other threads do not exist in a forked child
        model = torch.nn.Linear(2, 2)
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    def write(self, path, version):
        from cs336_basics.checkpoints.checkpoint import write_checkpoint

        write_checkpoint(path, *self.run(), version)

    def read(self, path):
        from cs336_basics.checkpoints.checkpoint import read_checkpoint

        return read_checkpoint(path, *self.run())


class TorchFile(Checkpoint):
    """A checkpoint in the course's format."""

    def write(self, path, version):
        from cs336_basics.checkpoints.torch_file import save_checkpoint

        save_checkpoint(*self.run(), version, path)

    def read(self, path):
        from cs336_basics.checkpoints.torch_file import load_checkpoint

        return load_checkpoint(path, *self.run())


class ExportToTiktoken:
    """An exported tokenizer that does not exist in version 1."""

    to, num_files = "tiktoken", 3

    def write(self, path, version):
        from cs336_basics.formats import export_tokenizer

        if version == 2:
            export_tokenizer(tokenizer_to_export(), self.to, path)

    def read(self, path):
        from cs336_basics.tokenizer import Tokenizer

        if not path.exists():
            return 1
        assert len(list(path.iterdir())) == self.num_files
        found = getattr(Tokenizer, f"from_{self.to}")(path)
        assert found.hash() == tokenizer_to_export().hash()
        return 2


class ExportToGpt2(ExportToTiktoken):
    to, num_files = "gpt2", 2


class ExportToHuggingFace(ExportToTiktoken):
    to, num_files = "huggingface", 2


class ExportTokensToMegatron:
    """An indexed dataset that does not exist in version 1."""

    def write(self, path, version):
        from cs336_basics.formats import export_tokens

        TokenFile().write(path.with_name("tokens"), 2)
        if version == 2:
            export_tokens(path.with_name("tokens.npy"), "megatron", path)

    def read(self, path):
        from cs336_basics.formats.megatron import load_indexed_dataset

        if not path.exists():
            return 1
        assert len(load_indexed_dataset(path / "tokens")[1]) == 2
        return 2


class ExportModelToHuggingFace:
    """An exported model that does not exist in version 1."""

    to, needs = "huggingface", ()

    def write(self, path, version):
        from cs336_basics.formats import export_model

        if version == 2:
            export_model(model_to_export(2), tokenizer_to_export(), self.to, path)

    def read(self, path):
        from cs336_basics.formats.huggingface import load_model

        if not path.exists():
            return 1
        assert {file.name for file in path.iterdir()} >= {"README.md", "generation_config.json"}
        load_model(path)
        return 2


class ExportModelToOnnx(ExportModelToHuggingFace):
    to, needs = "onnx", ("onnx", "onnxscript")

    def write(self, path, version):
        from cs336_basics.formats.onnx import onnx_models

        if not hasattr(onnx_models._graph, "cache_info"):
            onnx_models._graph = functools.cache(onnx_models._graph)
        onnx_models._graph(model_to_export(2), False)  # cached, because it takes seconds
        super().write(path, version)

    def read(self, path):
        import onnx

        if not path.exists():
            return 1
        assert (path / "tokenizer_config.json").exists()
        onnx.load(path / "model.onnx")
        return 2


class ExportModelToGguf(ExportModelToHuggingFace):
    """A GGUF file that replaces an older one."""

    to, needs = "gguf", ("gguf",)

    def write(self, path, version):
        from cs336_basics.formats import export_model

        model = model_to_export(version)
        export_model(model, tokenizer_to_export(), self.to, path, overwrite=True)

    def read(self, path):
        import gguf

        return int(gguf.GGUFReader(path).get_field("llama.block_count").contents())


@functools.cache
def tokenizer_to_export():
    from tests.formats.exported import byte_tokenizer

    return byte_tokenizer("<|endoftext|>", merges=[(b"a", b"b")])


@functools.cache
def model_to_export(num_layers):
    import torch

    from tests.formats.models import random_model

    torch.set_num_threads(1)
    size = {"context_length": 16, "d_model": 16, "num_heads": 2, "d_ff": 24}
    return random_model(vocab_size=258, num_layers=num_layers, **size)


KINDS = {
    kind.__name__: kind
    for kind in (Json, Directory, SavedTokenizer, TokenFile, Counts, RunFiles, Checkpoint,
                 TorchFile, ExportToTiktoken, ExportToGpt2, ExportToHuggingFace,
                 ExportModelToHuggingFace, ExportModelToOnnx, ExportModelToGguf,
                 ExportTokensToMegatron)
}  # fmt: skip


def check_every_call(name, folder):
    """Write version 2 of an artifact over version 1, with a fault at each call."""
    os.fsync = lambda handle: None  # the real fsync would take most of the time
    artifact = KINDS[name]()
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
    for library in getattr(KINDS[name], "needs", ()):
        pytest.importorskip(library)
    run_alone(check_every_call, name, tmp_path)
