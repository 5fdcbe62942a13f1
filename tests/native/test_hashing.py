"""Test that seeded hashes resist colliding words, and that no result depends on the seed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from cs336_basics.bpe import TRAINERS
from cs336_basics.pretokenization import count_words
from cs336_basics.tokenizer import Tokenizer
from tests.native.colliding_words import colliding_words, hash_without_seed
from tests.texts import long_text

ROOT = Path(__file__).parents[2]
BYTES = {byte: bytes([byte]) for byte in range(256)}


def random_words(number):
    rng = random.Random(2)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return ["".join(rng.choices(letters, k=48)) for _ in range(number)]


def seconds(call):
    """Return the shortest CPU time of three calls."""
    times = []
    for _ in range(3):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def test_the_words_collide_without_a_seed():
    words = colliding_words(1000)
    assert len(words) == 1000
    assert len({hash_without_seed(word.encode()) for word in words}) == 1
    assert len({hash_without_seed(word.encode()) for word in random_words(1000)}) == 1000


@pytest.mark.parametrize("trainer", ["memoryview", "native"])
def test_colliding_words_do_not_change_the_merges(tmp_path, trainer):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(colliding_words(70)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the vocabulary is smaller than requested
        vocab, merges = TRAINERS[trainer]().train(path, 300, [])
        assert (vocab, merges) == TRAINERS["naive"]().train(path, 300, [])


@pytest.mark.parametrize("call", ["count", "encode"])
def test_colliding_words_cost_no_more_than_random_ones(tmp_path, call):
    spent = {}
    for name, words in (("hostile", colliding_words(20_000)), ("random", random_words(20_000))):
        text = "\n".join(words)
        path = tmp_path / name
        path.write_text(text)
        if call == "count":
            spent[name] = seconds(lambda path=path: count_words(path, num_workers=1))
        else:
            spent[name] = seconds(lambda text=text: Tokenizer(BYTES, []).encode_array(text))
    # When hashes had no seed, hostile words took 200 times as long.
    assert spent["hostile"] < 4 * spent["random"] + 0.02


RESULTS = """
import hashlib, pathlib, sys, warnings
from cs336_basics.bpe import TRAINERS
from cs336_basics.pretokenization import WordCounts, count_texts
from cs336_basics.pretokenization import count_words
from cs336_basics.tokenizer import Tokenizer
warnings.simplefilter("ignore")
text, folder = sys.argv[1:]
counts = count_words(text, backend="native", num_workers=2, chunk_size=1 << 14)
total = WordCounts.combined([counts, count_texts([pathlib.Path(text).read_text()])])
for index, saved in enumerate((counts, total)):
    saved.save(f"{folder}/{index}.npz")
    print(hashlib.sha256(pathlib.Path(f"{folder}/{index}.npz").read_bytes()).hexdigest())
for trainer in ("memoryview", "native"):
    vocab, merges = TRAINERS[trainer]().train_from_counts(counts, 900)
    print(hashlib.sha256(repr(merges).encode()).hexdigest())
tokenizer = Tokenizer(vocab, merges, cache_size=1 << 14)
print(hashlib.sha256(tokenizer.encode_array(pathlib.Path(text).read_text()).tobytes()).hexdigest())
"""


def run_with_seed(seed, *arguments):
    variables = {name: value for name, value in os.environ.items() if name != "CS336_HASH_SEED"}
    if seed is not None:
        variables["CS336_HASH_SEED"] = seed
    return subprocess.run(
        [sys.executable, "-c", *arguments], cwd=ROOT, env=variables, capture_output=True, text=True
    )


def test_no_result_depends_on_the_seed(tmp_path):
    path = tmp_path / "text.txt"
    rng = random.Random(3)
    numbers = " ".join(str(rng.randrange(10**9)) for _ in range(30_000))
    path.write_text(long_text(1, 200_000) + numbers + " ".join(colliding_words(2000)))
    results = set()
    for seed in (None, None, "0", "1", "999999999999999999"):
        done = run_with_seed(seed, RESULTS, str(path), str(tmp_path))
        assert done.returncode == 0, done.stderr
        results.add(done.stdout)
    assert len(results) == 1
    assert len(results.pop().split()) == 5


@pytest.mark.parametrize("seed", ["", "-1", "1.5", "1" * 19])
def test_a_bad_seed_is_rejected(seed):
    code = "from cs336_basics.pretokenization import count_texts; count_texts(['a b'])"
    done = run_with_seed(seed, code)
    assert done.returncode == 1
    assert "ValueError: CS336_HASH_SEED must be" in done.stderr


def test_order_of_words_is_part_of_the_format(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("to be or not to be, that is the question " + "incomprehensibilities " * 2)
    assert count_words(path, backend="native").words() == [
        b" question",
        b" the",
        b" be",
        b" that",
        b"to",
        b" ",
        b" to",
        b",",
        b" is",
        b" not",
        b" or",
        b" incomprehensibilities",
    ]
