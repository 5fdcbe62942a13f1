"""The drawings show each trainer's words and pair counts."""

import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics import TRAINERS
from cs336_basics._support.errors import UnavailableError
from cs336_basics.bpe.drawing import MOST_BYTES, pair_text, symbol_text
from cs336_basics.bpe.explain import draw, explain, explain_superwords
from cs336_basics.bpe.superwords import MAX_WORDS
from cs336_basics.bpe.unbuilt import unbuilt_trainer
from cs336_basics.splitting import pretokenize
from tests.bpe.trainers import WORKED_EXAMPLE, every_trainer, merge_everywhere, specified_merges
from tests.errors import rejects

WORDS = [word for word, count in WORKED_EXAMPLE.items() for _ in range(count)]
PAIR = re.compile(r"^\((\w+), (\w+)\) +(\d+)(?: +(.+))?$", re.MULTILINE)


def after_merges(words, num_merges):
    """Return the words (as lists of symbols) and the pair counts after `num_merges` merges."""
    split = [([bytes([byte]) for byte in word], count) for word, count in words.items()]
    for pair in specified_merges(words, num_merges):
        merge_everywhere(split, *pair)
    counts = Counter()
    for symbols, count in split:
        for pair in pairwise(symbols):
            counts[pair] += count
    return [symbols for symbols, _ in split], counts


def drawn_counts(name, drawing):
    """Return the pair counts shown in a drawing.

    For the heap trainer, use the current counts, not those stored in the heap, which may be stale.
    """
    counts = {}
    for left, right, count, rest in PAIR.findall(drawing.partition("\nheap ")[0]):
        now = int(rest.split()[0]) if name == "heap" else int(count)
        if now:
            counts[left.encode(), right.encode()] = now
    return counts


ascii_words = st.dictionaries(
    st.text("aabc", min_size=1, max_size=7).map(str.encode), st.integers(1, 9), min_size=1
)


@every_trainer
@given(words=ascii_words, num_merges=st.integers(1, 6))
def test_a_drawing_has_every_pair_with_its_count(name, words, num_merges):
    drawing = draw(name, words, num_merges)
    _, expected = after_merges(words, num_merges)
    if name == "native":  # rarer pairs are not stored
        threshold = int(re.search(r"threshold: (\d+)", drawing)[1]) if expected else 1
        expected = {pair: count for pair, count in expected.items() if count >= threshold}
    assert drawn_counts(name, drawing) == expected


def places(words, num_merges):
    """Return a dict that maps each pair to the (word index, byte offset) of every occurrence."""
    found = defaultdict(list)
    start = 0
    for index, symbols in enumerate(after_merges(words, num_merges)[0]):
        for left, right in pairwise(symbols):
            found[left, right].append((index, start))
            start += len(left)
        start += len(symbols[-1])
    return found


@given(words=ascii_words, num_merges=st.integers(1, 6))
def test_a_drawing_has_every_occurrence_of_a_pair(words, num_merges):
    drawn = {}
    for name in ("incremental", "memoryview", "native"):
        rows = PAIR.findall(draw(name, words, num_merges).partition("\nheap ")[0])
        drawn[name] = {(a.encode(), b.encode()): re.findall(r"\d+\*?", r) for a, b, _, r in rows}
    found = places(words, num_merges)
    indices = {pair: sorted({index for index, _ in at}) for pair, at in found.items()}
    assert drawn["incremental"] == {pair: list(map(str, at)) for pair, at in indices.items()}
    offsets = {pair: [str(offset) for _, offset in at] for pair, at in found.items()}
    assert drawn["memoryview"] == offsets
    for pair, postings in drawn["native"].items():  # `native` sorts its words differently
        assert sum(not posting.endswith("*") for posting in postings) == len(found[pair])


@pytest.mark.parametrize(
    ("words", "cells"),
    [
        ({b"low": 2, b"lower": 1}, "- low - low - low - low e r -"),
        ({b"a\0": 1, b"\0b": 1, b"lowlow": 1}, "- a <U+0000> - <U+0000> b - low - low low - low -"),
    ],
)
def test_the_first_and_last_cell_of_a_token_contain_it(words, cells):
    drawing = draw("native", words, 2)
    assert re.search("^cell +(.*)$", drawing, re.MULTILINE)[1].split() == cells.split()


@given(words=ascii_words, num_merges=st.integers(0, 6))
def test_the_heap_is_sorted_and_marks_stale_entries(words, num_merges):
    lines = draw("heap", words, num_merges).split("\n")[1:]
    rows = [re.split("  +", line) for line in lines]
    pushed = [int(row[1]) for row in rows]
    assert pushed == sorted(pushed, reverse=True)
    for row in rows:
        assert row[3:] == (["stale"] if row[1] != row[2] else [])


