"""The report on tokenizers, compared with `compare` and with the definitions."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import pytest

from cs336_basics import Tokenizer
from cs336_basics.formats.compared_tokenizers import open_tokenizer
from cs336_basics.formats.comparison import measure
from cs336_basics.reports.measures import renyi_efficiency
from cs336_basics.reports.page import Table, Tokens, render_html, render_markdown
from cs336_basics.reports.tokenizer_report import tokenizer_sections
from cs336_basics.text import Corpus
from cs336_basics.tokenizer.description import described_parts
from tests.data.test_documents import TEXTS, plain
from tests.errors import rejects
from tests.tokenizer.examples import BYTES, END, small_tokenizer


@pytest.fixture
def tokenizers(tmp_path):
    small_tokenizer().save(tmp_path / "a")
    Tokenizer(BYTES, [], [END]).save(tmp_path / "b")
    return [open_tokenizer(tmp_path / name) for name in "ab"]


@pytest.fixture
def corpora(tmp_path):
    return [
        ("x", Corpus(plain(tmp_path, TEXTS))),
        ("y", Corpus(plain(tmp_path, TEXTS[:1], "y.txt"))),
    ]


def tables(section):
    return [[dict(zip(block.header, row, strict=True)) for row in block.rows]
            for block in section.blocks if isinstance(block, Table)]  # fmt: skip


def num_words(rows, name):
    """Return the number of words of a tokenizer in all rows of a table."""
    return sum(int(row["words"].replace(",", "")) for row in rows if row["tokenizer"] == name)


def test_the_figures_are_those_of_compare_and_of_the_definitions(tokenizers, corpora):
    sections = {s.title: s for s in tokenizer_sections(tokenizers, corpora, documents=25)}
    libraries, parts = tables(sections["Tokenizers"])
    assert [row["tokens"] for row in libraries] == [f"{t.num_tokens:,}" for t in tokenizers]
    assert {
        (row["part"], row["value"]) for row in parts if row["tokenizer"] == tokenizers[1].name
    } == {*described_parts(tokenizers[1].tokenizer.definition).items()}
    (sizes,) = tables(sections["Compression and speed"])
    for row, measured in zip(sizes, measure(tokenizers, corpora, documents=25), strict=True):
        result = measured.result
        assert (row["corpus"], row["tokenizer"]) == (result.corpus, result.tokenizer)
        assert row["tokens"] == f"{result.num_tokens:,}"
        assert row["bytes per token"].split()[0] == f"{result.bytes_per_token:.3f}"
        assert ("[" in row["bytes per token"]) == (result.num_documents > 1)
    assert sizes[1]["bytes per token"] == "1.000 [1.000, 1.000]"
    assert sizes[0]["relative tokens"] == "–"
    ratio = int(sizes[1]["tokens"].replace(",", "")) / int(sizes[0]["tokens"].replace(",", ""))
    assert sizes[1]["relative tokens"].startswith(f"{ratio:.3f} [")
    tokenizer = small_tokenizer()
    counts = Counter(itertools.chain.from_iterable(map(tokenizer.encode, TEXTS)))
    efficiency = renyi_efficiency(counts.values(), len(tokenizer))
    assert sizes[0]["Rényi efficiency"] == f"{efficiency:.3f}"
    assert float(sizes[1]["fertility"]) > float(sizes[0]["fertility"]) >= 1
    _, scripts = tables(sections["Scripts"])
    for name in (one.name for one in tokenizers):
        assert num_words(scripts, name) == num_words(sizes, name) > 0

    used, listed = tables(sections["Unused, rare and unreachable tokens"])
    both = counts + Counter(tokenizer.encode(TEXTS[0]))
    ids = [i for i, token in tokenizer.vocab.items() if len(token) > 1 and token != END.encode()]
    assert used[0]["tokens"] == f"{len(ids):,}"
    assert used[0]["unused"] == str(sum(not both[i] for i in ids))
    assert used[0]["once"] == str(sum(both[i] == 1 for i in ids))
    assert used[0]["10–99 times"] == str(sum(10 <= both[i] < 100 for i in ids))
    rarest = next(row["tokens"] for row in listed if row["kind"] == "rarest")
    found = [both[tokenizer.token_to_id(token)] for token in rarest.tokens]
    assert found == sorted(both[i] for i in ids if both[i])[: len(found)]

    (overlap,) = tables(sections["Vocabulary overlap"])
    shared = f"256 ({256 / (len(tokenizer) - 1):.1%})"
    assert [*overlap[0].values()][-1] == shared
    assert [*overlap[1].values()][1:] == ["256 (100.0%)", "256 (100.0%)"]
    for example in tables(sections["Examples"])[0]:
        if isinstance(example["tokens"], Tokens):
            assert b"".join(example["tokens"].tokens).decode() in "\n".join(TEXTS)


def test_one_tokenizer_has_neither_overlap_nor_examples(tokenizers, corpora):
    sections = tokenizer_sections(tokenizers[:1], corpora[1:])
    assert not {"Vocabulary overlap", "Examples"} & {section.title for section in sections}
    assert "–" in render_markdown("x", sections)  # a single document has no interval


def test_names_must_differ(tokenizers, corpora):
    with rejects(None, "'x'"):
        tokenizer_sections(tokenizers, [corpora[0], corpora[0]])
    with rejects(None, "a'"):
        tokenizer_sections([tokenizers[0], tokenizers[0]], corpora)


def test_a_corpus_without_letters_and_a_vocabulary_without_common_tokens(tmp_path):
    Tokenizer({0: b"1", 1: b"2", 2: b"12"}, [(b"1", b"2")]).save(tmp_path / "a")
    Tokenizer({0: b"1", 1: b"2"}, []).save(tmp_path / "b")
    (tmp_path / "text").write_text("1212")
    tokenizers = [open_tokenizer(tmp_path / name) for name in "ab"]
    sections = tokenizer_sections(tokenizers, [("x", Corpus(tmp_path / "text"))])
    num_tables = render_html("x", sections).count("<table ")
    assert (
        len(re.findall(r"^\|( - \|)+$", render_markdown("x", sections), re.MULTILINE)) == num_tables
    )
