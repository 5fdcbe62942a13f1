"""Corpus: checks, files, pieces and pickling."""

import dataclasses
import gzip
import os
import pickle
import tarfile

import pytest

from cs336_basics._support.errors import Argument, InputError, InputTypeError
from cs336_basics.counting import count_words
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus, MissingFieldError
from cs336_basics.text.sources import Piece, check_options_are_used
from cs336_basics.text.sources.jsonl import JsonLines
from cs336_basics.text.sources.plain import PlainText
from tests.errors import rejects


@pytest.fixture
def folder(tmp_path):
    for name, content in (("b.txt", "bb"), ("a.txt", "a"), ("empty.txt", ""), ("c.jsonl", "{}\n")):
        (tmp_path / name).write_text(content)
    return tmp_path


def test_paths_keep_their_order_and_globs_are_sorted(folder):
    corpus = Corpus([folder / "b.txt", str(folder / "*.txt"), "memory://x.txt"])
    names = [os.path.basename(file) for file in corpus.files]
    assert names == ["b.txt", "a.txt", "b.txt", "empty.txt", "x.txt"]
    assert Corpus(folder / "a.txt").files == (str(folder / "a.txt"),)
    (folder / "[x]*.txt").write_text("a name that looks like a glob")
    assert Corpus(folder / "[x]*.txt").files == (str(folder / "[x]*.txt"),)


def test_two_stars_match_files_in_all_subdirectories(folder):
    deep = folder / "d" / "e"
    deep.mkdir(parents=True)
    (deep / "f.txt").write_text("x")
    files = ["a.txt", "b.txt", "d/e/f.txt", "empty.txt"]
    assert Corpus(folder / "**" / "*.txt").files == tuple(str(folder / name) for name in files)


@pytest.mark.parametrize(
    ("paths", "options", "error", "shown"),
    [
        ("gone.txt", {}, FileNotFoundError, "gone.txt'"),
        ("a.txt/b.txt", {}, FileNotFoundError, "a.txt/b.txt'"),
        ("*.csv", {}, FileNotFoundError, "*.csv'"),
        ("fifo", {}, InputError, "fifo"),
        ("empty.txt", {}, InputError, "empty.txt'"),
        ("a.txt", {"errors": "ignore"}, InputError, "'ignore'"),
        ("c.jsonl", {}, MissingFieldError, "field='text'"),
        ("c.jsonl", {"column": "x"}, MissingFieldError, "c.jsonl"),
        ("c.jsonl", {"field": ["text"]}, InputTypeError, "['text']"),
    ],
)
def test_the_constructor_rejects_bad_paths_and_options(folder, paths, options, error, shown):
    os.mkfifo(folder / "fifo")
    with pytest.raises(error) as caught:
        Corpus([folder / paths], **options)
    assert shown in str(caught.value)


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz"])
def test_archives_are_rejected(folder, name):
    with tarfile.open(folder / name, "w" if name == "x.tar" else "w:gz") as archive:
        archive.add(folder / "b.txt")
    with rejects(None, name, "gzip" if name == "x.tgz" else "tar"):
        Corpus([folder / "a.txt", folder / name])
    assert Corpus(folder / name, errors="bytes").num_bytes > 0


def test_archives_at_urls_are_rejected_when_read(folder):
    pytest.importorskip("fsspec")
    with tarfile.open(folder / "x.tar", "w") as archive:
        archive.add(folder / "b.txt")
    with rejects(None, "x.tar"):
        count_words(Corpus(f"file://{folder / 'x.tar'}"), Splitter(), num_workers=1)


def test_other_types_than_paths_are_rejected():
    for paths in (5, b"a.txt", [b"a.txt"], [None]):
        with rejects("paths", kind=InputTypeError):
            Corpus(paths)
    with rejects("paths"):
        Corpus([])


def test_options_that_no_file_needs_are_ignored_on_request(folder):
    given = {"field": "body", "column": "text"}
    text = Corpus(iter([folder / "a.txt"]), errors="strict", allow_unused=True, **given)
    assert text == Corpus([folder / "a.txt"], errors="strict")
    several = Corpus([folder / "*.txt", folder / "c.jsonl"], allow_unused=True, **given)
    assert several == Corpus([folder / "*.txt", folder / "c.jsonl"], field="body")
    with pytest.raises(MissingFieldError):
        Corpus(folder / "c.jsonl", column="text", allow_unused=True)
    check_options_are_used([*text.sources, *several.sources], field="body", column=None)
    check_options_are_used([], field=None, column=None)


@pytest.mark.parametrize(
    ("option", "kinds"),
    [
        ("field", "JSON Lines (.jsonl, .ndjson)"),
        ("column", "Parquet, Arrow or CSV (.parquet, .arrow, .feather, .csv)"),
    ],
)
def test_an_option_that_no_corpus_uses_is_rejected(folder, option, kinds):
    given = {"field": None, "column": None, option: "x"}
    corpora = [Corpus(folder / name, allow_unused=True, **given) for name in ("a.txt", "b.txt")]
    sources = [source for corpus in corpora for source in corpus.sources]
    with rejects(option, "'x'", kinds):
        check_options_are_used(sources, **given)


