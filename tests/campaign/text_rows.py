"""Rows about text and ids: splitting, encoding, training and the division of the work.

The rows import inside their functions, so that a process imports only what its row needs.
"""

from __future__ import annotations

import functools
import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from tests.campaign.row import Case, row

BLOCK = 1 << 16
"""Number of scalar values in a case."""
LONGEST_PART = 2_000_000
"""Maximum number of bytes of a real text in a case."""


@functools.cache
def _blocks() -> list[tuple[str, int]]:
    from tests.splitting.test_scanner import CONTEXTS, SCALAR_VALUES

    return list(itertools.product(CONTEXTS, range(0, len(SCALAR_VALUES), BLOCK)))


@row("scalar values in a context", cases=_blocks, share=2)
def scalar_values(case: Case) -> int:
    """Every scalar value in eight contexts is split as `regex` does, at every SIMD level."""
    from tests.splitting.test_scanner import OTHER_UNICODE, SCALAR_VALUES, check

    if OTHER_UNICODE:
        pytest.skip("the installed regex has a different Unicode version")
    context, start = case.value
    codes = SCALAR_VALUES[start : start + BLOCK]
    check("".join(context.replace("{}", chr(code)) for code in codes))
    return len(codes)


@row("scalar values", cases=lambda: ["tiktoken and tokenizers"], in_normal_run=False, share=0.2)
def other_libraries_unicode(case: Case) -> int:
    """Only characters of later Unicode versions are classed differently by other libraries."""
    pytest.importorskip("tiktoken")
    pytest.importorskip("tokenizers")
    from tests.tokenizer import test_reference

    test_reference.test_only_characters_of_late_unicode_versions_are_classed_differently()
    case.notes["characters that tiktoken or tokenizers class differently"] = len(
        test_reference.classed_differently()
    )
    return len(test_reference.ALL_CHARACTERS)


@row("texts", share=8)
def named_patterns(case: Case) -> int:
    """Random texts are split by every named pattern as `regex` does, at every SIMD level."""
    from cs336_basics.splitting import PATTERNS
    from tests.splitting import test_scanner
    from tests.splitting.patterns import test_split_program

    texts = [test_scanner.random_text(case.chooser) for _ in range(100)]
    texts += [test_split_program.random_text(case.chooser, 200) for _ in range(100)]
    for text in texts:
        test_scanner.check(text, PATTERNS)
    # A pattern without a name is compiled in every call, which takes longer than splitting.
    test_scanner.check("".join(texts), [test_scanner.USER])
    return len(texts)


@row("patterns", share=3)
def random_patterns(case: Case) -> int:
    """Random split patterns match as in `regex`, at every SIMD level, or are not compiled."""
    from tests.splitting.patterns.test_split_program import check_random_pattern

    compiled = check_random_pattern(case.chooser)
    case.notes["patterns that are not compiled"] += not compiled
    return compiled


@row("texts", share=8)
def encoding(case: Case) -> int:
    """Random texts have the ids of the reference in every backend, in pieces and in batches."""
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.tokenizer.encoders.backends import BACKENDS
    from tests.tokenizer.examples import (
        FRAGMENTS,
        SPECIALS,
        edited_merges,
        reference_ids,
        trained,
    )

    chooser = case.chooser
    pattern = chooser.choice(["gpt2", "cl100k", "o200k", r"\w+|\W", r"[a-z]+|\s+(?!\S)|\s"])
    if chooser.random() < 0.5:
        vocab, merges = trained(pattern)
    else:
        vocab, merges = edited_merges(chooser.randrange(10**9))
    specials = chooser.sample(SPECIALS, chooser.randint(0, len(SPECIALS)))
    options = {
        "pattern": pattern,
        "ignore_merges": chooser.random() < 0.3,
        "normalizer": chooser.choice([None, None, None, "NFC", "NFKD"]),
    }
    tokenizers = [
        Tokenizer(vocab, merges, specials, backend=backend, **options) for backend in BACKENDS
    ]
    texts = [_text(case, FRAGMENTS) for _ in range(10)]
    expected = [reference_ids(tokenizers[0], text) for text in texts]
    for tokenizer in tokenizers:
        for text, ids in zip(texts, expected, strict=True):
            assert tokenizer.encode(text) == ids, (tokenizer.backend, text)
            assert tokenizer.encode_array(text).tolist() == ids, (tokenizer.backend, text)
            found, offsets = tokenizer.encode_with_offsets(text)
            assert (found, len(offsets)) == (ids, len(ids)), (tokenizer.backend, text)
            pieces = _pieces(case, text)
            assert list(tokenizer.encode_iterable(pieces)) == ids, (tokenizer.backend, pieces)
            if options["normalizer"] is None:
                assert tokenizer.decode(ids) == text, (tokenizer.backend, text)
        assert tokenizer.encode_batch(texts, num_workers=2) == expected, tokenizer.backend
    return len(texts)


