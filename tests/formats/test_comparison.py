"""In a comparison, a tokenizer produces the same results in every library."""

from __future__ import annotations

import dataclasses
import json

import pytest

from cs336_basics._support.errors import MissingFileError
from cs336_basics.formats import export_tokenizer
from cs336_basics.formats.compared_tokenizers import Coder, ComparedTokenizer, open_tokenizer
from cs336_basics.formats.comparison import longest_tokens, measure
from cs336_basics.text import Corpus
from tests.data.test_documents import TEXTS, plain
from tests.errors import rejects
from tests.formats.exported import trained
from tests.processes import run_python
from tests.tokenizer.examples import END


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Return a directory that contains one tokenizer in the formats of three libraries."""
    directory = tmp_path_factory.mktemp("tokenizers")
    tokenizer = trained("gpt2")
    tokenizer.save(directory / "ours")
    export_tokenizer(tokenizer, "tiktoken", directory / "tiktoken")
    return directory


def compare(*arguments, **options):
    return [measured.result for measured in measure(*arguments, **options)]


def opened(directories, *names):
    return [open_tokenizer(directories / name) for name in names]


@pytest.fixture
def corpus(tmp_path):
    return Corpus(plain(tmp_path, TEXTS))


def test_a_tokenizer_has_the_same_figures_in_every_library(directories, corpus):
    pytest.importorskip("tiktoken")
    pytest.importorskip("tokenizers")
    tokenizers = opened(directories, "ours", "tiktoken", "ours/tokenizer.json")
    assert [tokenizer.library.split()[0] for tokenizer in tokenizers] == [
        "cs336_basics",
        "tiktoken",
        "tokenizers",
    ]
    results = compare(tokenizers, [("a", corpus)], documents=7, gigabytes=1)
    texts = [TEXTS[index * 25 // 7] for index in range(7)]
    num_bytes = sum(len(text.encode()) for text in texts)
    num_tokens = sum(len(trained("gpt2").encode(text)) for text in texts)
    for tokenizer, result in zip(tokenizers, results, strict=True):
        assert (result.tokenizer, result.corpus) == (tokenizer.name, "a")
        assert (result.num_documents, result.all_documents) == (7, 25)
        assert (result.num_bytes, result.num_tokens) == (num_bytes, num_tokens)
        assert result.bytes_per_token == num_bytes / num_tokens
        assert result.changed_documents == 0
        seconds = 1e9 / (result.megabytes_per_second * 1e6)
        assert result.hours == pytest.approx(seconds / 3600)
    ours, *others = tokenizers
    for other in others:
        assert (other.vocab, other.special) == (ours.vocab, ours.special)


def test_the_longest_tokens_are_sorted_without_special_tokens(directories):
    (tokenizer,) = opened(directories, "ours")
    longest = longest_tokens(tokenizer)
    assert len(longest) == 10
    assert [len(token) for token in longest] == sorted(map(len, longest), reverse=True)
    others = set(tokenizer.tokens) - set(longest)
    assert max(map(len, others)) <= len(longest[-1])
    assert END.encode() not in longest
    few = dataclasses.replace(tokenizer, vocab={0: b"a", 2: b"d", 1: b"bc"})
    assert longest_tokens(few) == [b"bc", b"a", b"d"]


def test_special_tokens_in_a_text_are_encoded_as_ordinary_text(directories, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"text": f"a{END}b"}), encoding="utf-8")
    results = compare(
        opened(directories, "ours", "tiktoken"), [("rows", Corpus(path, field="text"))]
    )
    expected = len(trained("gpt2").encode(f"a{END}b", allowed_special=()))
    assert [result.num_tokens for result in results] == [expected, expected]


def test_documents_that_decoding_changes_are_counted(corpus):
    coder = Coder(lambda text: [*text.encode()], lambda ids: bytes(ids).decode().replace("ï", "i"))
    lossy = ComparedTokenizer("lossy", "none", {}, frozenset(), lambda: coder)
    (result,) = compare([lossy], [("a", corpus)], documents=25)
    assert result.changed_documents == len(TEXTS)
    assert result.bytes_per_token == 1


def test_a_tokenizer_that_cannot_encode_is_named(corpus):
    def fail(text):
        raise KeyError("no token")

    coder = Coder(fail, str)
    bad = ComparedTokenizer("bad", "none", {}, frozenset(), lambda: coder)
    with rejects(None, "'no token'", place="bad"):
        compare([bad], [("a", corpus)])
    empty = dataclasses.replace(bad, name="empty", make=lambda: Coder(lambda text: [], str))
    with rejects(None, "empty"):
        compare([empty], [("a", corpus)])


# ------------------------------------------------------------------ invalid tokenizers


@pytest.mark.parametrize("content", ["", "{", "[]", '{"model": {"type": "BPE"}}', "\ud800"])
def test_a_damaged_tokenizer_json_is_a_value_error(tmp_path, content):
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    path.write_text(content, "utf-8", "surrogatepass")
    with rejects(None, "tokenizer.json") as caught:
        open_tokenizer(path)
    assert "\n" not in str(caught.value)


def test_damaged_settings_of_tiktoken_are_a_value_error(directories, tmp_path):
    pytest.importorskip("tiktoken")
    for name in ("ranks.tiktoken", "encoding.json"):
        (tmp_path / name).write_bytes((directories / "tiktoken" / name).read_bytes())
    for content in ('{"name": "x"}', '{"name": "x", "pat_str": "(", "special_tokens": {}}', "{"):
        (tmp_path / "encoding.json").write_text(content, encoding="utf-8")
        with rejects(None, tmp_path.name):
            open_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("name", "remedy"), [("gpt3", "gpt2"), ("tokenizers/my", "tokenizer.json")]
)
def test_an_unknown_name_is_refused(tmp_path, monkeypatch, name, remedy):
    pytest.importorskip("tiktoken")
    monkeypatch.chdir(tmp_path)
    with rejects(None, name, remedy, kind=MissingFileError):
        open_tokenizer(name)


@pytest.mark.parametrize(
    ("library", "name"), [("tiktoken", "tiktoken"), ("tokenizers", "ours/tokenizer.json")]
)
def test_a_missing_library_is_named_in_one_line(directories, tmp_path, library, name):
    code = (
        "from cs336_basics.__main__ import main\n"
        f"raise SystemExit(main(['compare', '--tokenizer', {str(directories / name)!r}, "
        f"'--input', {str(plain(tmp_path, TEXTS))!r}]))"
    )
    run = run_python(code, missing=[library], check=False)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert f"needs {library}; run pip install {library}, or omit " in run.stderr
