"""Rows about files: damage, kills, and machines without space or file descriptors."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.campaign.row import Case, row

ROOT = Path(__file__).parents[2]


@functools.cache
def _loaders() -> tuple[Any, dict]:
    """Write a file of every kind that is loaded, once in a process."""
    pytest.importorskip("torch")
    from tests.test_hostile_files import write_files

    folder = tempfile.TemporaryDirectory(prefix="campaign-")
    loaders = write_files(Path(folder.name))
    for load in loaders.values():
        load()  # imports modules, whose memory does not count
    return folder, loaders


@row("damaged files", in_normal_run=False, share=2)  # tests/test_hostile_files.py has a slice
def damaged_files(case: Case) -> int:
    """Damaged files are loaded or refused with one line, in at most 5 s and 30 MB."""
    _, loaders = _loaders()
    from tests.test_hostile_files import load_damaged

    tracemalloc.start()
    try:
        refused = sum(load_damaged(loaders, case.chooser) for _ in range(10))
    finally:
        tracemalloc.stop()
    case.notes["files that were refused"] += refused
    return 10


@row("files", in_normal_run=False, share=4)
def guided_files(case: Case) -> int:
    """The same for files that Atheris changes so that loading them reaches new code."""
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("needs Atheris; it has no pin, because few systems have wheels")
    words = [case.folder, case.chooser.randrange(2**31), 40]
    done = subprocess.run(
        [sys.executable, "-m", "tests.campaign.guided", *map(str, words)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    return _num_inputs(done)


def _num_inputs(done: subprocess.CompletedProcess[bytes]) -> int:
    """Return how many inputs libFuzzer has tried."""
    output = done.stdout.decode(errors="replace")
    assert done.returncode == 0, output[-6000:]
    return int(output.partition("stat::number_of_executed_units:")[2].split()[0])


@functools.cache
def _fuzzer() -> tuple[Any, str]:
    """Build tests/native/fuzz.cpp, once in a process."""
    from tests.native.compiler import compiler

    folder = tempfile.TemporaryDirectory(prefix="campaign-")
    program = f"{folder.name}/fuzz"
    options = ["-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
    source = ROOT / "tests" / "native" / "fuzz.cpp"
    done = subprocess.run([*compiler("clang++"), *options, source, "-o", program], check=False)
    if done.returncode:
        pytest.skip("needs a clang++ with libFuzzer (Debian packages clang and libclang-rt-14-dev)")
    return folder, program


@row("inputs", in_normal_run=False, share=4)
def guided_native(case: Case) -> int:
    """The C++ readers, UTF-8, normalization and the scanner, with inputs that reach new code."""
    _, program = _fuzzer()
    options = [f"-seed={case.chooser.randrange(1, 2**31)}", "-max_total_time=30", "-max_len=4000"]
    for i, text in enumerate(SEEDS):
        (case.folder / f"seed-{i}").write_bytes(text)
    options += ["-rss_limit_mb=4096", "-print_final_stats=1", f"-artifact_prefix={case.folder}/"]
    words = [program, *options, str(case.folder)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return _num_inputs(done)


SEEDS = [
    b'\x00{"added_tokens": [{"id": 7}], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, '
    b'"ab": 4, "\\u0120": 3, "\xc4\xa0\\"": 6, "\xe7\x8c\xab": 9}, "merges": '
    b'["a b", ["ab", "a"]]}, "x": [[]]}',
    b"\x01YQ== 0\nYg== 1\nYWI= 256\neHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4 300\n",
    b"\x02a\xe7\x8c\xab\xf0\x9f\x98\x80\xff\xed\xa0\x80\xe7\x8c",
    *(b"\x03%c" % i + "It's 123 cats!\r\n\n  é猫\u0301😀 \tA1".encode() * 20 for i in range(12)),
    b"\x04" + "e\u0301\u0323 é \u1100\u1161\u11a8 \u304b\u3099 \ufdfa \U0001d15e ".encode() * 9,
]
"""Inputs of tests/native/fuzz.cpp: its first byte chooses the code, the next one a pattern."""


def _kinds() -> list[str]:
    pytest.importorskip("torch")
    from tests.artifacts import KINDS, WRITTEN

    return list(KINDS | WRITTEN)


@functools.cache
def _old_and_new(name: str) -> tuple[Any, Any, float]:
    """Return both versions of a kind of artifact, and the seconds to write one over the other."""
    from tests.artifacts import KINDS, WRITTEN

    artifact = (KINDS | WRITTEN)[name]
    for library in artifact.needs:
        pytest.importorskip(library)
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        path, again = Path(folder) / "1" / "artifact", Path(folder) / "2" / "artifact"
        path.parent.mkdir()
        again.parent.mkdir()
        artifact.write(path, 1)
        old = artifact.load(path)
        artifact.write(path, 2)  # imports modules
        new = artifact.load(path)
        artifact.write(again, 1)
        start = time.monotonic()
        artifact.write(again, 2)
        return old, new, time.monotonic() - start


_WITHOUT_CHECKSUM = {
    ("Hugging Face model", "config.json"),
    ("Hugging Face model", "model.safetensors"),
    ("Megatron dataset", "tokens.bin"),
    ("metrics", "metrics.jsonl"),
    ("token file", "artifact.npy"),
    ("tokenizer", "tokenizer.json"),
    ("tokenizer for gpt2", "merges.txt"),
    ("tokenizer for gpt2", "vocab.json"),
    ("tokenizer for huggingface", "tokenizer.json"),
    ("tokenizer for tiktoken", "encoding.json"),
    ("tokenizer for tiktoken", "ranks.tiktoken"),
    ("tokenizer that other libraries reject", "tokenizer.json"),
}
"""Kinds of artifacts, and their files where a changed bit can be another value, as listed in
docs/guarantees.md."""

_COMPLETE_AFTER_EACH_LINE = {
    ("metrics", "metrics.jsonl"),
    ("tokenizer for gpt2", "merges.txt"),
    ("tokenizer for tiktoken", "ranks.tiktoken"),
}
"""Kinds and files whose beginning is a valid file, too."""


@row("truncated and changed files", share=2)
def corruption(case: Case) -> int:
    """A truncated file or one with a flipped bit is refused, or its content is the original one."""
    pytest.importorskip("torch")
    from tests.artifacts import KINDS
    from tests.test_hostile_files import UNREAD

    chooser = case.chooser
    name = chooser.choice(list(KINDS))
    artifact, (_, new, _) = KINDS[name], _old_and_new(name)
    path = case.folder / "artifact"
    for version in (1, 2):
        artifact.write(path, version)
    files = sorted(file for file in case.folder.rglob("*") if file.is_file())
    file = chooser.choice([f for f in files if f.name not in UNREAD and f.stat().st_size])
    whole = file.read_bytes()
    checked = 0
    for _ in range(20):
        changed = bytearray(whole)
        if chooser.random() < 0.5:
            del changed[chooser.randrange(len(whole)) :]
            how, may_differ = "truncations", _COMPLETE_AFTER_EACH_LINE
        else:
            changed[chooser.randrange(len(whole))] ^= 1 << chooser.randrange(8)
            how, may_differ = "flipped bits", _WITHOUT_CHECKSUM
        file.write_bytes(changed)
        try:
            found = artifact.load(path)
        except (ValueError, OSError):
            case.notes[f"{how}: refused"] += 1
        except RuntimeError:  # torch, for weights of another model
            if "checkpoint" not in name and file.suffix != ".safetensors":
                raise
            case.notes[f"{how}: refused"] += 1
        else:
            if found != new:
                assert (name, file.name) in may_differ, (name, file.name, how, bytes(changed))
                case.notes[f"{how}: other content ({name}, {file.name})"] += 1
            else:
                case.notes[f"{how}: the same content"] += 1
        checked += 1
    return checked


def _write(name: str, path: Path, limit: tuple[str, int] | None, ready: Any) -> None:
    """Write version 2 of an artifact in a new process, whose exit status is 7 for an error."""
    from tests.artifacts import KINDS, WRITTEN

    if limit is not None:
        import resource

        kind, number = limit
        if kind == "descriptors":
            number += len(os.listdir("/proc/self/fd"))
        which = {"bytes": resource.RLIMIT_FSIZE, "descriptors": resource.RLIMIT_NOFILE}[kind]
        resource.setrlimit(which, (number, resource.getrlimit(which)[1]))
    ready.set()
    try:
        (KINDS | WRITTEN)[name].write(path, 2)
    except (OSError, RuntimeError):  # torch raises RuntimeError
        os._exit(7)
    os._exit(0)


@functools.cache
def _forks() -> Any:
    """Return a context whose processes start with torch, but without its threads."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        pytest.skip("needs fork")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.artifacts"])
    return context


