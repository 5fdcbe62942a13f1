"""Test documents, and functions that count their words with a reference and with a CountJob."""

import json
import random
from collections import Counter

from cs336_basics.counting.count_job import CountJob
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
    splitter = Splitter(pattern, [EOT])
    job = CountJob(splitter, "compiled" if splitter.has_scanner else "regex")
    total = Counter()
    for piece in Corpus(paths, **options).pieces(chunk_size):
        total.update(dict(job.run(piece)[0]))
    return total


def json_lines(documents, **more):
    return "".join(json.dumps({"text": d, "id": i, **more}) + "\n" for i, d in enumerate(documents))
