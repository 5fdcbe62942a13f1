"""Test documents, and functions that count their words with a reference and `count_chunk`."""

import json
import random
from collections import Counter

from cs336_basics.counting.count_texts import count_chunk
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from tests.counting.hostile import EOT, expected_counts

RNG = random.Random(336)

SNIPPETS = ["the cat", " sat", "\n", "  ", "\u00e9\u597d", "'s", EOT, " 12", "\r\n"]

DOCUMENTS = ["".join(RNG.choices(SNIPPETS, k=RNG.randint(0, 30))) for _ in range(200)]


def expected(documents, pattern="gpt2"):
    counted = (expected_counts(document.encode(), [EOT], pattern) for document in documents)
    return sum(counted, Counter())


def count(paths, *, pattern="gpt2", chunk_size=1 << 20, **options):
    total = Counter()
    for chunk in Corpus(paths, **options).chunks(chunk_size):
        total.update(dict(count_chunk(chunk, Splitter(pattern, [EOT]))[0]))
    return total


def json_lines(documents, **more):
    return "".join(json.dumps({"text": d, "id": i, **more}) + "\n" for i, d in enumerate(documents))
