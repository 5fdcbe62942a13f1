"""Token files are exported as Megatron's indexed datasets, which can be read again."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cs336_basics import Tokenizer
from cs336_basics.formats import export_tokens
from cs336_basics.formats.megatron import indexed_dataset, load_indexed_dataset
from cs336_basics.tokenizer import encode_rows
from tests.errors import rejects
from tests.tokenizer.examples import END, TRAINING_TEXT, small_tokenizer

TEXTS = ["the cat", TRAINING_TEXT, "a", "b" + END + "c", "It's"]


def large_tokenizer():
    """Return a tokenizer whose ids need 32 bits and whose last id is the end token."""
    vocab = {id: b"%d" % id for id in range(256, 70_000)} | {n: bytes([n]) for n in range(256)}
    vocab[70_000] = END.encode()
    return Tokenizer(vocab, [], [END])


def token_files(folder, tokenizer, parts):
    """Write one token file for each list of texts, and return their paths."""
    paths = [folder / f"{number}.npy" for number in range(len(parts))]
    for path, texts in zip(paths, parts, strict=True):
        encode_rows(tokenizer, texts, path, document_starts=True, end_of_document=END)
    return paths


def documents_of(tokenizer, texts):
    """Return the ids of each document. An `END` inside a text also ends a document."""
    return [
        tokenizer.encode(part + END)
        for text in texts
        for part in text.split(END)
        if part or text == END
    ]


def content_of(documents, name, code):
    """Return the contents of a dataset's two files, computed from the format's description."""
    ids = b"".join(np.array(document, name).tobytes() for document in documents)
    size, count = np.dtype(name).itemsize, len(documents)
    lengths = [len(document) for document in documents]
    offsets = [sum(lengths[:number]) * size for number in range(count)]
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, count, count + 1)
    index += struct.pack(f"<{count}i{count}q", *lengths, *offsets)
    return ids, index + struct.pack(f"<{count + 1}q", *range(count + 1))


@pytest.mark.parametrize("at_a_time", [1, 2, 3, 1 << 20])
@pytest.mark.parametrize(
    ("make", "name", "code"), [(small_tokenizer, "<u2", 8), (large_tokenizer, "<i4", 4)]
)
def test_token_files_become_one_dataset(tmp_path, monkeypatch, make, name, code, at_a_time):
    monkeypatch.setattr(indexed_dataset, "_IDS_AT_A_TIME", at_a_time)
    tokenizer = make()
    paths = token_files(tmp_path, tokenizer, [TEXTS[:2], TEXTS[2:4], TEXTS[4:]])
    export_tokens(paths, "megatron", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "tokens.bin",
        "tokens.idx",
    ]
    documents = documents_of(tokenizer, TEXTS)
    ids, index = content_of(documents, name, code)
    assert (tmp_path / "out" / "tokens.bin").read_bytes() == ids
    assert (tmp_path / "out" / "tokens.idx").read_bytes() == index

    found, starts = load_indexed_dataset(tmp_path / "out" / "tokens")
    assert found.dtype == name
    assert starts.dtype == np.int64
    assert [part.tolist() for part in np.split(found, starts[1:])] == documents


@pytest.mark.parametrize("make", [small_tokenizer, large_tokenizer])
def test_megatron_reads_and_writes_the_same_files(tmp_path, make):
    pytest.importorskip("megatron.core", reason="needs megatron-core")
    torch = pytest.importorskip("torch")
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

    tokenizer = make()
    export_tokens(token_files(tmp_path, tokenizer, [TEXTS]), "megatron", tmp_path / "out")
    dataset = IndexedDataset(str(tmp_path / "out" / "tokens"))
    documents = documents_of(tokenizer, TEXTS)
    assert [ids.tolist() for ids in dataset] == documents
    assert dataset.document_indices.tolist() == [*range(len(documents) + 1)]

    builder = IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=dataset.index.dtype)
    for document in documents:
        builder.add_document(torch.tensor(document), [len(document)])
    builder.finalize(str(tmp_path / "theirs.idx"))
    for end in (".bin", ".idx"):
        theirs = (tmp_path / "theirs").with_suffix(end).read_bytes()
        assert (tmp_path / "out" / f"tokens{end}").read_bytes() == theirs


def write_dataset(folder, lengths, documents, ids, name="<u2", code=8):
    """Write a dataset whose documents may contain several sequences. Return its path prefix."""
    ids, lengths = np.array(ids, name), np.array(lengths, "<i4")
    offsets = (np.cumsum(lengths, dtype="<i8") - lengths) * ids.itemsize
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(documents))
    index = header + lengths.tobytes() + offsets.tobytes() + np.array(documents, "<i8").tobytes()
    (folder / "a.bin").write_bytes(ids.tobytes())
    (folder / "a.idx").write_bytes(index)
    return folder / "a"


def test_documents_of_several_sequences_and_empty_ones_are_read(tmp_path):
    prefix = write_dataset(tmp_path, [2, 0, 1, 3], [0, 2, 2, 3, 4, 4], [5, 6, 7, 8, 9, 10])
    ids, starts = load_indexed_dataset(prefix)
    assert ids.tolist() == [5, 6, 7, 8, 9, 10]
    assert starts.tolist() == [0, 2, 2, 3, 6]
    ids, starts = load_indexed_dataset(write_dataset(tmp_path, [], [0], []))
    assert (len(ids), len(starts)) == (0, 0)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"code": 3}, (None, "a.idx", "type 3")),
        ({"documents": [0, 1]}, (None, "a.idx")),
        ({"documents": [0, 3, 2]}, (None, "a.idx")),
        ({"documents": [0, -1, 2]}, (None, "a.idx")),
        ({"documents": []}, (None, "a.idx")),
        ({"lengths": [4, -1]}, (None, "a.idx")),
        ({"lengths": [2, 2]}, (None, "a.bin", 8, 6)),
    ],
    ids=str,
)
def test_damaged_datasets_are_refused(tmp_path, change, fields):
    dataset = {"lengths": [2, 1], "documents": [0, 1, 2], "ids": [5, 6, 7], **change}
    with rejects(*fields):
        load_indexed_dataset(write_dataset(tmp_path, **dataset))


@pytest.mark.parametrize(
    "damage",
    [
        lambda index: index[:-1],
        lambda index: index[:30],
        lambda index: b"M" + index,
        lambda index: index[:9] + b"\2" + index[10:],  # another version
        lambda index: index[:18] + b"\xff" * 16 + index[34:],  # huge numbers of items
        lambda index: index[:50] + b"\5" + index[51:],  # sequences that do not follow one another
    ],
)
def test_a_damaged_index_is_refused(tmp_path, damage):
    prefix = write_dataset(tmp_path, [2, 1], [0, 2], [5, 6, 7])
    index = tmp_path / "a.idx"
    index.write_bytes(damage(index.read_bytes()))
    with rejects(None, place=index):
        load_indexed_dataset(prefix)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a\.idx"):
        load_indexed_dataset(tmp_path / "a")
    prefix = write_dataset(tmp_path, [1], [0, 1], [5])
    (tmp_path / "a.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.bin"):
        load_indexed_dataset(prefix)


def test_what_megatron_cannot_read_is_not_written(tmp_path, monkeypatch):
    tokenizer, out = small_tokenizer(), tmp_path / "out"
    encode_rows(tokenizer, TEXTS, tmp_path / "plain.npy")
    with rejects(None, place="plain.npy"):
        export_tokens(tmp_path / "plain.npy", "megatron", out)
    (path,) = token_files(tmp_path, tokenizer, [TEXTS])
    (tmp_path / "more").mkdir()
    (other,) = token_files(tmp_path / "more", small_tokenizer([END, "<a>"]), [TEXTS])
    with rejects(None, place="0.npy"):
        export_tokens([path, other], "megatron", out)
    monkeypatch.setattr(indexed_dataset, "_LONGEST", 600)
    long = tmp_path / "long.npy"
    encode_rows(tokenizer, ["ab" * 999], long, document_starts=True)
    with rejects(None, "2**31", place="long.npy"):
        export_tokens(long, "megatron", out)
    assert not out.exists()


def test_an_id_outside_the_vocabulary_is_refused(tmp_path):
    (path,) = token_files(tmp_path, small_tokenizer(), [["abc"]])
    content = bytearray(path.read_bytes())
    content[128:130] = b"\xff\xff"
    path.write_bytes(content)
    with rejects(None, "id 65535", 592, place="0.npy"):
        export_tokens(path, "megatron", tmp_path / "out")
    assert not (tmp_path / "out").exists()