def test_a_corpus_is_immutable_and_picklable(folder):
    corpus = Corpus([folder / "*.txt", folder / "c.jsonl"], field="body", errors="strict")
    with pytest.raises(dataclasses.FrozenInstanceError):
        corpus.sources[-1].field = "text"
    assert Corpus.of(corpus) is corpus
    assert pickle.loads(pickle.dumps(corpus)) == corpus
    # Unpickling does not check the files again.
    pickled = pickle.dumps(corpus)
    (folder / "a.txt").unlink()
    assert pickle.loads(pickled).files == corpus.files


def test_absolute_paths_mean_the_same_in_every_directory(folder, monkeypatch):
    monkeypatch.chdir(folder)
    corpus = Corpus(["*.txt", "c.jsonl", f"file://{folder}/a.txt"], field="body")
    absolute = [source.absolute() for source in corpus.sources]
    files = [str(folder / name) for name in corpus.files[:-1]]
    assert [source.path for source in absolute] == [*files, corpus.files[-1]]
    assert [s.settings() for s in absolute] == [s.settings() for s in corpus.sources]
    assert corpus.files[0] == "a.txt"


def test_missing_field_error_is_picklable(folder):
    with pytest.raises(MissingFieldError) as caught:
        Corpus(folder / "c.jsonl")
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value)
    assert error.argument == "field"
    assert error.place == str(folder / "c.jsonl")
    assert error.remedy == ("pass ", Argument("field", "text"))


@pytest.mark.parametrize(
    ("columns", "example"),
    [
        (["body"], "body"),
        (["id", "body"], "NAME"),
        (["a\n\x1b"], "NAME"),
        (["x" * 1000], "NAME"),
        (["a", "text"], "text"),
    ],
)
def test_missing_field_error_suggests_a_column_that_can_be_typed(columns, example):
    error = MissingFieldError("a.csv", "column", None, columns)
    assert error.remedy == ("pass ", Argument("column", example))
    assert str(error).isprintable()
    assert len(str(error)) < 500


def test_only_local_uncompressed_plain_text_may_be_read_by_compiled_code(folder):
    (folder / "b.gz").write_bytes(gzip.compress(b"bb"))
    names = ("a.txt", "c.jsonl", "b.txt", "b.gz")
    corpus = Corpus([*(folder / name for name in names), "s3://b.txt"], field="body")
    paths = [source.local_path for source in corpus.sources]
    assert paths == [str(folder / "a.txt"), None, str(folder / "b.txt"), None, None]
    assert [source.format for source in corpus.sources] == ["text", "jsonl", "text", "text", "text"]


def test_sources_and_pieces_carry_field_and_errors(folder):
    corpus = Corpus([folder / "b.txt", folder / "c.jsonl"], field="body", errors="strict")
    text = PlainText(str(folder / "b.txt"), errors="strict")
    rows = JsonLines(str(folder / "c.jsonl"), field="body", errors="strict")
    assert corpus.sources == (text, rows)
    assert corpus.pieces(2) == [
        Piece(text, 0, 2, 2),
        Piece(rows, 0, 2, 2),
        Piece(rows, 2, 3, 1),
    ]
    assert Corpus.of_sources([rows]) == Corpus(rows.path, field="body", errors="strict")


def test_a_directory_stands_for_its_files_with_known_endings(folder):
    (folder / "z" / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name in ("z/deep/x.MD", "z/code.py.gz", "z/picture.png", ".git/a.txt", ".hidden.txt"):
        (folder / name).write_text("")
    (folder / "c.jsonl").unlink()
    (folder / "z" / "code.py.gz").write_bytes(gzip.compress(b"x = 1"))
    names = ["a.txt", "b.txt", "empty.txt", "z/code.py.gz", "z/deep/x.MD"]
    assert Corpus(folder).files == tuple(str(folder / name) for name in names)
    (folder / "images").mkdir()
    (folder / "images" / "a.png").write_text("")
    with rejects(None, "images"):
        Corpus([folder / "a.txt", folder / "images"])


def test_format_overrides_names_and_contents(folder):
    rows = '{"text": "a b"}\n' * 3
    (folder / "rows.txt").write_text(rows)
    (folder / "rows.json").write_text(rows)
    assert Corpus(folder / "rows.json", field="text").sources[0].format == "jsonl"
    assert Corpus(folder / "rows.json", format="text").sources[0].format == "text"
    with rejects(None, "rows.txt", "format='jsonl'"):
        Corpus(folder / "rows.txt")
    words = {b"a": 3, b" b": 3}
    assert count_words(Corpus(folder / "rows.txt", field="text", format="jsonl")) == words
    assert count_words(Corpus(folder / "rows.json", field="text"), num_workers=1) == words
    assert b"text" in count_words(Corpus(folder / "rows.txt", format="text"))
    with rejects("format", "'yaml'"):
        Corpus(folder / "rows.txt", format="yaml")


def test_csv_needs_an_existing_column(folder):
    (folder / "rows.csv").write_text("id,text\n1,a\n")
    with rejects("column", "id, text", kind=MissingFieldError) as caught:
        Corpus(folder / "rows.csv")
    assert caught.value.remedy == ("pass ", Argument("column", "text"))
    with rejects("column", "'body'", kind=MissingFieldError, place="rows.csv"):
        Corpus(folder / "rows.csv", column="body")
    (folder / "rows.csv").write_text("text,text\n1,a\n")
    with rejects(None, "'text'", place="rows.csv"):
        Corpus(folder / "rows.csv", column="text")
    assert Corpus([folder / "empty.txt", folder / "a.txt"], format="csv", column="a").sources
