"""PyTorch datasets over token files: their items, their batches, resumption, workers and shares."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from cs336_basics.pretokenization import Corpus
from cs336_basics.tokenizer import Tokenizer, encode_file
from cs336_basics.training.data import BatchLoader, step_generator
from cs336_basics.training.torch_data import (
    StepBatches,
    StepLoader,
    TokenDocuments,
    TokenWindows,
    pad_documents,
)

END = "<|endoftext|>"
VOCAB = {**{byte: bytes([byte]) for byte in range(256)}, 256: END.encode()}
TOKENIZER = Tokenizer(VOCAB, [], [END])
ROWS = [chr(97 + number % 26) * (number % 9 + 1) for number in range(60)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two token files with document starts."""
    directory = tmp_path_factory.mktemp("tokens")
    for name, rows in (("a", ROWS[:25]), ("b", ROWS[25:])):
        lines = "".join(f'{{"t": "{row}"}}\n' for row in rows)
        (directory / f"{name}.jsonl").write_text(lines)
        encode_file(
            TOKENIZER,
            Corpus(directory / f"{name}.jsonl", field="t"),
            directory / f"{name}.npy",
            num_workers=1,
            document_starts=True,
            end_of_document=END,
        )
    return [directory / "a.npy", directory / "b.npy"]


@pytest.fixture(scope="module")
def tokens(files):
    return np.concatenate([np.load(file) for file in files])


def equal(left, right):
    pairs = [pair for items in zip(left, right, strict=True) for pair in zip(*items, strict=True)]
    return all(torch.equal(one, other) for one, other in pairs)


def joined(lists):
    return list(itertools.chain.from_iterable(lists))


@pytest.mark.parametrize(("context_length", "stride"), [(8, None), (8, 1), (8, 3), (1, 1), (5, 9)])
def test_a_window_is_inputs_and_the_targets_one_token_later(files, tokens, context_length, stride):
    windows = TokenWindows(files, context_length, stride=stride)
    step = context_length if stride is None else stride
    starts = range(0, len(tokens) - context_length, step)
    assert len(windows) == len(starts)
    for index, start in enumerate(starts):
        inputs, targets = windows[index]
        assert inputs.dtype == targets.dtype == torch.int64
        assert inputs.tolist() == tokens[start : start + context_length].tolist()
        assert targets.tolist() == tokens[start + 1 : start + 1 + context_length].tolist()
    assert torch.equal(windows[-1][0], windows[len(windows) - 1][0])
    for index in (len(windows), -len(windows) - 1):
        with pytest.raises(IndexError, match="out of range"):
            windows[index]


def test_a_file_of_exactly_one_window_has_one(files, tokens):
    assert len(TokenWindows(files, len(tokens) - 1)) == 1
    with pytest.raises(ValueError, match=rf"needs at least {len(tokens) + 1}"):
        TokenWindows(files, len(tokens))


def test_documents_are_those_that_were_encoded(files):
    documents = TokenDocuments(files[0].parent / "*.npy")
    assert len(documents) == len(ROWS)
    for index, row in enumerate(ROWS):
        assert documents[index].dtype == torch.int64
        assert documents[index].tolist() == [*row.encode(), 256]
    assert TokenDocuments(files, max_length=3)[8].tolist() == [*ROWS[8].encode()[:3]]
    assert documents[-1].tolist() == documents[len(ROWS) - 1].tolist()
    with pytest.raises(IndexError):
        documents[len(ROWS)]


def test_documents_are_padded_with_a_mask():
    ids, mask = pad_documents([torch.tensor([1, 2]), torch.tensor([3, 4, 5])], pad_id=9)
    assert ids.tolist() == [[1, 2, 9], [3, 4, 5]]
    assert mask.tolist() == [[True, True, False], [True, True, True]]
    assert (ids.dtype, mask.dtype) == (torch.int64, torch.bool)


