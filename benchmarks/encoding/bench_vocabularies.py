"""Vocabularies that change: training further, counting tokens, pruning; each beside its measure."""

import numpy as np
import pytest

from benchmarks.corpora import data_directory
from cs336_basics import TRAINERS, Tokenizer
from cs336_basics.data.datasets import write_sample
from cs336_basics.pretokenization import Splitter, count_words
from cs336_basics.tokenizer import count_tokens, encode_file, load_token_file, prune

FILES = ["owt_sample.txt", "owt_valid.txt", "TinyStoriesV2-GPT4-valid.txt"]
"""The first that is found, else the generated sample."""

VOCAB_SIZE = 16_000
SPLITTER = Splitter()


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    for name in FILES:
        if (data_directory() / name).exists():
            return data_directory() / name
    path = tmp_path_factory.mktemp("text") / "sample.txt"
    write_sample(path, 8_000_000)
    return path


@pytest.fixture(scope="module")
def words(text):
    return count_words(text, SPLITTER)


@pytest.fixture(scope="module")
def whole(words):
    """What one training gives; smaller than VOCAB_SIZE where the sample has no more pairs."""
    return TRAINERS["native"](min_frequency=2).train_from_counts(words, VOCAB_SIZE)


@pytest.mark.filterwarnings("ignore:no pair was left")
@pytest.mark.parametrize("start", [0, 0.5, 0.9])
@pytest.mark.parametrize("trainer", ["memoryview", "native"])
def test_continue(benchmark, words, whole, trainer, start):
    """Training whose first part, a share of the vocabulary, is there already; 0: all of it."""
    vocab, merges = whole
    first = max(256, int(start * len(vocab)))
    continued = dict(list(vocab.items())[:first]), merges[: first - 256]

    def train():
        options = {"min_frequency": 2, "continue_from": continued if start else None}
        return TRAINERS[trainer](**options).train_from_counts(words, len(vocab))

    benchmark.group = "training further"
    assert benchmark.pedantic(train, rounds=5, warmup_rounds=1) == whole
    benchmark.extra_info.update(words=len(words), tokens=len(vocab), tokens_there=first)


@pytest.mark.parametrize("counted", [False, True], ids=["encode_file", "count_tokens"])
def test_count_tokens(benchmark, text, whole, counted, tmp_path):
    """Counting tokens beside writing them to a token file, cold caches included."""
    expected = None
    if counted:
        encode_file(Tokenizer(*whole), text, tmp_path / "text.npy")
        ids = load_token_file(tmp_path / "text.npy")
        expected = np.bincount(ids, minlength=len(whole[0]))

    def work():
        tokenizer = Tokenizer(*whole)
        if counted:
            return count_tokens(tokenizer, text)
        return encode_file(tokenizer, text, tmp_path / "text.npy", overwrite=True)

    benchmark.group = "counting tokens"
    found = benchmark.pedantic(work, rounds=5, warmup_rounds=1)
    assert expected is None or np.array_equal(found, expected)
    size = text.stat().st_size
    benchmark.extra_info.update(
        bytes=size, megabytes_per_second=size / 1e6 / benchmark.stats.stats.min
    )


@pytest.mark.parametrize("exact", [False, True], ids=["estimate", "exact"])
def test_prune(benchmark, text, words, whole, exact):
    """Pruning to a half, by exact counts and by the estimate; the tokens of the text tell both."""
    tokenizer = Tokenizer(*whole)
    usage = words if exact else count_tokens(tokenizer, text)
    benchmark.group = "pruning"
    pruned = benchmark.pedantic(
        prune, (tokenizer, len(tokenizer) // 2, usage), rounds=2, warmup_rounds=0
    )
    benchmark.extra_info.update(
        tokens=len(pruned.tokenizer), tokens_of_text=int(count_tokens(pruned.tokenizer, text).sum())
    )
