"""Test that every loader either loads a damaged file or raises a short ValueError or OSError."""

from __future__ import annotations

import contextlib
import json
import random
import re
import time
import tracemalloc
import warnings

import pytest

torch = pytest.importorskip("torch")

from cs336_basics.checkpoints.checkpoint import read_checkpoint, write_checkpoint  # noqa: E402
from cs336_basics.checkpoints.run_dir import RunDirectory  # noqa: E402
from cs336_basics.checkpoints.torch_file import load_checkpoint, save_checkpoint  # noqa: E402
from cs336_basics.data.preparation_record import Stages  # noqa: E402
from cs336_basics.formats import export_model, export_tokenizer, export_tokens  # noqa: E402
from cs336_basics.formats.huggingface import load_model  # noqa: E402
from cs336_basics.formats.megatron import load_indexed_dataset  # noqa: E402
from cs336_basics.model import ModelConfig, TransformerLM  # noqa: E402
from cs336_basics.pretokenization import WordCounts  # noqa: E402
from cs336_basics.tokenizer import (  # noqa: E402
    Tokenizer,
    encode_file,
    load_document_starts,
    load_token_file,
)
from cs336_basics.training.config import TrainConfig  # noqa: E402
from cs336_basics.training.config_files import config_to_yaml, load_config  # noqa: E402
from tests.tokenizer.examples import END, small_tokenizer  # noqa: E402

MAX_SECONDS = 5
MAX_BYTES = 30_000_000
"""Maximum memory of Python objects, in bytes. The files are at most about 10 KB each."""

SPECIAL_NUMBERS = [b"NaN", b"Infinity", b"-1", b"1e999", b"9" * 400, b"1" + b"0" * 5000, b"true"]
SPECIAL_VALUES = [b"null", b'""', b"[]", b"{}", b'"\\ud800"', b'"' + b"x" * 5000 + b'"', b"[" * 500]


def tiny_run():
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


class Files:
    """A directory with one file of each kind that the library reads, and a loader for each file."""

    def __init__(self, directory):
        tokenizer = small_tokenizer()
        tokens, saved, own = (directory / name for name in ("tokens", "saved", "own"))
        tokenizer.save(saved)
        small_tokenizer(pattern=r"\w+|\W").save(own)  # other libraries reject this pattern
        tokens.mkdir()
        (directory / "text.txt").write_text(("It's the cat" + END) * 20)
        encode_file(
            tokenizer, directory / "text.txt", tokens / "a.npy", num_workers=1, document_starts=True
        )
        counts = WordCounts.from_mapping({b"a": 3, b"bc": 5}, "gpt2", [END])
        counts.save(directory / "c.npz")
        save_checkpoint(*tiny_run(), 3, directory / "c.pt")
        write_checkpoint(directory / "step.safetensors", *tiny_run(), 3)
        (directory / "config.yaml").write_text(config_to_yaml(TrainConfig()))
        run = RunDirectory(directory / "run")
        run.path.mkdir()
        for step in (1, 2, 3):
            run.append_metrics({"step": step, "train_loss": 2.0}, {"seconds": 1.0 * step})
        stages = directory / "stages.json"
        stages.write_text(json.dumps({"a": {"inputs": {"x": 1}, "sha256": "0" * 64}}))

        exported = directory / "exported"
        export_tokenizer(tokenizer, "huggingface", exported / "hf")
        export_tokenizer(tokenizer, "tiktoken", exported / "tt")
        export_tokenizer(tokenizer, "gpt2", exported / "gp")
        export_tokens(tokens / "a.npy", "megatron", exported / "mg")
        config = ModelConfig(tokenizer.vocab_size, 8, d_model=4, num_layers=1, num_heads=1, d_ff=4)
        export_model(TransformerLM(config), tokenizer, "huggingface", exported / "model")

        def load_tokens():
            starts = load_document_starts(tokens / "a.npy")
            # Read every page. The loader does not check the values.
            int(load_token_file(tokens / "a.npy").sum()) + int(starts.sum())

        def load_run_files():
            run.best()
            run.seconds()
            run.read_metrics()

        def run_stage():
            inputs = {"x": 1}
            stages = Stages(directory, str)
            with contextlib.suppress(ValueError):  # the damaged record lists other inputs
                stages.run("a", inputs, [directory / "text.txt"], lambda: None)

        self.loaders = {
            saved / "tokenizer.json": lambda: Tokenizer.from_directory(saved),
            own / "tokenizer.json": lambda: Tokenizer.from_directory(own),
            tokens / "a.npy": load_tokens,
            directory / "c.npz": lambda: WordCounts.load(directory / "c.npz"),
            directory / "c.pt": lambda: load_checkpoint(directory / "c.pt", *tiny_run()),
            directory / "step.safetensors": lambda: read_checkpoint(
                directory / "step.safetensors", *tiny_run()
            ),
            directory / "config.yaml": lambda: load_config(directory / "config.yaml"),
            **dict.fromkeys((run.timings, run.metrics), load_run_files),
            stages: run_stage,
            exported / "hf" / "tokenizer.json": lambda: Tokenizer.from_huggingface(exported / "hf"),
            **{
                exported / "tt" / name: lambda: Tokenizer.from_tiktoken(exported / "tt")
                for name in ("ranks.tiktoken", "encoding.json")
            },
            **{
                exported / "gp" / name: lambda: Tokenizer.from_gpt2(exported / "gp")
                for name in ("vocab.json", "merges.txt")
            },
            **{
                exported / "mg" / name: lambda: load_indexed_dataset(exported / "mg" / "tokens")
                for name in ("tokens.idx", "tokens.bin")
            },
            **{
                exported / "model" / name: lambda: load_model(exported / "model")
                for name in ("config.json", "model.safetensors")
            },
        }


