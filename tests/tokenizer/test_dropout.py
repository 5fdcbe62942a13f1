"""BPE-dropout: the ids of the reference, its distribution, and independence of workers."""

from __future__ import annotations

import itertools
import math
import pickle
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import Dropout, Tokenizer, encode_file, encode_rows, load_token_file
from cs336_basics.tokenizer.dropout import merge_with_dropout
from cs336_basics.tokenizer.files.encode_job import EncodeJob
from cs336_basics.tokenizer.reference import encode_text_with_dropout
from tests.commands.small_run import command
from tests.errors import rejects
from tests.texts import TEXTS, long_text
from tests.tokenizer.examples import (
    BYTES,
    COURSE_MERGES,
    END,
    FRAGMENTS,
    byte_tokenizer,
    edited_merges,
    small_tokenizer,
)
from tests.tokenizer.files.corpus_files import TEXT, metadata_of

SPECIALS = (END, "<|", "\n\n")


def specified(tokenizer: Tokenizer, texts: list[str], dropout: Dropout) -> list[list[int]]:
    return [
        encode_text_with_dropout(
            text,
            tokenizer.vocab,
            tokenizer.merges,
            dropout,
            dropout.first_document + index,
            tokenizer.added_tokens,
            tokenizer.pattern,
        )
        for index, text in enumerate(texts)
    ]


@pytest.mark.parametrize("probability", [0, 0.0])
def test_without_dropout_the_ids_are_those_of_encode(make_small, probability):
    tokenizer = make_small(SPECIALS)
    texts = [text[:400] for text in TEXTS.values()]
    ids = tokenizer.encode_batch(texts, dropout=Dropout(probability, seed=7))
    assert ids == [tokenizer.encode(text) for text in texts]


def test_with_a_probability_of_1_the_ids_are_the_bytes(make_small):
    tokenizer = make_small(())
    texts = list(TEXTS.values())
    ids = tokenizer.encode_batch(texts, dropout=Dropout(1))
    assert ids == [list(text.encode()) for text in texts]


@pytest.mark.parametrize("probability", [1e-3, 0.1, 0.5, 0.95, 1 - 2**-53, 1])
def test_every_backend_gives_the_ids_of_the_reference(make_small, probability):
    tokenizer = make_small(SPECIALS)
    dropout = Dropout(probability, seed=3, first_document=5)
    texts = [text[:400] for text in TEXTS.values()]
    expected = specified(tokenizer, texts, dropout)
    assert tokenizer.encode_batch(texts, dropout=dropout) == expected
    batch = tokenizer.encode_batch_array(texts, dropout=dropout, num_workers=2)
    assert [ids.tolist() for ids in batch.arrays()] == expected
    assert tokenizer.decode_batch(batch) == texts


