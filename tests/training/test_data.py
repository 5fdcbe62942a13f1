"""Batches of token ids: windows, memory-mapped files, documents, resuming and workers."""

from __future__ import annotations

import itertools
import math
import os
import pickle
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import ConcatDataset

from cs336_basics._support.errors import InputTypeError, RunError
from cs336_basics.data.checked_tokens import CheckedTokens, release_pages
from cs336_basics.text import Corpus
from cs336_basics.tokenizer import encode_file
from cs336_basics.tokenizer.files.joined_tokens import JoinedTokens
from cs336_basics.training import get_batch
from cs336_basics.training.data import (
    AnswerRule,
    StepBatches,
    StepLoader,
    TokenDocuments,
    TokenWindows,
    pad_documents,
    step_generator,
)
from tests.errors import rejects
from tests.processes import run_python
from tests.tokenizer.examples import END, byte_tokenizer


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(1, 12), st.integers(1, 9), st.integers(0, 2**32))
def test_targets_are_the_inputs_one_token_later(extra, context_length, batch_size, seed):
    dataset = np.arange(1000, 1000 + context_length + extra, dtype=np.uint16)
    generator = np.random.default_rng(seed)
    inputs, targets = get_batch(dataset, batch_size, context_length, "cpu", generator)
    for tensor in (inputs, targets):
        assert tensor.shape == (batch_size, context_length)
        assert tensor.dtype == torch.int64
        assert tensor.device.type == "cpu"
        assert tensor.is_contiguous()
    start = inputs[:, :1] - 1000
    assert start.min() >= 0
    assert start.max() <= extra - 1
    assert torch.equal(inputs, 1000 + start + torch.arange(context_length))
    assert torch.equal(targets, inputs + 1)


def test_every_start_is_possible_and_equally_likely():
    dataset = np.arange(100)
    context_length, draws = 7, 93 * 1000
    generator = np.random.default_rng(0)
    inputs, targets = get_batch(dataset, draws, context_length, "cpu", generator)
    counts = Counter(inputs[:, 0].tolist())
    assert set(counts) == set(range(93))  # 0 .. n - context_length - 1
    assert targets.max() == 99  # the last token is a target
    # Each count is binomial: mean 1000, standard deviation 31.4.
    assert all(abs(count - 1000) < 5 * 31.4 for count in counts.values())


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int32", "int64", ">u2"])
def test_any_integer_dtype_is_accepted(dtype):
    largest = min(np.iinfo(dtype).max, 2**32 - 1)
    dataset = np.array([largest, 0, largest], dtype=dtype)
    inputs, targets = get_batch(dataset, 4, 2, "cpu")
    assert inputs.tolist() == [[largest, 0]] * 4
    assert targets.tolist() == [[0, largest]] * 4


def test_memory_maps_are_read(tmp_path):
    tokens = np.random.default_rng(0).integers(0, 60_000, 5000).astype(np.uint16)
    np.save(tmp_path / "tokens.npy", tokens)
    mapped = np.load(tmp_path / "tokens.npy", mmap_mode="r")
    batches = [
        get_batch(dataset, 16, 32, "cpu", np.random.default_rng(7)) for dataset in (tokens, mapped)
    ]
    for from_array, from_map in zip(*batches, strict=True):
        assert type(from_map) is torch.Tensor
        assert torch.equal(from_array, from_map)
    batches[1][0].add_(1)  # changes a copy, not the read-only file
    assert np.array_equal(mapped, tokens)


def test_the_generator_determines_the_batch():
    dataset = np.arange(10_000)
    one, same = (get_batch(dataset, 8, 4, "cpu", np.random.default_rng(3)) for _ in range(2))
    assert torch.equal(one[0], same[0])
    generator = np.random.default_rng(3)
    batches = [get_batch(dataset, 8, 4, "cpu", generator)[0] for _ in range(2)]
    assert torch.equal(batches[0], one[0])
    assert not torch.equal(batches[0], batches[1])
    fresh = [get_batch(dataset, 8, 4, "cpu")[0] for _ in range(2)]
    assert not torch.equal(fresh[0], fresh[1])