@pytest.mark.parametrize("name", ["naive", "incremental"])
@given(words=ascii_words, num_merges=st.integers(0, 6))
def test_a_drawing_has_the_merged_words(name, words, num_merges):
    drawing = draw(name, words, num_merges)
    symbols, _ = after_merges(words, num_merges)
    rows = enumerate(zip(words.values(), symbols, strict=True))
    shown = [[str(i), str(n), *map(bytes.decode, word)] for i, (n, word) in rows]
    assert [line.split() for line in drawing.split("\n")[1 : len(words) + 1]] == shown
    following = specified_merges(words, num_merges + 1)[num_merges:]
    best = [f"({left.decode()}, {right.decode()})" for left, right in following]
    assert f"the maximum: {''.join(best) or 'none'}" in drawing


@every_trainer
def test_an_explanation_has_the_merges_and_the_drawings(name):
    drawing = f"{name}\n\n{draw(name, WORKED_EXAMPLE, 2)}"
    assert explain(WORDS, 2, name) == f"merges: (s, t) (e, st)\n\n{drawing}"
    assert drawing in explain(WORDS, 2)


@every_trainer
@pytest.mark.parametrize("words", [WORDS, [b"a"], [b"\xff"]])
def test_a_training_ends_when_no_pair_is_left(name, words):
    last = explain(words, 12, name)
    assert "; no pair is left\n" in last
    assert explain(words, 10**18, name) == last
    assert explain(words, 0, name).startswith("merges: none")


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        (b"\x1b[31m \xff", "<U+001B>[31m·<ff>"),
        (b".", "'.'"),
        (b"-", "'-'"),
    ],
)
def test_symbols_are_printable(word, shown):
    row = draw("naive", {word: 1}, 99).split("\n")[1]
    assert row == f"0     1      {shown}"
    for name in TRAINERS:
        for num_merges in (0, 1, 99):
            assert explain([word], num_merges, name).replace("\n", "").isprintable()


def test_columns_with_wide_characters_are_aligned():
    position, token, *_ = draw("memoryview", {"中文".encode(): 1}, 4).split("\n")
    assert position == "position       0   1  2  3   4  5"
    assert token == "token          中  .  .  文  .  ."


@pytest.mark.parametrize("name", ["memoryview", "native"])
def test_lines_have_a_maximum_length(name):
    words = {bytes([byte]) * 20: 1 for byte in b"abcdefghij"}
    lines = draw(name, words, 30).partition("\n\npair")[0].split("\n")
    assert max(map(len, lines)) <= 110
    numbers = [line.split()[1:] for line in lines if line.startswith("position")]
    assert len(numbers) > 3
    assert [int(n) for band in numbers for n in band] == list(range(sum(map(len, numbers))))


@every_trainer
def test_too_many_bytes_and_no_words_are_rejected(name):
    assert draw(name, {b"a" * MOST_BYTES: 1}, 2)
    with rejects(None, MOST_BYTES, 501, "b" * 20):
        draw(name, {b"a": 1, b"b" * MOST_BYTES: 1}, 2)
    for words in ({}, {b"": 3}):
        with rejects("words"):
            draw(name, words, 2)


def test_a_trainer_that_is_not_built_is_omitted(monkeypatch):
    monkeypatch.setitem(TRAINERS, "native", unbuilt_trainer("native"))
    assert "\nmemoryview\n" in explain(WORDS)
    assert "\nnative\n" not in explain(WORDS)
    with rejects(None, "native", kind=UnavailableError):
        explain(WORDS, 2, "native")
    with rejects("trainer", "hep"):
        explain(WORDS, 2, "hep")


LINE = "in the end of the day, at the end of the end"


@every_trainer
@given(num_word_merges=st.integers(0, 12), num_merges=st.integers(0, 5))
def test_superwords_are_drawn_with_the_counts_of_the_specification(
    name, num_word_merges, num_merges
):
    drawing = explain_superwords(LINE, num_word_merges, num_merges, name)
    words = Counter(word.encode() for word in pretokenize(LINE, "gpt2"))
    first = specified_merges(words, num_word_merges)
    line = {LINE.encode(): 1}
    merges = specified_merges(line, num_merges, before=first, max_words=MAX_WORDS)
    symbols = [bytes([byte]) for byte in LINE.encode()]
    for pair in [*first, *merges]:
        merge_everywhere([(symbols, 1)], *pair)
    head, _, rest = drawing.partition("\n\n")
    in_words = "".join(f" {pair_text(pair)}" for pair in first) or " none"
    assert head.splitlines()[0].removesuffix("; no pair is left") == "merges in words:" + in_words
    shown = head.splitlines()[1].removesuffix("; no pair is left")
    assert shown == "superwords:" + ("".join(f" {pair_text(pair)}" for pair in merges) or " none")
    assert rest.startswith(f"{name}\n\n")
    expected = Counter(p for p in pairwise(symbols) if p[0].isalnum() and p[1].isalnum())
    if name == "native":  # rarer pairs are not stored, and none before the first merge
        found = re.search(r"threshold: (\d+)", rest)
        threshold = int(found[1]) if found else len(LINE)
        expected = {pair: count for pair, count in expected.items() if count >= threshold}
    assert drawn_counts(name, rest) == expected
    if name == "naive":
        assert " ".join(symbol_text(symbol) for symbol in symbols) in rest