def _text(case: Case, fragments: list[str]) -> str:
    text = "".join(case.chooser.choices(fragments, k=case.chooser.randrange(40)))
    return text * 20 if case.chooser.random() < 0.05 else text


def _pieces(case: Case, text: str) -> list[str]:
    cuts = sorted(case.chooser.choices(range(len(text) + 1), k=case.chooser.randint(0, 6)))
    return [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)])]


@row("texts", in_normal_run=False, share=2)  # tests/formats/test_exports.py has a slice
def other_libraries(case: Case) -> int:
    """Exported tokenizers give the same ids in tiktoken, tokenizers and transformers."""
    from cs336_basics.formats import TOKENIZER_FORMATS
    from tests.formats.exported import PATTERNS, random_texts, trained
    from tests.formats.test_exports import fits, runtime_of

    chooser = case.chooser
    pattern, to = chooser.choice(list(PATTERNS)), chooser.choice(sorted(TOKENIZER_FORMATS))
    if not fits(pattern, to):
        return 0
    encode = runtime_of(trained(pattern), to, case.folder / "exported")
    for text in random_texts(chooser.random(), 200):
        assert encode(text) == trained(pattern).encode(text), (pattern, to, text)
    return 200


def _files_in(variable: str, *patterns: str) -> list[Path]:
    directory = Path(os.environ.get(variable) or "/nonexistent")
    return sorted(file for pattern in patterns for file in directory.glob(pattern))


@functools.lru_cache(maxsize=2)
def _published(file: Path) -> tuple[Any, Any]:
    """Load a `tokenizer.json` here and with tokenizers."""
    import tokenizers

    from cs336_basics import Tokenizer

    return Tokenizer.from_huggingface(file), tokenizers.Tokenizer.from_file(str(file))


@row(
    "bytes of text",
    cases=lambda: list(
        itertools.product(
            _files_in("CS336_TOKENIZERS", "*.json", "*/tokenizer.json") or [None],
            _files_in("CS336_DATA", "*.txt") or [None],
        )
    ),
    in_normal_run=False,
    share=5,
)
def published_tokenizers(case: Case) -> int:
    """Published tokenizers give real texts the ids that tokenizers gives, and decode them."""
    pytest.importorskip("tokenizers")
    file, source = case.value
    if file is None:
        pytest.skip("needs *.json or */tokenizer.json in CS336_TOKENIZERS")
    if source is None:
        pytest.skip("needs real texts, named *.txt, in CS336_DATA")
    with open(source, "rb") as opened:
        opened.seek(case.chooser.randrange(max(source.stat().st_size - LONGEST_PART, 0) + 1))
        text = opened.read(LONGEST_PART).decode("utf-8", "ignore")
    texts = [text[i : i + 10_000] for i in range(0, len(text), 10_000)]
    ours, theirs = _published(file)
    ids = ours.encode_batch(texts)
    encodings = theirs.encode_batch_fast(texts, add_special_tokens=False)
    for part, found, encoding in zip(texts, ids, encodings, strict=True):
        assert found == encoding.ids, (file.name, source.name, part)
        assert ours.decode(found) == theirs.decode(found, skip_special_tokens=False), file.name
    return len(text.encode())


# tests/formats/huggingface/test_random_files.py has a slice
@row("files", in_normal_run=False, share=8)
def tokenizer_json(case: Case) -> int:
    """Random `tokenizer.json` files behave the same here and in tokenizers, or are refused."""
    pytest.importorskip("tokenizers")
    from tests.formats.huggingface.test_random_files import check_random_file

    loaded = check_random_file(case.chooser.random(), 10)
    case.notes["files that are refused"] += not loaded
    return loaded


