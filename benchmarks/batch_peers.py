"""Batches of texts to lists and to arrays, against `tokenizers` 1.0: whole processes, alternately.

    pip install "tokenizers>=1.0.0rc3"
    python benchmarks/batch_peers.py TOKENIZER FILE [FILE ...] --threads 2 --rounds 7

TOKENIZER is a directory as encoder_peers.py takes it. A file is cut into texts of `--characters`.
Every run is a separate process that loads the tokenizer and encodes all texts five times; the
first time its word cache is empty. "Later" is the median of the other four. A pass ends when all
lists, or arrays, are made; those of the pass before are freed first, which is not timed.
`tokenizers` makes them one by one from the results of `encode_batch`, which is timed too.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from encoder_peers import load, tokenizer_json
from machine import ROOT, cpu_model

PASSES = 5


def ours(directory, kind, threads):
    tokenizer = load(directory)
    if kind == "arrays":
        return lambda texts: tokenizer.encode_batch_array(texts, num_workers=threads).arrays()
    return lambda texts: tokenizer.encode_batch(texts, num_workers=threads)


def tokenizers(directory, kind, threads):
    import tokenizers as peer

    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/tokenizer.json"
        Path(path).write_text(tokenizer_json(directory))
        tokenizer = peer.Tokenizer.from_file(path)
    if kind == "arrays":
        return lambda texts: [result.ids_array for result in tokenizer.encode_batch(texts)]
    return lambda texts: [result.ids for result in tokenizer.encode_batch(texts)]


ENCODERS = {f.__name__: f for f in (ours, tokenizers)}


def worker(name, kind, directory, path, num_bytes, characters, threads):
    with open(path, "rb") as file:
        text = file.read(num_bytes).decode("utf-8", "ignore")
    texts = [text[i : i + characters] for i in range(0, len(text), characters)]
    encode = ENCODERS[name](directory, kind, threads)
    seconds = []
    for _ in range(PASSES):
        result = None
        start = time.perf_counter()
        result = encode(texts)
        seconds.append(time.perf_counter() - start)
    digest = hashlib.sha256()
    for ids in result:
        digest.update(np.array([len(ids), *ids], np.uint32))
    speeds = [len(text.encode()) / 1e6 / s for s in seconds]
    print(json.dumps([speeds[0], statistics.median(speeds[1:]), digest.hexdigest()]))


def run(name, kind, path, options):
    threads = str(options.threads)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAYON_NUM_THREADS": threads,
                   "TOKENIZERS_PARALLELISM": str(options.threads > 1).lower()}  # fmt: skip
    command = [sys.executable, __file__, "--worker", name, kind, options.tokenizer, path,
               str(options.bytes), str(options.characters), threads]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def compare(path, kind, options):
    runs = {name: [] for name in ENCODERS}
    for _ in range(options.rounds):
        for name, results in runs.items():
            results.append(run(name, kind, path, options))
    same = len({digest for results in runs.values() for *_, digest in results}) == 1
    cells = [Path(path).stem, kind]
    for phase in (0, 1):
        speeds = [[result[phase] for result in results] for results in runs.values()]
        ratio = statistics.median(a / b for a, b in zip(*speeds, strict=True))
        cells += [f"{statistics.median(values):.0f}" for values in speeds] + [f"{ratio:.2f}"]
    print("| " + " | ".join([*cells, "identical" if same else "DIFFERENT"]) + " |", flush=True)


def main():
    if sys.argv[1:2] == ["--worker"]:
        *strings, num_bytes, characters, threads = sys.argv[2:]
        worker(*strings, int(num_bytes), int(characters), int(threads))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--kinds", nargs="+", choices=["lists", "arrays"])
    parser.add_argument("--bytes", type=int, default=20_000_000, help="of each file")
    parser.add_argument("--characters", type=int, default=10_000, help="of each text")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(f"{cpu_model()}, {options.threads} threads, MB/s, medians of {options.rounds} rounds\n")
    print(
        "| text | to | first: ours | tokenizers | ratio | later: ours | tokenizers | ratio | ids |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for path in options.files:
        for kind in options.kinds or ("lists", "arrays"):
            compare(path, kind, options)


if __name__ == "__main__":
    main()
