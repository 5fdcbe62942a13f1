"""Benchmark the scanner in one thread: SIMD levels and compiled patterns, on several scripts."""

import pytest

from benchmarks.corpora import data_directory
from cs336_basics.data.datasets import write_sample
from cs336_basics.pretokenization import PATTERNS, _scanner, reference
from cs336_basics.pretokenization.patterns.split_program import compile_program

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

HINDI = (
    "एक समय की बात है, एक छोटे से गाँव में एक बूढ़ा किसान रहता था। उसके पास दो बैल और थोड़ी सी ज़मीन थी; "
    "हर सुबह वह सूरज निकलने से पहले उठता और खेत की ओर चल पड़ता। “आज बारिश होगी,” उसने १२ साल के पोते से कहा।\n"
)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    path = tmp_path_factory.mktemp("scanner") / "sample.txt"
    write_sample(path, 10_000_000)
    return path.read_bytes()


def text_of(name, sample):
    if name == "sample":
        return sample
    if name == "hindi":
        return HINDI.encode() * (5_000_000 // len(HINDI.encode()))
    for file in FILES[name]:
        if (data_directory() / file).exists():
            with open(data_directory() / file, "rb") as stream:
                data = stream.read(MAX_BYTES)
            return data.decode("utf-8", "replace").encode()
    return pytest.skip(f"none of {FILES[name]} in {data_directory()}")


@pytest.mark.parametrize("simd_level", _scanner.simd_levels())
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "llama3", "o200k", "deepseek-v3"])
@pytest.mark.parametrize("name", ["sample", "hindi", *FILES])
def test_scanner(benchmark, name, pattern, simd_level, sample):
    data = text_of(name, sample)
    start = data[:200_000].decode("utf-8", "ignore")
    assert list(_scanner.pretokenize_bytes(start.encode(), pattern, simd_level)) == [
        word.encode() for word in reference.pretokenize(start, pattern)
    ]

    benchmark.group = f"scanner, {name}, {pattern}"
    found = benchmark.pedantic(
        _scanner.num_pretokens, (data, pattern, simd_level), rounds=5, warmup_rounds=1
    )
    benchmark.extra_info.update(
        bytes=len(data),
        pretokens=found,
        megabytes_per_second=len(data) / 1e6 / benchmark.stats.stats.min,
    )


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", ["sample", "english"])
def test_compiled_pattern(benchmark, name, pattern, sample):
    data = text_of(name, sample)
    program = compile_program(PATTERNS[pattern])
    start = data[:200_000].decode("utf-8", "ignore")
    assert list(_scanner.pretokenize_bytes(start.encode(), program)) == [
        word.encode() for word in reference.pretokenize(start, pattern)
    ]

    benchmark.group = f"compiled pattern, {name}"
    benchmark.pedantic(_scanner.num_pretokens, (data, program), rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(
        bytes=len(data), megabytes_per_second=len(data) / 1e6 / benchmark.stats.stats.min
    )