@row("corpora and options", share=2)
def trainers(case: Case) -> int:
    """Every trainer learns the merges of the definition, with ties and every option."""
    import hypothesis

    from cs336_basics import TRAINERS
    from tests.bpe import test_base, test_superwords

    name = case.chooser.choice([name for name, trainer in TRAINERS.items() if trainer.is_built])
    of = case.chooser.choice([test_base, test_base, test_superwords])

    @hypothesis.seed(case.chooser.randrange(2**32))
    @hypothesis.settings(
        max_examples=20,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @of.arguments
    def check(**arguments):
        nonlocal checked
        checked += 1
        of.check_against_the_specification(name, **arguments)

    checked = 0
    check()
    return checked


@row("divisions", share=2)
def division_of_work(case: Case) -> int:
    """Any chunk size, number of workers, executor and file format gives the same counts and ids."""
    import numpy as np

    from cs336_basics.counting import count_words
    from cs336_basics.execution.executors import EXECUTORS
    from cs336_basics.splitting import SPLITTINGS, Splitter
    from cs336_basics.tokenizer import encode_file
    from tests.counting.hostile import expected_counts
    from tests.tokenizer.examples import END, FRAGMENTS, small_tokenizer
    from tests.tokenizer.files.corpus_files import corpus_of

    chooser = case.chooser
    parts = [_text(case, FRAGMENTS).encode() for _ in range(chooser.randint(1, 5))]
    data = chooser.choice([b"", b"\xff", b"\xe7\x8c", b"\r\n", END.encode()]).join(parts)
    data = data or b"a"  # a corpus without text is refused
    # Rows of text take the place of invalid bytes.
    path, texts = _write(case, data)
    splitter = Splitter("gpt2", [END])
    tokenizer = small_tokenizer()
    counts = sum((expected_counts(text.encode()) for text in texts), type(expected_counts(b""))())
    ids = [i for text in texts for i in tokenizer.encode(text)]
    checked = 0
    for _ in range(4):
        chunk_size, num_workers = chooser.randint(1, 64), chooser.choice([1, 2, 3])
        # Starting processes takes a second.
        local = [
            e for e in EXECUTORS if e != "ray" and (e != "processes" or not chooser.randrange(9))
        ]
        how = {"execution": chooser.choice(local), "splitting": chooser.choice(list(SPLITTINGS))}
        # A text of many NULs would be taken for a binary file.
        corpus = corpus_of(path, **({"format": "text"} if ".txt" in path.name else {}))
        told = (path.name, chunk_size, num_workers, how, data)
        found = count_words(corpus, splitter, num_workers=num_workers, chunk_size=chunk_size, **how)
        assert found == counts, told
        out = case.folder / "ids.npy"
        encode_file(
            tokenizer, corpus, out, num_workers=num_workers if checked % 4 else 1,
            chunk_size=chunk_size, overwrite=True,
        )  # fmt: skip
        assert np.load(out).tolist() == ids, told
        checked += 1
    return checked


def _write(case: Case, data: bytes):
    """Write a text in a random format. Return the path and the texts of its documents."""
    import gzip
    import json

    text = data.decode("utf-8", "replace")
    name = case.chooser.choice(["a.txt", "a.txt.gz", "a.jsonl", "a.jsonl.gz", "a.parquet"])
    path = case.folder / name
    rows = [text[:20], "", text[20:], text[::-1]]
    if ".jsonl" in name:
        ascii_only = case.chooser.random() < 0.5
        lines = [json.dumps({"id": 1, "text": r}, ensure_ascii=ascii_only) + "\n" for r in rows]
        data = "".join(lines).encode()
    elif name == "a.parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        table = pyarrow.table({"text": rows})
        parquet.write_table(table, path, row_group_size=case.chooser.randint(1, 4))
        return path, rows
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path, [text] if ".txt" in name else rows


@row("word counts and vocabularies")
def large_numbers(case: Case) -> int:
    """Counts up to 2^63 - 1 are exact or refused; ids need 16 bits up to 65,535, 32 beyond."""
    import numpy as np

    from cs336_basics import TRAINERS
    from cs336_basics._support.errors import InputError
    from cs336_basics.tokenizer import Tokenizer, encode_file, load_token_file
    from tests.bpe.trainers import specified_merges, train
    from tests.tokenizer.examples import BYTES

    chooser = case.chooser
    border = chooser.choice([31, 32, 53, 62, 63])
    words = [bytes(chooser.choices(b"abc", k=chooser.randint(2, 4))) for _ in range(4)]
    counts = {word: max(1, 2**border - chooser.randrange(4)) for word in words}
    if border == 63:
        counts = {word: min(count, 2**63 - 1) for word, count in counts.items()}
    total = sum(count * (len(word) - 1) for word, count in counts.items())
    checked = 0
    for name, trainer in TRAINERS.items():
        if not trainer.is_built:
            continue
        try:
            merges = train(name, counts, 5)[1]
        except (InputError, OverflowError):
            if total <= 2**62:
                raise
            case.notes["word counts that are refused"] += 1
        else:
            assert merges == specified_merges(counts, 5), (name, counts)
        checked += 1
    size = chooser.choice([65_535, 65_536, 65_537])
    vocab = {**BYTES, **{i: b"\xff%d" % i for i in range(256, size - 1)}, size - 1: b"xx"}
    tokenizer = Tokenizer(vocab, [(b"x", b"x")], [])
    source, out = case.folder / "a.txt", case.folder / "a.npy"
    source.write_text("axxb" * chooser.randint(1, 9))
    encode_file(tokenizer, source, out, num_workers=1)
    tokens = load_token_file(out)
    assert tokens.dtype == (np.uint16 if size <= 65_536 else np.uint32)
    assert tokens.tolist() == tokenizer.encode(source.read_text())
    assert tokens.max() == size - 1
    return checked + 1
