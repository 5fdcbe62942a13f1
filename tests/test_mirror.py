"""Test that tests/ mirrors the package: every module has a test file named after it."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent

# Maps modules without a test file of their own to the file that covers them. A separate file would
# repeat its tests. Do not add modules unnecessarily.
TESTED_ELSEWHERE = {
    "__main__.py": "commands/test_commands.py",
    "train.py": "commands/test_train.py",
    "_support/lazy.py": "test_package.py",
    "_support/progress.py": "tokenizer/editing/test_token_counts.py",
    "_support/text.py": "pretokenization/reading/test_documents.py",
    "_support/validation.py": "commands/test_options.py",
    "commands/prune.py": "commands/test_commands.py",
    "data/data_config.py": "training/test_config.py",
    "experiments/report.py": "commands/test_experiments.py",
    "formats/compared_tokenizers.py": "formats/test_comparison.py",
    "formats/huggingface/pretokenizers.py": "formats/huggingface/test_tokenizer_json.py",
    "playground/answers.py": "playground/test_server.py",
    "pretokenization/patterns/char_sets.py": "pretokenization/patterns/test_split_program.py",
    "pretokenization/patterns/pattern_syntax.py": "pretokenization/patterns/test_split_program.py",
    "pretokenization/reading/utf8_errors.py": "pretokenization/reading/test_readers.py",
    "pretokenization/reference.py": "pretokenization/test_splitter.py",
    "tokenizer/encoders/_decoder.pyx": "tokenizer/test_decoding.py",
    "tokenizer/files/encoded_blocks.py": "tokenizer/files/test_encode_files.py",
    "tokenizer/ids.py": "tokenizer/test_padding.py",
}
# These test files cover several modules, as do the files directly in tests/. The files in
# tests/native test C++ code.
ABOUT_MORE = {
    "commands/test_commands.py",
    "formats/test_speedrun.py",
    "model/test_adapters.py",
    "playground/test_browser.py",
}


def expected_tests():
    """Return the expected test file of each module."""
    package = ROOT / "cs336_basics"
    modules = [path for end in ("*.py", "*.pyx") for path in package.rglob(end)]
    names = [path.relative_to(package) for path in modules if path.stem != "__init__"]
    return {m.as_posix(): m.with_name(f"test_{m.stem.lstrip('_')}.py").as_posix() for m in names}


def test_every_module_has_its_tests():
    tests = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    missing = {module for module, test in expected_tests().items() if test not in tests}
    assert missing - set(TESTED_ELSEWHERE) == set(), "add a test file with the module's name"
    assert {test for test in TESTED_ELSEWHERE.values() if test not in tests} == set()


def test_every_test_file_has_its_module():
    expected = {*expected_tests().values(), *ABOUT_MORE}
    for folder in ("benchmarks", "tools"):
        stems = {path.stem for path in (ROOT / folder).rglob("*.py")}
        expected |= {f"{folder}/test_{stem}.py" for stem in stems}
    tests = {path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    extra = {test.as_posix() for test in tests if test.parent.as_posix() not in (".", "native")}
    assert extra - expected == set(), "name the test file after a module"
