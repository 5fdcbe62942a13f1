"""Compare this library's encoder with others on the same text and number of threads.

    pip install -r benchmarks/peers/peers.txt
    python -m benchmarks.peers.encoding TOKENIZER FILE [FILE ...] --threads 1 2 --rounds 5

TOKENIZER is a directory with a tokenizer.json, or with GPT-2's vocab.json and merges.txt. Every run
is a separate process, which loads the tokenizer and the text, and encodes the text five times. The
first pass is cold, because the word cache is empty. The median of the other passes is the warm
time. With one thread, the process may use only one core. The encoders take turns, so that other
load on the machine affects all of them.

Bytes in memory are encoded to one NumPy array. tiktoken and tokenizers receive decoded text. With
several threads, tiktoken, tokenizers and gigatoken receive separate documents. Decoding and
splitting are not timed. Ids are compared by their hashes. Slow encoders encode only the first
documents of the text.
"""

import argparse
import hashlib
import itertools
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.machine import in_new_process, machine_line
from cs336_basics._support.memory import peak_memory

EOT = "<|endoftext|>"
PASSES = 5


# Each function takes a directory and a number of threads, and returns a function from the bytes of
# a text to the function to time.


def ours(directory, threads):
    tokenizer = load(directory)
    return lambda data: lambda: tokenizer.encode_array(data, num_workers=threads)


def gigatoken(directory, threads):
    import awkward
    import gigatoken

    tokenizer = gigatoken.Tokenizer.from_json(tokenizer_json(directory))

    def prepare(data):
        if threads == 1:
            return lambda: tokenizer.encode(data)
        documents = with_separator(data.split(EOT.encode()), EOT.encode())
        return lambda: np.asarray(awkward.flatten(tokenizer.encode_batch(documents, parallel=True)))

    return prepare


def tiktoken_encoding(tokenizer):
    """Return tiktoken's encoding with the vocabulary of a tokenizer."""
    import tiktoken

    from cs336_basics.splitting import PATTERNS

    return tiktoken.Encoding(
        "benchmark",
        pat_str=PATTERNS["gpt2"],
        mergeable_ranks={t: i for i, t in tokenizer.vocab.items() if t != EOT.encode()},
        special_tokens={EOT: tokenizer.special_token_id(EOT)},
    )


def tiktoken(directory, threads):
    encoding = tiktoken_encoding(load(directory))

    def prepare(data):
        text = data.decode()
        if threads == 1:
            return lambda: encoding.encode_to_numpy(text, allowed_special="all")
        documents = with_separator(text.split(EOT), EOT)
        return lambda: np.concatenate(
            encoding.encode_batch(documents, num_threads=threads, allowed_special="all")
        )

    return prepare


def tokenizers(directory, threads):
    import tokenizers as peer

    tokenizer = peer.Tokenizer.from_str(tokenizer_json(directory))

    def prepare(data):
        documents = with_separator(data.decode().split(EOT), EOT)
        return lambda: np.concatenate([e.ids for e in tokenizer.encode_batch(documents)])

    return prepare


ENCODERS = {f.__name__: f for f in (ours, gigatoken, tiktoken, tokenizers)}
SLOW = ("tiktoken", "tokenizers")
SLOW_BYTES = 5_000_000


def with_separator(documents, separator):
    """Append the separator to all documents except the last."""
    return [document + separator for document in documents[:-1]] + documents[-1:]


def load(directory):
    from cs336_basics import Tokenizer

    files = [*Path(directory).glob("*vocab.json"), *Path(directory).glob("*merges.txt")]
    if len(files) == 2:
        return Tokenizer.from_files(*map(str, files), [EOT])
    return Tokenizer.from_directory(directory)


def tokenizer_json(directory):
    """Return the text of the tokenizer's tokenizer.json."""
    from cs336_basics.formats.huggingface import tokenizer_json

    return json.dumps(tokenizer_json.tokenizer_json(load(directory).definition))


# --- one run -------------------------------------------------------------------------------------


def worker(name, directory, path, threads):
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    encode = ENCODERS[name](directory, threads)(Path(path).read_bytes())
    seconds = []
    for _ in range(PASSES):
        ids = None  # free the ids of the previous pass
        start = time.perf_counter()
        ids = encode()
        seconds.append(time.perf_counter() - start)
    digest = hashlib.sha256(np.asarray(ids, np.uint32).tobytes()).hexdigest()
    print(json.dumps({
        "cold": seconds[0], "warm": statistics.median(seconds[1:]), "digest": digest,
        "peak": peak_memory(),
    }))  # fmt: skip


def run(name, path, threads, options):
    return in_new_process(
        __file__, "--worker", name, options.tokenizer, path, threads,
        RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM=str(threads > 1).lower(),
    )  # fmt: skip


# --- the tables ----------------------------------------------------------------------------------


def compare(path, threads, options):
    """Run the encoders in turn and print a table."""
    from benchmarks.corpora import head_of  # imports the library, whose memory a worker measures

    part = head_of(path, SLOW_BYTES)
    texts = {name: part if name in SLOW else path for name in ENCODERS}
    expected = {text: run("ours", text, threads, options)["digest"] for text in (path, part)}
    runs = {name: [] for name in ENCODERS}
    for _ in range(options.rounds):
        for name, text in texts.items():
            runs[name].append(run(name, text, threads, options))
    print(f"\n**{path.stem}, {threads} thread{'s' * (threads > 1)}**\n")
    print("| encoder | cold MB/s | ours is | warm MB/s | ours is | peak MB | ids |")
    print("|---|---|---|---|---|---|---|")
    base = {}
    for name, text in texts.items():
        if errors := [r["error"] for r in runs[name] if "error" in r]:
            print(f"| {name} | failed: {errors[0]} | | | | | |")
            continue
        size = text.stat().st_size / 1e6
        cells = [name]
        for phase in ("cold", "warm"):
            speed = size / statistics.median(r[phase] for r in runs[name])
            base.setdefault(phase, speed)
            cells += [f"{speed:,.1f}", f"{base[phase] / speed:.2f} times"]
        cells.append(f"{statistics.median(r['peak'] for r in runs[name]) / 1e6:,.0f}")
        same = all(r["digest"] == expected[text] for r in runs[name])
        print("| " + " | ".join([*cells, "identical" if same else "DIFFERENT"]) + " |", flush=True)


def main():
    if sys.argv[1:2] == ["--worker"]:
        *strings, threads = sys.argv[2:]
        worker(*strings, int(threads))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(machine_line())
    for path, threads in itertools.product(options.files, options.threads):
        compare(path, threads, options)


if __name__ == "__main__":
    main()
