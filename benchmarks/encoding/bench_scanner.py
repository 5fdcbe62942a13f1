"""Benchmark the scanner in one thread: SIMD levels and compiled patterns, on several scripts."""

from pathlib import Path

import pytest

from benchmarks.corpora import sample_file
from cs336_basics.data.datasets import data_directory
from cs336_basics.splitting import PATTERNS, _scanner, reference
from cs336_basics.splitting.patterns.split_program import compile_program

MAX_BYTES = 20_000_000

# name -> possible files; the first that exists is used
FILES = {
    "english": ["blogs.txt", "owt_train.txt", "TinyStoriesV2-GPT4-train.txt"],
    "russian": ["tinystories_ru.txt"],
    "chinese": ["multi_zh_wiki.txt"],
    "japanese": ["multi_ja_aozora.txt"],
    "arabic": ["multi_ar_openiti.txt"],
    "code": ["code_python.txt"],
}


def text_of(name):
    paths = [data_directory() / file for file in FILES.get(name, ())]
    path = sample_file() if name == "sample" else next(filter(Path.exists, paths), None)
    if path is None:
        pytest.skip(f"none of {FILES[name]} in {data_directory()}")
    with open(path, "rb") as stream:
        return stream.read(MAX_BYTES).decode("utf-8", "replace").encode()


@pytest.mark.parametrize("level", [*_scanner.simd_levels(), "compiled pattern"])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "o200k", "deepseek-v3"])
@pytest.mark.parametrize("name", ["sample", *FILES])
def test_scanner(benchmark, name, pattern, level):
    data = text_of(name)
    is_compiled = level == "compiled pattern"
    how = (compile_program(PATTERNS[pattern]),) if is_compiled else (pattern, level)
    start = data[:200_000].decode("utf-8", "ignore")
    assert list(_scanner.PreTokens(start, *how)) == list(reference.pretokenize(start, pattern))

    benchmark.group = f"scanner, {name}, {pattern}"
    benchmark.pedantic(_scanner.num_pretokens, (data, *how), rounds=5, warmup_rounds=1)
    benchmark.extra_info["megabytes_per_second"] = len(data) / 1e6 / benchmark.stats.stats.min