def mutated(content, chooser):
    """Return a file's content after damaging it in one to three random ways."""
    content = bytearray(content)
    for _ in range(chooser.randint(1, 3)):
        start = chooser.randrange(len(content) + 1)
        size = chooser.choice([1, 1, 2, 8, 60])
        kind = chooser.randrange(7)
        if kind == 0 and content:
            content[start % len(content)] ^= 1 << chooser.randrange(8)
        elif kind == 1:
            content[start : start + size] = chooser.randbytes(size)
        elif kind == 2:
            del content[start : start + size]
        elif kind == 3:
            content[start:start] = content[max(0, start - size) : start] * chooser.choice([1, 50])
        elif kind == 4:
            content[start:] = b""
        elif kind == 5:
            replace_value(content, chooser)
        else:
            content[start:start] = chooser.choice(
                [b"\x00", b"\xff", b"\n", b"*a", b"&a ", b'"', b"[{"]
            )
    return bytes(content)


def replace_value(content, chooser):
    """Replace a random number or string in a text file with an unusual value."""
    found = list(re.finditer(rb'-?\d+(\.\d+)?|"[^"\n]*"', bytes(content)))
    if found:
        match = chooser.choice(found)
        content[match.start() : match.end()] = chooser.choice(SPECIAL_NUMBERS + SPECIAL_VALUES)


def load_damaged(files, chooser):
    """Damage a random file, load it and check the error, if any. Return whether there was one."""
    path, load = chooser.choice(list(files.loaders.items()))
    whole = path.read_bytes()
    damaged = mutated(whole, chooser)
    path.write_bytes(damaged)
    start = time.perf_counter()
    tracemalloc.reset_peak()
    try:
        load()
        return False
    except (ValueError, OSError) as error:
        message = str(error)
        assert "\n" not in message.strip(), message
        assert len(message) < 1000, message
        assert path.name in message or path.parent.name in message, message
        return True
    except RuntimeError as error:
        # torch raises RuntimeError for valid weights from a different model.
        if path.suffix not in (".pt", ".safetensors"):
            raise AssertionError from error
        return True
    finally:
        assert time.perf_counter() - start < MAX_SECONDS, damaged
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES, damaged
        path.write_bytes(whole)


def damage_files(tmp_path, seed, seconds):
    files = Files(tmp_path)
    for load in files.loaders.values():
        load()
    chooser = random.Random(seed)
    end, number, refused = time.perf_counter() + seconds, 0, 0
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            while time.perf_counter() < end or number < 50:
                refused += load_damaged(files, chooser)
                number += 1
    except BaseException as error:
        error.args = (*error.args, f"seed {seed}, file {number}")
        raise
    finally:
        tracemalloc.stop()
    assert refused > number // 3
    return number


def test_damaged_files_are_loaded_or_raise_a_short_error(tmp_path):
    damage_files(tmp_path, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_damaged_files_are_loaded_or_raise_a_short_error(tmp_path, seed):
    damage_files(tmp_path, seed, 60)
