"""errors="bytes": byte strings survive a round trip; text and files get their usual ids."""

import gzip
import itertools
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cs336_basics import Tokenizer, train_bpe
from cs336_basics.counting import count_words
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import (
    IncrementalEncoder,
    count_tokens,
    encode_file,
    load_document_starts,
    load_token_file,
)
from cs336_basics.tokenizer.encoders import exact_bytes
from tests.errors import rejects
from tests.tokenizer.examples import END, FRAGMENTS, reference_ids, small_tokenizer
from tests.tokenizer.files.corpus_files import TEXT

BACKENDS = ("reference", "python", "native")

# Text, and all kinds of invalid UTF-8: lone continuation bytes, truncated and overlong sequences,
# surrogates, and code points that are too large.
PIECES = [
    *(fragment.encode() for fragment in FRAGMENTS if fragment.isprintable()),
    END.encode(), b" ", b"  ", b"\n", b"\xff", b"\xfe\xff", b"\x80", b"\xc3", b"\xe4\xb8",
    b"\xf0\x9f\x8e", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe3\x80\x80", b"\x85",
    "\ufffd".encode(), "中".encode(), b"<|endof\xfftext|>", b"\xff\xfe",
]  # fmt: skip

hostile_bytes = st.one_of(st.binary(max_size=40), st.lists(st.sampled_from(PIECES)).map(b"".join))


def expected_ids(tokenizer, data):
    """Return the expected ids: the reference encodes text, and every other byte is one token."""
    ids, text = [], bytearray()
    offset = 0
    while offset < len(data):
        for length in (1, 2, 3, 4):
            character = data[offset : offset + length]
            try:
                character.decode()
            except UnicodeDecodeError:
                continue
            text += character
            break
        else:
            ids += reference_ids(tokenizer, text.decode())
            text.clear()
            length = 1
            ids.append(tokenizer.token_to_id(data[offset : offset + 1]))
        offset += length
    return ids + reference_ids(tokenizer, text.decode())


@settings(max_examples=80, deadline=None)
@given(hostile_bytes)
def test_every_byte_string_is_restored_and_has_the_expected_ids(data):
    for backend in BACKENDS:
        tokenizer = small_tokenizer(backend=backend)
        ids = tokenizer.encode_array(data, errors="bytes")
        assert ids.dtype == np.uint16
        assert tokenizer.decode_bytes(ids) == data
        assert ids.tolist() == expected_ids(tokenizer, data)


@settings(max_examples=60, deadline=None)
@given(hostile_bytes, st.integers(1, 5), st.integers(1, 12), st.booleans())
def test_batches_and_large_texts_do_not_change_the_ids(data, batch_size, large, all_special):
    tokenizer = small_tokenizer()
    special = tokenizer.encoder.all_special if all_special else frozenset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_bytes, "BATCH_SIZE", batch_size)
        patch.setattr(exact_bytes, "LARGE", large)
        ids = exact_bytes.encode_exactly(tokenizer.encoder, data, special, 2)
    expected = tokenizer.encode_array(
        data, errors="bytes", allowed_special="all" if all_special else []
    )
    assert ids.tolist() == expected.tolist()


def test_megabytes_of_binary_data_take_seconds():
    tokenizer = small_tokenizer()
    data = b"a\xff" * (1 << 20) + bytes(range(256)) * 4096
    start = time.perf_counter()
    ids = tokenizer.encode_array(data, errors="bytes")
    assert time.perf_counter() - start < 60  # takes one second on an idle machine
    assert tokenizer.decode_bytes(ids) == data


