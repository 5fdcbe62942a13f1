"""Test that no result depends on the secret seed of the hashes."""

from __future__ import annotations

import random

from cs336_basics.counting import count_words
from tests.processes import run_python
from tests.texts import long_text

RESULTS = """
import hashlib, pathlib, sys, warnings
from cs336_basics.bpe import TRAINERS
from cs336_basics.counting import WordCounts, count_texts
from cs336_basics.counting import count_words
from cs336_basics.tokenizer import Tokenizer
warnings.simplefilter("ignore")
text, folder = sys.argv[1:]
counts = count_words(text, num_workers=2, chunk_size=1 << 14)
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


def test_no_result_depends_on_the_seed(tmp_path):
    path = tmp_path / "text.txt"
    rng = random.Random(3)
    numbers = " ".join(str(rng.randrange(10**9)) for _ in range(30_000))
    path.write_text(long_text(1, 200_000) + numbers)
    results = set()
    for _ in range(3):  # each process draws its own seed
        results.add(run_python(RESULTS, path, tmp_path).stdout)
    assert len(results) == 1
    assert len(results.pop().split()) == 5


def test_order_of_words_is_part_of_the_format(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("to be or not to be, that is the question " + "incomprehensibilities " * 2)
    assert count_words(path).words() == [
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
