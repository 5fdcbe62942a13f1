"""Variants of the trainers that are compiled on demand, for bench_ablations.py.

    heap, compiled   base.py, v2 and v3 as they are, compiled by Cython
    heap, typed      variants/v3_typed.pyx: v3 with C and C++ values instead of objects
    words rescanned  v4 with one section replaced by variants/v4_rescanning.pxi

They are built in a directory of the cache whose name contains a hash of their sources, so that a
second run finds them built. Needs Cython and a C++ compiler.
"""

import hashlib
import importlib
import subprocess
import sys
from pathlib import Path

import Cython
from corpora import CACHE
from machine import ROOT

BPE = ROOT / "cs336_basics" / "bpe"
VARIANTS = Path(__file__).parent / "variants"
AS_IT_IS = ("base", "v2_incremental", "v3_heap")

# What replaces the linked occurrences of v4, and where it belongs.
SECTION = ("    cdef int link_words(", "    cdef pair_t find_or_add(")
NEW_ATTRIBUTE = (
    "    cdef list learned\n",
    "    cdef list learned\n    cdef Py_ssize_t num_nodes\n",
)

BUILD = """
import sys
from Cython.Build import cythonize
from setuptools import Extension, setup
options = ["/std:c++17", "/O2"] if sys.platform == "win32" else ["-std=c++17", "-O3"]
names = {names!r}
setup(
    script_args=["-q", "build_ext", "--inplace"],
    ext_modules=cythonize(
        [
            Extension(name, [file], language="c++", include_dirs=[{include!r}],
                      extra_compile_args=options)
            for name, file in names.items()
        ],
        compiler_directives={{"language_level": 3, "boundscheck": False, "wraparound": False,
                             "initializedcheck": False, "cdivision": True}},
        quiet=True,
    ),
)
"""


def variants():
    """Return name -> trainer class; build the variants if they are not built.

    Raises:
        RuntimeError: they cannot be built.
    """
    modules, texts = sources()
    key = hashlib.sha256(repr((texts, Cython.__version__, sys.version)).encode()).hexdigest()
    directory = CACHE / f"variants-{key[:16]}"
    if not (directory / "built").exists():
        for name, text in texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        code = BUILD.format(names=modules, include=str(ROOT / "cs336_basics" / "native"))
        build = subprocess.run(
            [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, check=False
        )
        if build.returncode:
            raise RuntimeError(f"the variants cannot be built:\n{build.stderr[-2000:]}")
        (directory / "built").touch()
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    return {
        "heap, compiled": importlib.import_module("compiled_stages.v3_heap").HeapTrainer,
        "heap, typed": importlib.import_module("v3_typed").TypedHeapTrainer,
        "words rescanned": importlib.import_module("v4_rescanning").MemoryviewTrainer,
    }


def sources():
    """Return module -> file, and file -> text."""
    modules, texts = {}, {"compiled_stages/__init__.py": ""}
    for name in AS_IT_IS:
        text = (BPE / f"{name}.py").read_text(encoding="utf-8")
        for other in AS_IT_IS:  # the compiled v3 begins with the compiled v2
            text = text.replace(
                f"cs336_basics.bpe.{other} import", f"compiled_stages.{other} import"
            )
        modules[f"compiled_stages.{name}"] = f"compiled_stages/{name}.py"
        texts[f"compiled_stages/{name}.py"] = text
    modules["v3_typed"] = "v3_typed.pyx"
    texts["v3_typed.pyx"] = (VARIANTS / "v3_typed.pyx").read_text(encoding="utf-8")
    modules["v4_rescanning"] = "v4_rescanning.pyx"
    texts["v4_rescanning.pyx"] = _rescanning()
    return modules, texts


def _rescanning():
    """Return the source of v4 with one section replaced."""
    text = (BPE / "v4_memoryview.pyx").read_text(encoding="utf-8")
    start, end = (text.index(marker) for marker in SECTION)
    replaced = (VARIANTS / "v4_rescanning.pxi").read_text(encoding="utf-8")
    return (text[:start] + replaced.lstrip(" ") + text[end:]).replace(*NEW_ATTRIBUTE)
