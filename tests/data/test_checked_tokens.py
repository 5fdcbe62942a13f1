"""Token files are compared with the vocabulary once, where they enter a run."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data import prepare
from cs336_basics.data.checked_tokens import CheckedTokens, check_ids, contains, id_range
from cs336_basics.data.data_config import DataConfig, Preparation
from cs336_basics.tokenizer import encode_file
from cs336_basics.tokenizer.files.joined_tokens import (
    JoinedTokens,
    load_token_files,
    open_token_files,
)
from cs336_basics.training.data import TokenWindows
from tests.errors import rejects
from tests.tokenizer.examples import END, byte_tokenizer

TOKENIZER = byte_tokenizer(END)


@pytest.fixture
def files(tmp_path):
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name} low lower{END}" * 40)
        encode_file(TOKENIZER, tmp_path / name, tmp_path / f"{name}.npy", num_workers=1)
        paths.append(str(tmp_path / f"{name}.npy"))
    return tuple(paths)


def damage(path, token_id):
    """Write an id into the middle of a token file."""
    tokens = np.load(path, mmap_mode="r+")
    tokens[len(tokens) // 2] = token_id
    tokens.flush()


def test_a_pickle_stores_names_and_opens_the_same_ids(files):
    ids = load_token_files(files)[:]
    for start, stop in ((0, len(ids)), (3, 20), (100, len(ids) - 5)):
        tokens = CheckedTokens(files, ((start, stop),), 257)
        assert len(pickle.dumps(tokens)) < 1000
        again = pickle.loads(pickle.dumps(tokens))
        assert len(again) == stop - start
        assert np.array_equal(again.open()[:], ids[start:stop])


def test_a_file_that_has_become_shorter_is_refused(files):
    tokens = CheckedTokens(files, ((0, 10_000),), 257)
    with rejects("stop", 10000):
        tokens.open()


def test_every_id_is_compared(files):
    opened = open_token_files(files)
    check_ids(opened, 257)
    assert id_range(opened[0].tokens) == (min(b" abelorw"), 256)
    assert id_range(np.zeros(0, np.uint16)) == (0, -1)
    assert id_range(np.array([5, -2, 9])) == (-2, 9)
    damage(files[1], 300)
    with rejects(None, "id 300", 257, place="b.npy"):
        check_ids(opened, 257)


def prepared(tmp_path, files, monkeypatch):
    """Prepare the data of a run, and return it with the number of times that ids were compared."""
    if not (tmp_path / "tokenizer").exists():
        TOKENIZER.save(tmp_path / "tokenizer")
    compared = []
    monkeypatch.setattr(
        prepare, "check_ids", lambda *args: (compared.append(args), check_ids(*args))
    )
    data = DataConfig(train_path=files, tokenizer=str(tmp_path / "tokenizer"))
    sources = prepare.check_sources(Preparation(data, 257, num_workers=1))
    run = RunDirectory(tmp_path / "run")
    found = prepare.prepare_data(sources, run, report=lambda line: None)
    return found, len(compared)


def test_only_the_first_start_of_a_run_compares_the_ids(tmp_path, files, monkeypatch):
    first, compared = prepared(tmp_path, files, monkeypatch)
    assert compared == 1
    again, compared = prepared(tmp_path, files, monkeypatch)
    assert compared == 0
    assert again.train_tokens == first.train_tokens
    assert again.valid_tokens.ranges[0][0] == first.train_tokens.ranges[0][1]
    damage(files[0], 300)
    with rejects(None, "a.npy changed"):
        prepared(tmp_path, files, monkeypatch)


def test_a_damaged_file_never_enters_a_run(tmp_path, files, monkeypatch):
    damage(files[0], 300)
    for _ in range(2):
        with rejects(None, "id 300"):
            prepared(tmp_path, files, monkeypatch)


def test_windows_of_checked_tokens_are_those_of_the_files(files):
    tokens = CheckedTokens(files, ((10, 200),), 257)
    windows = TokenWindows(tokens, 8, vocab_size=257)
    expected = TokenWindows(load_token_files(files)[10:200], 8)
    for dataset in (windows, pickle.loads(pickle.dumps(windows))):
        assert len(dataset) == len(expected)
        assert dataset[5][0].tolist() == expected[5][0].tolist()
    with rejects("dataset", 0, 99, 257):
        TokenWindows(tokens, 8, vocab_size=100)


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 20_000])
def test_an_id_is_found_wherever_it_is(size):
    ids = np.arange(size)
    for place in {0, size // 2, size - 1}:
        assert contains(ids, place)
        assert contains(JoinedTokens([ids[: size // 3], ids[size // 3 :]]), place)
    assert not contains(ids, size)
    assert not contains(ids[:0], 0)
