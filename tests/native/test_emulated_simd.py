"""Test the SIMD levels of other CPUs, emulated by SIMDe (Debian package libsimde-dev)."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cs336_basics.pretokenization.patterns.named_patterns import PATTERNS
from cs336_basics.pretokenization.patterns.split_program import compile_program
from tests.native.compiler import NATIVE, compiler
from tests.pretokenization.test_scanner import random_text

HERE = Path(__file__).parent
NUM_LEVELS = 5


def write_tables(name, path):
    program = compile_program(PATTERNS[name])
    arrays = [program.transitions, program.block_of, program.blocks, program.safe_cuts]
    sizes = [*program.transitions.shape, len(program.blocks), program.threes is not None]
    if program.threes is not None:
        arrays.append(program.threes)
    content = [np.array(sizes, np.uint64), *map(np.ascontiguousarray, arrays)]
    path.write_bytes(b"".join(array.tobytes() for array in content))


def write_texts(texts, path):
    with open(path, "wb") as file:
        for text in texts:
            data = text.encode()
            file.write(len(data).to_bytes(8, "little") + data + b"\0" * (-len(data) % 8))


@pytest.fixture(scope="module")
def levels_program(tmp_path_factory):
    """Compile simd_levels.cpp with all SIMD levels, and return the program's path."""
    folder = tmp_path_factory.mktemp("simde")
    source = shutil.copytree(NATIVE, folder / "native")
    shutil.copyfile(HERE / "emulated_target.hpp", source / "scanning" / "simd" / "target.hpp")
    command = [part for part in compiler() if not part.startswith("-I")]
    has_simde = subprocess.run(
        [*command, "-E", "-x", "c++", "-"],
        input=b"#include <simde/x86/avx512.h>",
        capture_output=True,
    )
    if has_simde.returncode:
        pytest.skip("SIMDe is not installed (Debian and Ubuntu: apt-get install libsimde-dev)")
    program = folder / "simd_levels"
    # Warnings are disabled (-w), because SIMDe's headers cause some.
    command += ["-O1", "-w", f"-I{source}", str(HERE / "simd_levels.cpp"), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize(
    "num_texts", [5_000, pytest.param(200_000, marks=pytest.mark.slow)], ids="{:,}".format
)
def test_all_levels_split_random_texts_in_the_same_way(levels_program, tmp_path, num_texts):
    rng = random.Random(num_texts)
    write_texts([random_text(rng) for _ in range(num_texts)], tmp_path / "texts")
    for name in PATTERNS:
        write_tables(name, tmp_path / name)
    run = subprocess.run([levels_program, tmp_path], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"{len(PATTERNS) * NUM_LEVELS * num_texts}\n")
