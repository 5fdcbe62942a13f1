"""Batches: every window, both ends, and files that are mapped instead of read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.training import get_batch
from cs336_basics.training.data import BatchLoader, release_pages, step_generator


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
    assert targets.max() == 99  # the last token of all is a target
    # Each count is binomial: mean 1000, standard deviation 31.4.
    assert all(abs(count - 1000) < 5 * 31.4 for count in counts.values())


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int32", "int64", ">u2"])
def test_any_integer_dtype_is_accepted(dtype):
    largest = min(np.iinfo(dtype).max, 2**32 - 1)
    dataset = np.array([largest, 0, largest], dtype=dtype)
    inputs, targets = get_batch(dataset, 4, 2, "cpu")
    assert inputs.tolist() == [[largest, 0]] * 4
    assert targets.tolist() == [[0, largest]] * 4


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_memory_maps_are_read(tmp_path, dtype):
    tokens = np.random.default_rng(0).integers(0, 60_000, 5000).astype(dtype)
    np.save(tmp_path / "tokens.npy", tokens)
    mapped = np.load(tmp_path / "tokens.npy", mmap_mode="r")
    batches = [
        get_batch(dataset, 16, 32, "cpu", np.random.default_rng(7)) for dataset in (tokens, mapped)
    ]
    for from_array, from_map in zip(*batches, strict=True):
        assert type(from_map) is torch.Tensor
        assert torch.equal(from_array, from_map)
    batches[1][0].add_(1)  # a copy: the read-only file is not touched
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


def test_the_shortest_dataset_has_one_window():
    inputs, targets = get_batch(np.arange(6), 3, 5, "cpu")
    assert inputs.tolist() == [[0, 1, 2, 3, 4]] * 3
    assert targets.tolist() == [[1, 2, 3, 4, 5]] * 3


@pytest.mark.parametrize("length", [0, 1, 4, 5])
def test_a_dataset_that_is_too_short_is_refused(length):
    with pytest.raises(ValueError, match=f"has {length} tokens.* length of 5 needs at least 6"):
        get_batch(np.arange(length), 3, 5, "cpu")


def test_bad_datasets_and_sizes_are_refused():
    with pytest.raises(ValueError, match=r"one dimension, not the shape \(5, 5\)"):
        get_batch(np.zeros((5, 5), dtype=int), 1, 2, "cpu")
    for dtype in (float, bool, object):
        with pytest.raises(TypeError, match="integer token ids"):
            get_batch(np.zeros(9, dtype=dtype), 1, 2, "cpu")
    with pytest.raises(ValueError, match="not 0 and 2"):
        get_batch(np.arange(9), 0, 2, "cpu")
    with pytest.raises(ValueError, match="not 1 and 0"):
        get_batch(np.arange(9), 1, 0, "cpu")


def test_a_missing_device_raises_the_error_of_torch():
    with pytest.raises((RuntimeError, AssertionError)) as ours:
        get_batch(np.arange(99), 4, 8, "cuda:99")
    with pytest.raises((RuntimeError, AssertionError)) as theirs:
        torch.zeros(1).to("cuda:99")
    assert type(ours.value) is type(theirs.value)
    assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_are_copied_to_a_gpu():
    dataset = np.arange(1000, dtype=np.uint16)
    on_gpu = get_batch(dataset, 8, 16, "cuda", np.random.default_rng(0))
    on_cpu = get_batch(dataset, 8, 16, "cpu", np.random.default_rng(0))
    for gpu, cpu in zip(on_gpu, on_cpu, strict=True):
        assert gpu.device.type == "cuda"
        assert torch.equal(gpu.cpu(), cpu)


# Batches by step


def loader(dataset, share=(0, 1), device="cpu"):
    def generator_of(step):
        return np.random.Generator(np.random.Philox(key=np.array([7, step], dtype=np.uint64)))

    return BatchLoader(dataset, 6, 5, torch.device(device), generator_of, share)


def test_the_batch_of_a_step_does_not_depend_on_earlier_steps():
    dataset = np.arange(1000, dtype=np.uint16)
    in_order = [loader(dataset).batch(step) for step in range(4)]
    one = loader(dataset)
    for step in (3, 0, 2, 2, 1):
        for ours, theirs in zip(one.batch(step), in_order[step], strict=True):
            assert torch.equal(ours, theirs)
    generator = np.random.Generator(np.random.Philox(key=np.array([7, 2], dtype=np.uint64)))
    assert torch.equal(get_batch(dataset, 6, 5, "cpu", generator)[0], in_order[2][0])


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_the_shares_of_all_processes_are_the_batch(size):
    dataset = np.arange(1000, dtype=np.uint16)
    shares = [loader(dataset, (rank, size)).batch(4) for rank in range(size)]
    whole = loader(dataset).batch(4)
    for k in range(2):
        assert torch.equal(torch.cat([share[k] for share in shares]), whole[k])


def test_batches_drawn_ahead_are_the_same(monkeypatch):
    dataset = np.arange(1000, dtype=np.uint16)
    ahead = loader(dataset)
    ahead._thread = ThreadPoolExecutor(1)  # as on a GPU
    for step in (1, 2, 3, 7, 8, 2):
        x, y = ahead.batch(step, ahead=True)
        expected = loader(dataset).batch(step)
        assert torch.equal(x, expected[0])
        assert torch.equal(y, expected[1])


def test_data_order_depends_on_seed_and_step_alone():
    def first(seed, step):
        return step_generator(seed, step).integers(1 << 40, size=8).tolist()

    streams = [first(seed, step) for seed in (0, 1, 2**63 - 3) for step in (0, 1, 2, 10**9)]
    assert len({tuple(stream) for stream in streams}) == len(streams)
    assert first(1, 2) == streams[6]
    # Philox is specified bit for bit, so these numbers hold on every platform; if they
    # changed, a new version of the library could not continue runs.
    assert step_generator(1, 2).bit_generator.random_raw(2).tolist() == [
        5705853004827290377,
        6584680345644299050,
    ]


MEASURE = """
import sys
import numpy as np, torch
from cs336_basics.training.data import BatchLoader, check_tokens, step_generator
tokens = np.load(sys.argv[1], mmap_mode="r")
check_tokens("training", tokens, context_length=256, vocab_size=10_000)
batches = BatchLoader(tokens, 64, 256, torch.device("cpu"), lambda step: step_generator(0, step))
for step in range(int(sys.argv[2])):
    batches.batch(step)
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
"""


def peak_memory_with(path, num_bytes, steps):
    with open(path, "wb") as file:
        header = {"descr": "<u2", "fortran_order": False, "shape": (num_bytes // 2,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + num_bytes)  # sparse: it takes no space on the disk
    command = [sys.executable, "-c", MEASURE, str(path), str(steps)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


@needs_proc
def test_memory_does_not_grow_with_the_dataset(tmp_path):
    small = peak_memory_with(tmp_path / "small.npy", 10_000_000, 200)
    large = peak_memory_with(tmp_path / "large.npy", 500_000_000, 200)
    # The check of all tokens reads 32 MB at a time, of which the small file has 10.
    assert large - small < 100_000_000


@pytest.mark.slow
@needs_proc
def test_memory_does_not_grow_with_a_dataset_of_10_gb(tmp_path):
    small = peak_memory_with(tmp_path / "small.npy", 10_000_000, 2000)
    large = peak_memory_with(tmp_path / "large.npy", 10_000_000_000, 2000)
    print(f"10 MB: {small / 1e6:.0f} MB, 10 GB: {large / 1e6:.0f} MB")
    assert large - small < 200_000_000


def test_pages_of_a_map_that_was_written_to_are_kept(tmp_path):
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


@pytest.mark.parametrize("dataset", [[1, 2, 3, 4], torch.arange(4)])
def test_a_dataset_that_is_no_array_is_refused(dataset):
    with pytest.raises(
        TypeError, match=f"dataset is of type {type(dataset).__name__}: pass a NumPy"
    ):
        get_batch(dataset, 1, 2, "cpu")