def test_documents_need_document_starts(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    encode_file(TOKENIZER, tmp_path / "a.txt", tmp_path / "a.npy", num_workers=1)
    with pytest.raises(ValueError, match="without document starts"):
        TokenDocuments(tmp_path / "a.npy")


def test_files_are_checked(files):
    assert len(TokenWindows(files, 8, vocab_size=257, tokenizer_hash=TOKENIZER.hash())) > 0
    with pytest.raises(ValueError, match="beyond a vocabulary of 100"):
        TokenWindows(files, 8, vocab_size=100)
    with pytest.raises(ValueError, match="made by the tokenizer"):
        TokenDocuments(files, tokenizer_hash="0" * 64)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        TokenWindows(files[0].parent / "gone.npy", 8)
    with pytest.raises(ValueError, match="stride is 0: it must be at least 1"):
        TokenWindows(files, 8, stride=0)


def test_a_pickle_is_small_and_opens_the_files_again(files):
    for dataset in (TokenWindows(files, 8), TokenDocuments(files)):
        before = dataset[3]
        data = pickle.dumps(dataset)
        assert len(data) < 2000
        again = pickle.loads(data)[3]
        assert equal([before], [again])


def test_a_file_that_changed_is_noticed(tmp_path):
    (tmp_path / "a.txt").write_text("some text")
    encode_file(TOKENIZER, tmp_path / "a.txt", tmp_path / "a.npy", num_workers=1)
    data = pickle.dumps(TokenWindows(tmp_path / "a.npy", 2))
    (tmp_path / "a.txt").write_text("other text")
    encode_file(TOKENIZER, tmp_path / "a.txt", tmp_path / "a.npy", num_workers=1, overwrite=True)
    with pytest.raises(ValueError, match="have 10 tokens, and had 9"):
        pickle.loads(data)[0]


def test_the_batches_are_those_of_the_trainer(files, tokens):
    windows = TokenWindows(files, 8, stride=1)
    batches = StepBatches(len(windows), 6, seed=5, num_steps=4)
    trainers = BatchLoader(tokens, 6, 8, torch.device("cpu"), lambda step: step_generator(5, step))
    found = list(DataLoader(windows, batch_sampler=batches))
    assert [x.shape for x, _ in found] == [(6, 8)] * 4
    assert equal(found, [trainers.batch(step) for step in range(1, 5)])


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_after_resuming_equal_those_of_an_uninterrupted_run(
    files, replacement, num_workers
):
    def loader(workers):
        windows = TokenWindows(files, 4)
        options = {"seed": 3, "num_steps": 30, "replacement": replacement}
        return StepLoader(windows, StepBatches(len(windows), 6, **options), num_workers=workers)

    whole = list(loader(0))
    assert len(whole) == 30
    begun = loader(num_workers)
    first = []
    for batch in begun:
        first.append(batch)
        if len(first) == 13:
            break
    state = pickle.loads(pickle.dumps(begun.state_dict()))
    assert state["step"] == 13  # although the workers have read further
    again = loader(num_workers)
    again.load_state_dict(state)
    assert len(again) == 17
    assert equal(first + list(again), whole)
    assert again.step == 30
    assert list(again) == []


def test_start_step_is_where_the_batches_begin():
    whole = list(StepBatches(50, 4, seed=1, num_steps=9))
    assert list(StepBatches(50, 4, seed=1, num_steps=9, start_step=4)) == whole[3:]
    assert len(StepBatches(50, 4, num_steps=9, start_step=4)) == 6
    assert list(StepBatches(50, 4, num_steps=3, start_step=5)) == []
    endless = iter(StepBatches(50, 4, seed=1))
    assert [next(endless) for _ in range(9)] == whole
    with pytest.raises(TypeError, match="have no end"):
        len(StepBatches(50, 4))


@pytest.mark.parametrize("replacement", [True, False])
def test_processes_share_each_batch_without_overlap(replacement):
    options = {"seed": 2, "num_steps": 12, "replacement": replacement}
    whole = list(StepBatches(40, 6, **options))
    shares = [list(StepBatches(40, 6, rank=rank, world_size=3, **options)) for rank in range(3)]
    for step, batch in enumerate(whole):
        assert joined(share[step] for share in shares) == batch
        assert [len(share[step]) for share in shares] == [2, 2, 2]


def test_without_replacement_an_epoch_has_every_item_once():
    batches = list(StepBatches(20, 5, seed=7, num_steps=12, replacement=False))
    epochs = [joined(batches[begin : begin + 4]) for begin in (0, 4, 8)]
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    rest = list(StepBatches(23, 5, seed=7, num_steps=4, replacement=False))
    assert len(set(joined(rest))) == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_items": 0}, "num_items is 0: it must be at least 1"),
        ({"batch_size": 0}, "batch_size is 0: it must be at least 1"),
        ({"seed": -1}, "seed is -1: it must be at least 0"),
        ({"start_step": 0}, "start_step is 0: it must be at least 1"),
        ({"world_size": 2, "rank": 2}, "rank is 2: it must be at most 1"),
        ({"world_size": 3}, "batch_size is 4: it must be a multiple of world_size, 3"),
        ({"batch_size": 11, "replacement": False}, "must be at most num_items, 10"),
    ],
)
def test_bad_numbers_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        StepBatches(**{"num_items": 10, "batch_size": 4, **options})


def test_a_state_of_other_batches_is_refused(files):
    windows = TokenWindows(files, 4)
    state = StepLoader(windows, StepBatches(len(windows), 4, seed=1)).state_dict()
    with pytest.raises(ValueError, match="seed is 2, and was 1 when the state was saved"):
        StepLoader(windows, StepBatches(len(windows), 4, seed=2)).load_state_dict(state)


def test_documents_are_batched_by_workers(files):
    documents = TokenDocuments(files)
    batches = StepBatches(len(documents), 5, seed=4, num_steps=6)
    loaders = [
        StepLoader(documents, batches, num_workers=workers, collate_fn=pad_documents)
        for workers in (0, 2)
    ]
    one, other = (list(loader) for loader in loaders)
    assert equal(one, other)
    rows = [ROWS[index] for index in batches.indices(1)]
    assert one[0][1].sum(1).tolist() == [len(row) + 1 for row in rows]


@pytest.mark.slow
def test_spawned_workers_read_the_same(files):
    windows = TokenWindows(files, 4)
    batches = StepBatches(len(windows), 6, num_steps=8)
    options = {"num_workers": 2, "multiprocessing_context": "spawn"}
    spawned = list(StepLoader(windows, batches, **options))
    assert equal(spawned, list(StepLoader(windows, batches)))


def test_a_state_that_is_none_is_refused_by_name():
    loader = StepLoader(list(range(10)), StepBatches(10, 2))
    with pytest.raises(TypeError, match=r"state is None: it must be what state_dict\(\) returned"):
        loader.load_state_dict(None)
    state = loader.state_dict()
    del state["step"]
    with pytest.raises(TypeError, match="step is None"):
        loader.load_state_dict(state)
    with pytest.raises(TypeError, match="replacement is 'no'"):
        StepBatches(10, 2, replacement="no")