@contextlib.contextmanager
def _writing(name: str, path: Path, limit: tuple[str, int] | None = None):
    ready = _forks().Event()
    process = _forks().Process(target=_write, args=(name, path, limit, ready))
    process.start()
    try:
        assert ready.wait(60), "the writer did not start"
        yield process
    finally:
        process.kill()
        process.join()


@row("kills", in_normal_run=False, share=4)
def kill(case: Case) -> int:
    """A writer that is killed leaves the old artifact or the new one, and the next one works."""
    name = case.chooser.choice(_kinds())
    from tests.artifacts import KINDS, WRITTEN
    from tests.test_artifacts import is_new_after_fault

    artifact = (KINDS | WRITTEN)[name]
    old, new, seconds = _old_and_new(name)
    path = case.folder / "artifact"
    artifact.write(path, 1)
    with _writing(name, path):
        # A fork's first write takes longer, because it copies pages of memory.
        time.sleep(case.chooser.random() * seconds * 3)
    is_new = is_new_after_fault(artifact, path, old, new)
    case.notes["kills that left the new one" if is_new else "kills that left the old one"] += 1
    return 1


@row("writes", in_normal_run=False, share=2)
def limits(case: Case) -> int:
    """A writer without space or file descriptors fails, and leaves the old artifact or the new."""
    chooser = case.chooser
    name = chooser.choice(_kinds())
    from tests.artifacts import KINDS, WRITTEN
    from tests.test_artifacts import is_new_after_fault

    artifact = (KINDS | WRITTEN)[name]
    old, new, _ = _old_and_new(name)
    kind = chooser.choice(["bytes", "descriptors", "disk"])
    number = {
        "bytes": chooser.choice([0, 1, 100, 4096, chooser.randrange(100_000)]),
        "descriptors": chooser.randrange(5),
        "disk": chooser.randrange(8, chooser.choice([16, 60, 400])) * 1024,
    }[kind]
    disk = case.folder / "disk"
    disk.mkdir()
    if kind == "disk" and not _mount(disk, number):
        case.notes["small file systems that cannot be mounted here"] += 1
        return 0
    try:
        path = disk / "artifact"
        try:
            artifact.write(path, 1)
        except (OSError, RuntimeError):
            return 0  # there is no space for the old one
        with _writing(name, path, None if kind == "disk" else (kind, number)) as process:
            process.join(60)
            assert process.exitcode in (0, 7), (name, kind, number, process.exitcode)
        if kind == "disk":  # the next writer has no space either
            found = artifact.load(path)
            assert found == new or (found == old and process.exitcode == 7), (name, number)
        else:
            is_new = is_new_after_fault(artifact, path, old, new)
            assert is_new or process.exitcode == 7, (name, kind, number)
    finally:
        if kind == "disk":
            subprocess.run(["umount", disk], check=True)
    case.notes[f"limits of {kind}: {'an error' if process.exitcode else 'enough'}"] += 1
    return 1


def _mount(disk: Path, num_bytes: int) -> bool:
    """Mount a small file system. Return False if this user may not do this."""
    if not shutil.which("mount"):
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", disk]
    return not subprocess.run(command, capture_output=True, check=False).returncode
