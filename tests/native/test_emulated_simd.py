"""Test the SIMD levels of other CPUs, emulated by SIMDe (Debian package libsimde-dev)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.native.compiler import NATIVE, compiler
from tests.processes import run_python

HERE = Path(__file__).parent
SOURCE = NATIVE.parent / "splitting" / "_scanner.pyx"

pytestmark = pytest.mark.slow

CHECK = """
import importlib.util, random, sys
name = "cs336_basics.splitting._scanner"
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])
from tests.splitting.test_scanner import SIMD_LEVELS, check, random_text
from tests.splitting.test_token_finder import check_search
rng = random.Random(3)
for _ in range(int(sys.argv[2])):
    check(random_text(rng))
check_search(int(sys.argv[2]) // 20)
print(*SIMD_LEVELS)
"""


NORMALIZATION = """
import importlib, importlib.util, random, sys, unicodedata
name = "cs336_basics.text._normalization"
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])
normalization = importlib.import_module("cs336_basics.text.normalization")
normalization._MAX_UNAIDED = 0  # the tables decide
from cs336_basics.text.normalization import NORMALIZERS, normalized
from tests.text.combining import combining_text
chooser = random.Random(4)
for _ in range(300):
    text = combining_text(chooser, chooser.randrange(200)) + "中" * chooser.randrange(9)
    text += "é" * chooser.randrange(9) + "。か゚"
    for form in NORMALIZERS:
        assert normalized(text.encode(), form).decode() == unicodedata.normalize(form, text)
"""

GENERATION = """
import importlib.util, sys
name = "cs336_basics.generation._inference"
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])
import pytest
test = "tests/generation/test_inference.py"
model = "tests/generation/test_engines.py::test_the_compiled_model_computes_what_the_model_computes"
assert pytest.main(["-q", "-n", "0", test, model]) == 0
print(*sys.modules[name].simd_levels())
"""


@pytest.fixture(scope="module")
def scanner(tmp_path_factory):
    """Compile the scanner with all SIMD levels, and return the extension's path."""
    return compiled_for_all_levels(tmp_path_factory, SOURCE)


@pytest.fixture(scope="module")
def quick_check(tmp_path_factory):
    """Compile the quick check of normalization with all SIMD levels."""
    return compiled_for_all_levels(tmp_path_factory, NATIVE.parent / "text" / "_normalization.pyx")


def compiled_for_all_levels(tmp_path_factory, extension):
    """Compile an extension with all SIMD levels, and return its path."""
    pytest.importorskip("Cython")
    folder = tmp_path_factory.mktemp("simde")
    source = shutil.copytree(NATIVE, folder / "native")
    shutil.copyfile(HERE / "emulated_target.hpp", source / "base" / "simd_target.hpp")
    command = [part for part in compiler() if not part.startswith("-I")]
    has_simde = subprocess.run(
        [*command, "-E", "-x", "c++", "-"],
        input=b"#include <simde/x86/avx2.h>",
        capture_output=True,
    )
    if has_simde.returncode:
        pytest.skip("SIMDe is not installed (Debian and Ubuntu: apt-get install libsimde-dev)")
    cython = [
        sys.executable, "-m", "cython", "--cplus", extension, "-o", folder / "extension.cpp"
    ]  # fmt: skip
    subprocess.run(cython, cwd=NATIVE.parents[1], check=True)
    # Warnings are disabled (-w), because SIMDe's headers cause some.
    command += ["-O1", "-w", "-fPIC", "-shared", f"-I{source}"]
    command += [f"-I{sysconfig.get_path('include')}", folder / "extension.cpp"]
    subprocess.run([*command, "-o", folder / "extension.so"], check=True)
    return folder / "extension.so"


def test_all_levels_split_random_texts_and_find_tokens_as_the_references_do(scanner):
    run = run_python(CHECK, scanner, 20_000, cwd=HERE.parents[1])
    assert run.stdout.split() == ["scalar", "neon", "avx2", "avx512"]


@pytest.mark.parametrize("simd_level", ["scalar", "neon", "avx2"])
def test_all_levels_normalize_as_unicodedata_does(quick_check, simd_level):
    run_python(NORMALIZATION, quick_check, cwd=HERE.parents[1], CS336_SIMD=simd_level)


def test_all_levels_multiply_and_attend_as_the_references_do(tmp_path_factory):
    source = NATIVE.parent / "generation" / "_inference.pyx"
    inference = compiled_for_all_levels(tmp_path_factory, source)
    run = run_python(GENERATION, inference, cwd=HERE.parents[1])
    assert run.stdout.split()[-4:] == ["scalar", "neon", "avx2", "avx512"]