def check_random_cases(first: int, number: int) -> None:
    """Compare the encoders with the reference for random vocabularies and texts."""
    for seed in range(first, first + number):
        chooser = random.Random(seed)
        if seed % 2:
            tokenizer = Tokenizer(*edited_merges(seed), cache_size=chooser.choice([0, 1 << 16]))
            alphabet = ["a", "b", "c", " ", "d"]
        else:
            tokenizer = small_tokenizer(SPECIALS, cache_size=chooser.choice([0, 1 << 16]))
            alphabet = FRAGMENTS
        length = chooser.choice([1, 3, 10, 30, 200])
        text = "".join(chooser.choices(alphabet, k=length))
        dropout = Dropout(chooser.choice([0.01, 0.1, 0.3, 0.7, 0.99]), seed)
        texts = [text, text[: length // 2]]
        assert tokenizer.encode_batch(texts, dropout=dropout) == specified(
            tokenizer, texts, dropout
        ), seed


def test_random_texts_get_the_ids_of_the_reference():
    check_random_cases(0, 150)


@pytest.mark.slow
def test_ten_thousand_random_texts_get_the_ids_of_the_reference():
    check_random_cases(1000, 10_000)


@pytest.mark.parametrize("length", [63, 64, 65, 66, 300])
def test_long_words_get_the_ids_of_the_reference(length):
    tokenizer = byte_tokenizer(
        merges=[(b"a", b"b"), (b"ab", b"a"), (b"b", b"b"), (b"ab", b"ab"), (b"aba", b"abab")],
        pattern=r"[\s\S]+",
    )
    chooser = random.Random(length)
    for probability in (0.05, 0.5, 0.9):
        texts = ["".join(chooser.choices("ab", k=length)) for _ in range(5)]
        dropout = Dropout(probability, length)
        assert tokenizer.encode_batch(texts, dropout=dropout) == specified(
            tokenizer, texts, dropout
        )


def test_tokens_that_no_merge_produces_do_not_occur():
    tokenizer = Tokenizer({**BYTES, 256: b"the"}, [], ignore_merges=True)
    assert tokenizer.encode("the") == [256]
    assert tokenizer.encode_batch(["the"], dropout=Dropout(1e-9)) == [list(b"the")]


# ------------------------------------------------------------------------------- distribution


def exact_distribution(word: bytes, merges, probability: Fraction) -> dict[tuple, Fraction]:
    """Return the probability of each result, by algorithm 1 of Provilkov et al. (2020).

    In each step, every subset of the possible merges may remain.
    """
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    results: dict[tuple, Fraction] = {}
    open_states = {tuple(bytes([byte]) for byte in word): Fraction(1)}
    while open_states:
        symbols, mass = open_states.popitem()
        possible = [
            (ranks[pair], i) for i, pair in enumerate(itertools.pairwise(symbols)) if pair in ranks
        ]
        for kept in itertools.product([False, True], repeat=len(possible)):
            share = mass
            for is_kept in kept:
                share *= 1 - probability if is_kept else probability
            left = [merge for merge, is_kept in zip(possible, kept, strict=True) if is_kept]
            if not left:
                results[symbols] = results.get(symbols, Fraction(0)) + share
                continue
            i = min(left)[1]
            merged = (*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])
            open_states[merged] = open_states.get(merged, Fraction(0)) + share
    return results


FALSE_ALARM = 1e-9
"""Probability that correct code fails one of the tests below, for a random seed."""


def check_frequencies(found: Counter, expected: dict, number: int) -> None:
    """Check frequencies with Hoeffding's inequality and the union bound.

    With `number` independent draws, an outcome's frequency differs from its probability by more
    than t with a probability of at most 2 exp(-2 number t^2).
    """
    assert set(found) <= set(expected)
    bound = math.sqrt(math.log(2 * len(expected) / FALSE_ALARM) / (2 * number))
    for outcome, probability in expected.items():
        assert abs(found[outcome] / number - probability) <= bound, outcome


@pytest.mark.parametrize("probability", [Fraction(1, 8), Fraction(1, 2), Fraction(7, 8)])
def test_words_have_the_distribution_of_the_paper(probability):
    merges = [*COURSE_MERGES, (b"a", b"t"), (b"h", b"e"), (b"e", b"a"), (b"th", b"ea")]
    tokenizer = byte_tokenizer(merges=merges)
    number = 25_000
    dropout = Dropout(float(probability), seed=11)
    # The documents are equal, so each word is drawn anew in every document.
    batch = tokenizer.encode_batch_array(["theat the"] * number, dropout=dropout)
    results = Counter(
        tuple(tokenizer.vocab[i] for i in ids) for ids in map(np.ndarray.tolist, batch.arrays())
    )
    first = exact_distribution(b"theat", merges, probability)
    second = exact_distribution(b" the", merges, probability)
    # The words of a document are independent.
    both = {a + b: p * q for (a, p), (b, q) in itertools.product(first.items(), second.items())}
    check_frequencies(results, both, number)


def test_words_of_a_document_and_seeds_are_independent():
    tokenizer = byte_tokenizer(merges=[(b" ", b"a")])
    number = 25_000
    (ids,) = tokenizer.encode_batch([" a" * number], dropout=Dropout(0.5, seed=1))
    tokens = iter(ids)
    kept = [token == 256 or bool(next(tokens) and False) for token in tokens]
    assert len(kept) == number
    fair = {pair: Fraction(1, 4) for pair in itertools.product([False, True], repeat=2)}
    check_frequencies(Counter(zip(kept[::2], kept[1::2], strict=True)), fair, number // 2)
    single = {
        seed: [
            len(ids) == 1
            for ids in tokenizer.encode_batch([" a"] * number, dropout=Dropout(0.5, seed))
        ]
        for seed in (1, 2)
    }
    check_frequencies(Counter(zip(single[1], single[2], strict=True)), fair, number)


def test_the_readable_function_has_the_distribution_of_the_paper():
    merges = [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    dropout, number = Dropout(0.375, seed=5), 12_000
    found = Counter(
        merge_with_dropout((b"a", b"b", b"c", b"a", b"b"), ranks, dropout.kept((i, 0)))
        for i in range(number)
    )
    check_frequencies(found, exact_distribution(b"abcab", merges, Fraction(3, 8)), number)


# ------------------------------------------------------------------------------- files


def test_token_files_depend_on_neither_workers_nor_chunks(source, out, monkeypatch):
    tokenizer = small_tokenizer(SPECIALS)
    dropout = Dropout(0.2, seed=9)
    expected = None
    for name, num_workers, chunk_size in (("a", 1, 1 << 19), ("b", 2, 7), ("c", 3, 100)):
        path = out / f"{name}.npy"
        encode_file(
            tokenizer, source, path, num_workers=num_workers, chunk_size=chunk_size, dropout=dropout
        )
        ids = load_token_file(path).tolist()
        expected = ids if expected is None else expected
        assert ids == expected
    text = TEXT.decode("utf-8", errors="replace")
    assert expected == tokenizer.encode_batch([text], dropout=dropout)[0]
    assert expected != tokenizer.encode(text)
    assert metadata_of(path)["dropout"] == {"probability": 0.2, "seed": 9, "first_document": 0}
    encode_file(tokenizer, source, out / "none.npy", dropout=Dropout(0, 1))
    assert load_token_file(out / "none.npy").tolist() == tokenizer.encode(text)
    assert "dropout" not in metadata_of(out / "none.npy")


def test_every_file_and_row_is_a_document(tmp_path, out):
    tokenizer = small_tokenizer(SPECIALS)
    dropout = Dropout(0.3, seed=4)
    texts = [long_text(seed, 300) for seed in range(6)]
    expected = list(itertools.chain(*tokenizer.encode_batch(texts, dropout=dropout)))
    files = []
    for index, text in enumerate(texts):
        files.append(tmp_path / f"{index}.txt")
        files[-1].write_text(text, encoding="utf-8", newline="")
    encode_file(tokenizer, [*map(str, files)], out / "files.npy", dropout=dropout, chunk_size=50)
    assert load_token_file(out / "files.npy").tolist() == expected
    encode_rows(tokenizer, texts, out / "rows.npy", dropout=dropout, num_workers=2)
    assert load_token_file(out / "rows.npy").tolist() == expected
    encode_rows(tokenizer, map(str.encode, texts), out / "bytes.npy", dropout=dropout)
    assert load_token_file(out / "bytes.npy").tolist() == expected


@pytest.mark.parametrize("backend", ["native", "python"])
def test_normalized_text_has_the_same_ids_in_pieces(backend, tmp_path, out):
    # `ﬁ` and `½` become several characters, and the first accent is combined.
    text = "the \ufb01rst cafe\u0301 \u00bd the cat ate.\n" * 30
    tokenizer = small_tokenizer(SPECIALS, normalizer="NFKC", backend=backend)
    dropout = Dropout(0.25, seed=2)
    (expected,) = tokenizer.encode_batch([text], dropout=dropout)
    plain = small_tokenizer(SPECIALS, normalizer="NFKC", backend="python")
    assert expected == plain.encode_batch([text], dropout=dropout)[0]
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8", newline="")
    for chunk_size in (20, 333):
        encode_file(
            tokenizer,
            path,
            out / "a.npy",
            dropout=dropout,
            chunk_size=chunk_size,
            num_workers=2 if backend == "native" else 1,
            overwrite=True,
        )
        assert load_token_file(out / "a.npy").tolist() == expected


def test_jobs_keep_the_dropout_when_they_are_pickled():
    job = EncodeJob(small_tokenizer(), "replace", dropout=Dropout(0.5, 3))
    assert pickle.loads(pickle.dumps(job)).dropout == Dropout(0.5, 3)


def test_the_command_writes_a_token_file_with_dropout(source, tmp_path, out, capsys):
    main = command("encode")
    tokenizer = small_tokenizer(SPECIALS)
    tokenizer.save(tmp_path / "tokenizer")
    given = ["--tokenizer", str(tmp_path / "tokenizer"), "--input", str(source)]
    given += ["--dropout", "0.1", "--output"]
    assert main([*given, str(out / "a.npy"), "--seed", "5"]) == 0
    encode_file(tokenizer, source, out / "b.npy", dropout=Dropout(0.1, 5))
    ids = load_token_file(out / "a.npy").tolist()
    assert ids == load_token_file(out / "b.npy").tolist()
    assert main([*given, str(out / "c.npy"), "--seed", "6"]) == 0
    assert load_token_file(out / "c.npy").tolist() != ids
    assert main([*given, str(out / "d"), "--ray", "local"]) == 2
    assert "--ray" in capsys.readouterr().err
    assert main([*given[:-2], "1.5", "--output", str(out / "d.npy")]) == 2
    assert "--dropout must be from 0 to 1, got 1.5" in capsys.readouterr().err


def test_invalid_dropouts_are_rejected(source, out):
    for value in (-0.1, 1.1, math.nan):
        with rejects("dropout", value):
            Dropout(value)
    for value in ("0.1", None, True):
        with rejects("dropout", kind=InputTypeError):
            Dropout(value)
    with rejects("seed", -1):
        Dropout(0.1, -1)
    with rejects("seed", 1 << 64):
        Dropout(0.1, 1 << 64)
    with rejects("dropout", 0.1, kind=InputTypeError):
        small_tokenizer().encode_batch(["a"], dropout=0.1)
    corpus = Corpus(source, errors="bytes")
    with rejects("errors", "bytes", kind=InputError):
        encode_file(small_tokenizer(), corpus, out / "a.npy", dropout=Dropout(0.1))