@pytest.mark.parametrize("special", ["all", []])
def test_the_offset_of_an_absent_byte_counts_all_data(special, monkeypatch):
    monkeypatch.setattr(exact_bytes, "BATCH_SIZE", 2)
    tokenizer = Tokenizer({0: b"a", 1: b"\xff", 2: b"\xfe"}, [])
    for absent in (b"b", b"\x80", "é".encode()):
        for before in (b"", b"a", b"\xff", b"aa\xff\xfea\xfe" * 3, b"\xffaaa"):
            with rejects(None, f"{absent[0]:#04x}", len(before)):
                tokenizer.encode_array(
                    before + absent + b"\xff", errors="bytes", allowed_special=special
                )


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_the_error_names_the_first_absent_byte(tmp_path, name):
    tokenizer = Tokenizer({0: b" ", 1: b"a", 2: b"\xfe"}, [])
    for data in (b"a\xff b", b"a\xfe\xff \xfd", b"a b\xff", b"\xfe b\xff"):
        first = next(i for i, byte in enumerate(data) if byte not in b" a\xfe")
        shown = f"byte {data[first]:#04x} at offset {first}"
        with rejects(None, shown):
            tokenizer.encode_array(data, errors="bytes")
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        with rejects(None, shown):
            encode_file(tokenizer, Corpus(path, errors="bytes"), tmp_path / "a.npy")


@settings(max_examples=60, deadline=None)
@given(
    hostile_bytes,
    st.lists(st.integers(0, 60), max_size=8),
    st.sampled_from(["gpt2", "cl100k", r"\w+|\W"]),
)
def test_an_incremental_encoder_gives_the_ids_of_the_whole(data, cuts, pattern):
    tokenizer = small_tokenizer((END, "a b", "\n\n"), pattern)
    encoder = IncrementalEncoder(tokenizer, errors="bytes")
    bounds = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    for _ in range(2):  # the encoder must be reusable
        ids = []
        for start, end in itertools.pairwise(bounds):
            ids += encoder.feed(data[start:end])
        ids += encoder.finish()
        assert ids == tokenizer.encode_array(data, errors="bytes").tolist()


@pytest.mark.parametrize("chunk_size", [7, 1000])
@pytest.mark.parametrize("compressed", [False, True])
def test_files_of_bytes_are_encoded_exactly(source, out, backend, chunk_size, compressed):
    tokenizer = small_tokenizer(backend=backend)
    if compressed:
        data = gzip.compress(source.read_bytes())
        source = source.with_suffix(".gz")
        source.write_bytes(data)
    metadata = encode_file(
        tokenizer, Corpus(source, errors="bytes"), out / "text.npy", chunk_size=chunk_size,
        num_workers=1 if backend == "python" else 2, document_starts=True,
    )  # fmt: skip
    ids = load_token_file(out / "text.npy")
    assert tokenizer.decode_bytes(ids) == TEXT
    assert ids.tolist() == tokenizer.encode_array(TEXT, errors="bytes").tolist()
    assert metadata["num_bytes"] == len(TEXT)
    starts = load_document_starts(out / "text.npy")
    assert all(ids[start - 1] == tokenizer.special_token_id(END) for start in starts[1:].tolist())
    counts = count_tokens(tokenizer, Corpus(source, errors="bytes"))
    np.testing.assert_array_equal(counts, np.bincount(ids, minlength=tokenizer.vocab_size))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    hostile_bytes.filter(len),
    st.integers(1, 50),
    st.sampled_from(["gpt2", "o200k", r"\w+|\s+|[^\w\s]"]),
)
def test_files_of_any_bytes_have_the_expected_ids(tmp_path, data, chunk_size, pattern):
    tokenizer = small_tokenizer((END, "a b", "\n\n"), pattern, backend="native")
    (tmp_path / "a.txt").write_bytes(data)
    encode_file(
        tokenizer, Corpus(tmp_path / "a.txt", errors="bytes"), tmp_path / "a.npy", num_workers=2,
        chunk_size=chunk_size, document_starts=True, overwrite=True,
    )  # fmt: skip
    ids = load_token_file(tmp_path / "a.npy")
    assert ids.tolist() == expected_ids(tokenizer, data)
    ends = np.flatnonzero(ids == tokenizer.special_token_id(END)) + 1
    starts = load_document_starts(tmp_path / "a.npy")
    assert starts.tolist() == [0, *ends[ends < len(ids)].tolist()]


def test_training_rejects_errors_bytes(source):
    corpus = Corpus(source, errors="bytes")
    for work in (lambda: count_words(corpus), lambda: train_bpe(corpus, 300, [])):
        with rejects("errors", "'bytes'"):
            work()
