"""Find the texts to measure: TinyStories, OpenWebText, or the embedded sample.

The directory is `$CS336_DATA`, or `data/` if this variable is not set. It may contain the course's
files, or extracts from them under shorter names. Each corpus is shown with its size, because speeds
depend on it.
"""

import hashlib
import os
import tempfile
import warnings
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from cs336_basics import train_bpe
from cs336_basics.counting import count_words
from cs336_basics.data.datasets import DATASETS, data_directory, write_sample
from cs336_basics.splitting import Splitter

EOT = "<|endoftext|>"

FILES = {
    "tinystories": DATASETS["tinystories"].files["train"],
    "owt": replace(DATASETS["owt"].files["train"], other_names=("owt_sample.txt",)),
}
# A task that every trainer completes: with this vocabulary size and this many bytes of each corpus,
# `naive` takes about a minute.
COMMON_VOCAB_SIZE = 2_000
COMMON_BYTES = {"tinystories": 10_000_000, "owt": 500_000, "sample": 5_000_000}
SAMPLE_BYTES = 10_000_000
LARGEST_VOCAB_SIZE = 32_000  # of any benchmark
CACHE = Path(tempfile.gettempdir()) / f"cs336_basics_benchmarks_{os.getuid()}"
MOST_CHARACTERS = 12_000_000


@dataclass(frozen=True)
class Corpus:
    name: str
    path: Path

    def __str__(self):
        return f"{self.name}-{self.num_bytes / 1e6:.1f}MB"

    @cached_property
    def num_bytes(self):
        return self.path.stat().st_size

    @cached_property
    def text(self):
        """The first MOST_CHARACTERS characters, enough to measure an encoder."""
        with open(self.path, encoding="utf-8", newline="") as file:
            return file.read(MOST_CHARACTERS)

    @cached_property
    def word_counts(self):
        return count_words(self.path, Splitter(special_tokens=[EOT]))


@cache
def find_corpora(max_bytes, path=None):
    """Return the corpora that exist, each cut to at most `max_bytes` bytes.

    If no corpus exists, return the embedded sample. With `path`, return only that file.

    Args:
        max_bytes: 0 means no limit. None means a size that every trainer can handle.
    """
    if path is not None:
        size = COMMON_BYTES["owt"] if max_bytes is None else max_bytes
        return [Corpus(path.stem, head_of(path, size))]
    found = corpus_paths()
    if not found:
        found = {"sample": sample_file()}
        print(f"measuring the embedded sample: {most_tokens(found['sample'])}")
    return [
        Corpus(name, head_of(file, COMMON_BYTES[name] if max_bytes is None else max_bytes))
        for name, file in found.items()
    ]


def corpus_paths():
    """Return a dict from corpus name to path, for the corpora that exist."""
    found = {}
    for name, file in FILES.items():
        if path := file.found_in(data_directory()):
            found[name] = path
        else:
            print(f"skipped corpus {name}: {data_directory()} has no {file.name}")
    return found


def sample_file():
    """Write the embedded sample to a file, unless the file exists, and return the file's path."""
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"sample-{SAMPLE_BYTES}.txt"
    if not path.exists():
        write_sample(path, SAMPLE_BYTES)
    return path


def most_tokens(path):
    """Return a sentence on how large the vocabulary of a text can become."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer merges than asked for
        vocab, _ = train_bpe(path, LARGEST_VOCAB_SIZE, [EOT])
    if len(vocab) == LARGEST_VOCAB_SIZE:
        return f"it has merges for {LARGEST_VOCAB_SIZE:,} tokens or more"
    return (
        f"all its words are single tokens in a vocabulary of {len(vocab):,}, so larger ones give "
        "equal results"
    )


def head_of(path, max_bytes):
    """Return the path of a file with the first documents of `path`, at most `max_bytes` bytes."""
    if not max_bytes or path.stat().st_size <= max_bytes:
        return path
    CACHE.mkdir(exist_ok=True)
    with open(path, "rb") as file:
        data = file.read(max_bytes)
    end = data.rfind(EOT.encode())
    data = data[: end + len(EOT)] + b"\n" if end >= 0 else data[: data.rfind(b" ")]
    head = CACHE / f"{path.stem}-{hashlib.sha256(data).hexdigest()[:12]}.txt"
    if not head.exists():
        head.write_bytes(data)
    return head
