"""Trainers that run the native merge loop without some of its parts, for ablations.py.

The loops are instantiations of the library's template with other policies (merge_policy.hpp). They
are compiled when the first variant trains.
"""

import ctypes
import hashlib
import os
import shlex
import subprocess
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.corpora import CACHE
from benchmarks.machine import ROOT
from cs336_basics import TRAINERS, BPE_Trainer

NATIVE = ROOT / "cs336_basics" / "native"
SOURCE = Path(__file__).with_suffix(".cpp")
FLAGS = ("-std=c++17", "-O3", "-DNDEBUG", "-pthread", "-fPIC", "-shared")
PHASES = ("counting pairs", "finding the maximum", "updating")


@cache
def library():
    """Return the compiled loops. They are compiled again if a header or the source changed."""
    files = [SOURCE, *sorted(NATIVE.rglob("*.hpp"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    path = CACHE / f"merge-variants-{digest[:16]}.so"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        command = [*shlex.split(os.environ.get("CXX", "c++")), *FLAGS, f"-I{NATIVE}"]
        subprocess.run([*command, str(SOURCE), "-o", str(unfinished)], check=True)
        unfinished.replace(path)
    loaded = ctypes.CDLL(str(path))
    loaded.learn_merges.restype = ctypes.c_int64
    return loaded


class MergeVariant(BPE_Trainer):
    """The native merge loop. `num_left_out` parts are left out, in the order of VARIANTS."""

    name = "native, all parts"
    work_units = {}  # noqa: RUF012
    num_left_out = 0

    def learn_merges(self, word_counts, rules, recorder):
        data, offsets, counts = map(np.ascontiguousarray, word_counts.buffers)
        num_merges = min(rules.num_merges, len(data))
        ids = np.empty((num_merges, 2), np.uint32)
        seconds = np.zeros(len(PHASES))
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (data, offsets, counts)]
        num_learned = library().learn_merges(
            self.num_left_out, *pointers, ctypes.c_int64(len(counts)), ctypes.c_int64(num_merges),
            ids.ctypes.data_as(ctypes.c_void_p), seconds.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        recorder.lap("setting up words", dict(zip(PHASES, seconds.tolist(), strict=True)))
        tokens, merges = list(rules.start.symbols), []
        for left, right in ids[:num_learned].tolist():
            merges.append((tokens[left], tokens[right]))
            tokens.append(tokens[left] + tokens[right])
        recorder.lap("building the vocabulary")
        return merges, tokens[len(rules.start.symbols) :]


class WithoutPrefetching(MergeVariant):
    name = "native, without prefetching"
    num_left_out = 1


class WithoutOrder(MergeVariant):
    name = "native, without prefetching and order"
    num_left_out = 2


class WithoutThreshold(MergeVariant):
    name = "native, without prefetching, order and threshold"
    num_left_out = 3


VARIANTS = {
    trainer.name: trainer
    for trainer in (MergeVariant, WithoutPrefetching, WithoutOrder, WithoutThreshold)
}


def trainer_of(stage):
    """Return the class of a stage or a variant."""
    return (TRAINERS if stage in TRAINERS else VARIANTS)[stage]
