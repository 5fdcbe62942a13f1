"""Benchmark the scanner in one thread: SIMD levels and patterns, on several scripts."""

from pathlib import Path

import pytest

from benchmarks.corpora import sample_file
from cs336_basics.data.datasets import data_directory
from cs336_basics.splitting import _scanner, reference

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


# A pattern that a user might write. It is compiled when it is first used.
USER = (
    r"'(?:[sdmt]|ll|ve|re)| ?[\p{L}\p{M}]+| ?\p{N}{1,2}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.mark.parametrize("level", _scanner.simd_levels())
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "o200k", "deepseek-v3", USER])
@pytest.mark.parametrize("name", ["sample", *FILES])
def test_scanner(benchmark, name, pattern, level):
    data = text_of(name)
    start = data[:200_000].decode("utf-8", "ignore")
    found = list(_scanner.PreTokens(start, pattern, level))
    assert found == list(reference.pretokenize(start, pattern))

    benchmark.group = f"scanner, {name}, {'user' if pattern is USER else pattern}"
    benchmark.pedantic(_scanner.num_pretokens, (data, pattern, level), rounds=5, warmup_rounds=1)
    benchmark.extra_info["megabytes_per_second"] = len(data) / 1e6 / benchmark.stats.stats.min