@pytest.mark.parametrize("length", [0, 5])
def test_a_dataset_that_is_too_short_is_rejected(length):
    with rejects("dataset", "context_length", "(5)", length):
        get_batch(np.arange(length), 3, 5, "cpu")


def test_bad_datasets_and_sizes_are_rejected():
    with rejects("dataset", "(5, 5)"):
        get_batch(np.zeros((5, 5), dtype=int), 1, 2, "cpu")
    for dtype in (float, bool, object):
        with rejects("dataset", np.dtype(dtype).name, kind=InputTypeError):
            get_batch(np.zeros(9, dtype=dtype), 1, 2, "cpu")
    for dataset in ([1, 2, 3, 4], torch.arange(4)):
        with rejects("dataset", type(dataset).__name__, kind=InputTypeError):
            get_batch(dataset, 1, 2, "cpu")
    with rejects("batch_size", 0):
        get_batch(np.arange(9), 0, 2, "cpu")
    with rejects("context_length", 0):
        get_batch(np.arange(9), 1, 0, "cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_are_copied_to_a_gpu():
    dataset = np.arange(1000, dtype=np.uint16)
    on_gpu = get_batch(dataset, 8, 16, "cuda", np.random.default_rng(0))
    on_cpu = get_batch(dataset, 8, 16, "cpu", np.random.default_rng(0))
    for gpu, cpu in zip(on_gpu, on_cpu, strict=True):
        assert gpu.device.type == "cuda"
        assert torch.equal(gpu.cpu(), cpu)


def test_data_order_depends_on_seed_and_step_alone():
    def first(seed, step):
        return step_generator(seed, step).integers(1 << 40, size=8).tolist()

    streams = [first(seed, step) for seed in (0, 1, 2**63 - 3) for step in (0, 1, 2, 10**9)]
    assert len({tuple(stream) for stream in streams}) == len(streams)
    assert first(1, 2) == streams[6]
    # Philox is specified bit for bit, so these numbers are the same on every platform. If the
    # numbers changed, a new version of the library could not resume older runs.
    assert step_generator(1, 2).bit_generator.random_raw(2).tolist() == [
        5705853004827290377,
        6584680345644299050,
    ]


# Mixtures

SIZES, WEIGHTS = [1000, 50, 7], [6.0, 3.0, 1.0]


@pytest.mark.numerical
def test_the_shares_of_a_mixture_are_its_weights(seed):
    """Compare the shares over 1,000 steps with a bound that is exceeded once in 10^9 seeds."""
    batches = StepBatches(SIZES, 32, seed=seed, weights=WEIGHTS)
    items = np.array([batches.indices(step) for step in range(1, 1001)]).ravel()
    found = np.searchsorted(np.cumsum(SIZES), items, side="right")
    # Hoeffding: the share of n draws differs by t or more with probability 2 exp(-2 n t^2).
    bound = math.sqrt(math.log(2 * len(SIZES) / 1e-9) / (2 * len(items)))
    shares = np.bincount(found) / len(items)
    assert abs(shares - np.array(WEIGHTS) / 10).max() < bound < 0.02
    assert len(np.unique(items[found == 2])) == 7
    within = items[found == 1] - 1000
    bound = math.sqrt(math.log(2 * 50 / 1e-9) / (2 * len(within)))
    assert abs(np.bincount(within, minlength=50) / len(within) - 1 / 50).max() < bound


def test_batches_of_a_mixture_depend_on_the_seed_and_the_step_alone():
    batches = StepBatches(SIZES, 8, seed=1, weights=WEIGHTS)
    later = StepBatches(SIZES, 8, seed=1, weights=[0.6, 0.3, 0.1])
    assert batches.indices(5) == later.indices(5)
    assert batches.indices(5) != batches.indices(6)
    assert batches.indices(5) != StepBatches(SIZES, 8, seed=2, weights=WEIGHTS).indices(5)
    shares = [
        StepBatches(SIZES, 8, seed=1, weights=WEIGHTS, rank=rank, world_size=2).indices(5)
        for rank in range(2)
    ]
    assert shares[0] + shares[1] == batches.indices(5)


def test_sizes_without_weights_are_one_dataset():
    assert StepBatches(SIZES, 8).indices(3) == StepBatches(1057, 8).indices(3)


def test_a_mixture_of_windows_resumes_only_with_the_same_weights():
    parts = [TokenWindows(np.arange(n + 4), 4, stride=1) for n in SIZES]

    def loader(weights):
        batches = StepBatches([*map(len, parts)], 4, num_steps=6, weights=weights)
        return StepLoader(ConcatDataset(parts), batches)

    whole, first, second = (loader(WEIGHTS) for _ in range(3))
    expected = [inputs.tolist() for inputs, _ in whole]
    for inputs, _ in first:
        assert inputs.tolist() == expected[first.step - 1]
        if first.step == 2:
            break
    second.load_state_dict(first.state_dict())
    assert [inputs.tolist() for inputs, _ in second] == expected[2:]
    for others in ([1.0, 1.0, 1.0], None):
        with rejects("weights"):
            loader(others).load_state_dict(first.state_dict())


@pytest.mark.parametrize(
    "weights", [[1, 2], [1, 2, 0], [1, 2, -1], [1, 2, math.nan], [1, 2, math.inf], []]
)
def test_bad_weights_are_rejected(weights):
    with rejects("weights", 3):
        StepBatches(SIZES, 8, weights=weights)


def test_weights_need_replacement():
    with rejects("weights"):
        StepBatches(SIZES, 8, weights=WEIGHTS, replacement=False)


# Memory and files

MEASURE = """
import sys
import numpy as np
from cs336_basics._support.memory import peak_memory
from cs336_basics.training.data import StepBatches, StepLoader, TokenWindows
for path in sys.argv[1:]:
    tokens = np.load(path, mmap_mode="r")
    windows = TokenWindows(tokens, 256, stride=1, vocab_size=10_000)
    for batch in StepLoader(windows, StepBatches(len(windows), 64, num_steps=100)):
        pass
    print(peak_memory())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pages are released on Linux")
def test_memory_does_not_grow_with_the_dataset(tmp_path):
    paths = [tmp_path / "small.npy", tmp_path / "large.npy"]
    for path, num_bytes in zip(paths, (10_000_000, 100_000_000), strict=True):
        with open(path, "wb") as file:
            header = {"descr": "<u2", "fortran_order": False, "shape": (num_bytes // 2,)}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + num_bytes)  # a sparse file takes no disk space
    small, large = map(int, run_python(MEASURE, *paths).stdout.split())
    # The check of all ids reads up to 32 MB at a time, but the small file is only 10 MB.
    assert large - small < 50_000_000


@pytest.mark.parametrize("num_files", [1, 2])
def test_a_file_that_was_truncated_is_named(tmp_path, num_files):
    names = [str(tmp_path / f"{number}.npy") for number in range(num_files)]
    for name in names:
        np.save(name, np.zeros(20_000, np.uint16))
    maps = [np.load(name, mmap_mode="r") for name in names]
    windows = TokenWindows(maps[0] if num_files == 1 else JoinedTokens(maps), 8)
    windows.batch([0, len(windows) - 1])
    os.truncate(names[-1], 4096)
    with rejects(None, "4,096", place=names[-1], kind=RunError):
        windows.batch([len(windows) - 1])
    if num_files == 2:
        windows.batch([0])  # the other file is intact


def test_releasing_pages_keeps_changes_of_a_copy_on_write_map(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(100_000, np.uint16))
    private = np.load(tmp_path / "a.npy", mmap_mode="c")
    private[:] = 7
    release_pages(private)
    assert (private == 7).all()
    shared = np.load(tmp_path / "a.npy", mmap_mode="r")
    release_pages(shared)
    release_pages(shared[5:])
    release_pages(np.zeros(3))
    assert (shared == 0).all()


# Token files as PyTorch datasets

TOKENIZER = byte_tokenizer(END)
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
def test_windows_of_files_start_every_stride_tokens(files, tokens, context_length, stride):
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


def test_documents_equal_the_encoded_texts(files):
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
    with rejects(None, place="a.npy"):
        TokenDocuments(tmp_path / "a.npy")


@pytest.mark.parametrize("vocab_size", [None, 256, 257, 258])
def test_checked_tokens_fit_a_vocabulary_that_has_theirs(tmp_path, vocab_size):
    (tmp_path / "a.txt").write_text("text" * 9)
    encode_file(TOKENIZER, tmp_path / "a.txt", tmp_path / "a.npy", num_workers=1)
    tokens = CheckedTokens((str(tmp_path / "a.npy"),), ((0, 36),), 257)
    if vocab_size == 256:
        with rejects("dataset", 255, 257):
            TokenWindows(tokens, 8, vocab_size=vocab_size)
    else:
        assert len(TokenWindows(tokens, 8, vocab_size=vocab_size)) > 0


def test_files_that_do_not_fit_are_rejected(files):
    assert len(TokenWindows(files, 8, vocab_size=257, tokenizer_hash=TOKENIZER.hash())) > 0
    with rejects("vocab_size", 100):
        TokenWindows(files, 8, vocab_size=100)
    with rejects(None, place="a.npy"):
        TokenDocuments(files, tokenizer_hash="0" * 64)
    with pytest.raises(FileNotFoundError, match="gone"):
        TokenWindows(files[0].parent / "gone.npy", 8)
    with rejects("stride", 0):
        TokenWindows(files, 8, stride=0)


def test_a_pickle_stores_file_names_instead_of_tokens(files):
    for dataset in (TokenWindows(files, 8), TokenDocuments(files)):
        before = dataset[3]
        data = pickle.dumps(dataset)
        assert len(data) < 2000
        again = pickle.loads(data)[3]
        assert equal([before], [again])


class ScaledWindows(TokenWindows):
    def __init__(self, factor, *arguments):
        super().__init__(*arguments)
        self.factor = factor

    def __getitem__(self, index):
        return self.factor * super().__getitem__(index)[0]


class ScaledDocuments(TokenDocuments):
    factor = 1

    def __getitem__(self, index):
        return self.factor * super().__getitem__(index)


def test_a_pickled_subclass_keeps_its_class_and_attributes(files):
    documents = ScaledDocuments(files)
    documents.factor = 10
    for dataset in (ScaledWindows(10, files, 8), documents):
        again = pickle.loads(pickle.dumps(dataset))
        assert torch.equal(again[3], dataset[3])


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_batches_equal_those_of_get_batch_with_the_generator_of_the_step(files, tokens, size):
    for source in (files, tokens):
        windows = TokenWindows(source, 8, stride=1)
        shares = [
            list(
                StepLoader(
                    windows,
                    StepBatches(len(windows), 6, seed=5, num_steps=4, rank=rank, world_size=size),
                )
            )
            for rank in range(size)
        ]
        for step in range(1, 5):
            expected = get_batch(tokens, 6, 8, "cpu", step_generator(5, step))
            for number in range(2):
                found = torch.cat([share[step - 1][number] for share in shares])
                assert torch.equal(found, expected[number])


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
    assert state["step"] == 13  # although workers have read ahead
    again = loader(num_workers)
    again.load_state_dict(state)
    assert len(again) == 17
    assert equal(first + list(again), whole)
    assert again.step == 30
    assert list(again) == []


def test_batches_without_a_last_step_never_end():
    endless = StepBatches(50, 4, seed=1)
    whole = list(StepBatches(50, 4, seed=1, num_steps=9))
    assert list(itertools.islice(endless, 9)) == whole
    assert list(itertools.islice(endless.after(3), 6)) == whole[3:]
    with rejects(None, "num_steps", kind=InputTypeError):
        len(endless)


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
    ("options", "fields"),
    [
        ({"num_items": 0}, ("num_items", 0)),
        ({"batch_size": 0}, ("batch_size", 0)),
        ({"seed": -1}, ("seed", "-1")),
        ({"world_size": 2, "rank": 2}, ("rank", 2)),
        ({"world_size": 3}, ("batch_size", "world_size", "(3)", 4)),
        ({"batch_size": 11, "replacement": False}, ("batch_size", "num_items", "(10)", 11)),
    ],
)
def test_bad_numbers_are_rejected(options, fields):
    with rejects(*fields):
        StepBatches(**{"num_items": 10, "batch_size": 4, **options})


def test_a_state_saved_for_different_batches_is_rejected(files):
    windows = TokenWindows(files, 4)
    state = StepLoader(windows, StepBatches(len(windows), 4, seed=1)).state_dict()
    with rejects("seed", 1, 2):
        StepLoader(windows, StepBatches(len(windows), 4, seed=2)).load_state_dict(state)
    with rejects("step", "-1"):
        StepLoader(windows, StepBatches(len(windows), 4, seed=1)).load_state_dict(
            {**state, "step": -1}
        )


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
def test_spawned_workers_read_the_same_batches(files):
    windows = TokenWindows(files, 4)
    batches = StepBatches(len(windows), 6, num_steps=8)
    options = {"num_workers": 2, "multiprocessing_context": "spawn"}
    spawned = list(StepLoader(windows, batches, **options))
    assert equal(spawned, list(StepLoader(windows, batches)))


def counted_targets(tokens, rule):
    """Return whether each token after the first is counted, by a loop over the whole text."""
    counted, last = [], None
    for token in tokens[:-1]:
        if token in (rule.begin, rule.end, rule.prompt):
            last = token
        counted.append(last == rule.begin)
    return counted


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(3, 2000), st.booleans())
def test_windows_of_instruction_data_count_the_answers(seed, context_length, num_ids, is_joined):
    generator = np.random.default_rng(seed)
    rule = AnswerRule(begin=num_ids, end=1, prompt=2)
    # With many ids, special tokens are rare, and the last one is many windows back.
    tokens = generator.integers(0, num_ids + 1, size=context_length + 1500).astype(np.uint16)
    tokens[generator.integers(0, 100)] = rule.begin
    source = JoinedTokens([tokens[:700], tokens[700:]]) if is_joined else tokens
    windows = TokenWindows(source, context_length, stride=1, answers=rule)
    expected = np.where(counted_targets(tokens, rule), tokens[1:].astype(np.int64), -1)
    starts = generator.integers(len(windows), size=20)
    inputs, targets = pickle.loads(pickle.dumps(windows)).batch(starts)
    for start, x, y in zip(starts, inputs, targets, strict=True):
        assert x.tolist() == tokens[start : start + context_length].tolist()
        assert y.tolist() == expected[start : start + context_length].tolist()
    assert targets.is_contiguous()


def test_an_answer_and_its_end_are_counted_and_the_template_is_not():
    tokenizer = byte_tokenizer(END, "<|user|>", "<|assistant|>")
    text = f"ab<|user|>c<|assistant|>de{END}<|user|>f<|assistant|>{END}g{END}"
    tokens = np.array(tokenizer.encode(text))
    windows = TokenWindows(tokens, len(tokens) - 1, answers=AnswerRule.of(tokenizer))
    targets = windows[0][1].tolist()
    assert tokenizer.decode([token for token in targets if token >= 0]) == f"de{END}{END}"
