"""Compare datatrove's DocumentTokenizer and our TokenizeDocuments on the same documents.

    python -m benchmarks.peers.datatrove_steps text.txt --megabytes 100

The documents are in memory, so that only the steps are timed: encoding and writing token files.
The resulting files must be equal. The steps take turns, with one thread and with all cores.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.corpora import EOT
from cs336_basics import Tokenizer, train_bpe

ROUNDS = 5
VOCAB_SIZE = 32_000


def documents_of(path, num_bytes):
    from datatrove.data import Document

    text = path.read_bytes()[:num_bytes].decode(errors="ignore")
    texts = filter(None, map(str.strip, text.split(EOT)))
    return [Document(text=text, id=str(index)) for index, text in enumerate(texts)]


def timed(make_step, documents, folder):
    step = make_step(str(folder))
    step.tokenizer  # noqa: B018  # loads the tokenizer
    start = time.perf_counter()
    step.run(iter(documents))
    return time.perf_counter() - start


def compare(documents, tokenizer_json, num_threads):
    """Check that the files are equal, and return each step's times in seconds, one per round."""
    from datatrove.pipeline.tokens import DocumentTokenizer

    from cs336_basics.integrations.datatrove import TokenizeDocuments

    os.environ["TOKENIZERS_PARALLELISM"] = str(num_threads > 1).lower()
    options = {"seed": 1, "eos_token": EOT, "save_final_metadata": False}
    steps = {
        "DocumentTokenizer": lambda folder: DocumentTokenizer(
            folder, tokenizer_name_or_path=tokenizer_json, **options
        ),
        "TokenizeDocuments": lambda folder: TokenizeDocuments(
            folder, tokenizer_json, num_workers=num_threads, **options
        ),
    }
    seconds = {name: [] for name in steps}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as directory:
            for name, make_step in steps.items():
                seconds[name].append(timed(make_step, documents, Path(directory, name)))
            first, second = (
                {path.name: path.read_bytes() for path in Path(directory, name).iterdir()}
                for name in steps
            )
            assert first == second, "the files differ"
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--megabytes", type=int, default=100)
    options = parser.parse_args()
    documents = documents_of(options.text, options.megabytes * 10**6)
    num_bytes = sum(len(document.text.encode()) for document in documents)
    with tempfile.TemporaryDirectory() as directory:
        vocab, merges = train_bpe(options.text, VOCAB_SIZE, [EOT])
        Tokenizer(vocab, merges, [EOT]).save(directory)
        print(f"{len(documents):,} documents, {num_bytes / 1e6:.0f} MB, {len(vocab):,} tokens")
        for num_threads in (1, os.cpu_count() or 1):
            seconds = compare(documents, os.path.join(directory, "tokenizer.json"), num_threads)
            rates = {name: num_bytes / 1e6 / median(took) for name, took in seconds.items()}
            shown = ", ".join(f"{name} {rate:.1f} MB/s" for name, rate in rates.items())
            print(f"{num_threads} thread(s): {shown}")


if __name__ == "__main__":
    main()
