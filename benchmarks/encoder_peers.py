"""Encoding against its peers: whole processes, the same text, the same number of threads.

    pip install -r benchmarks/peers.txt
    python benchmarks/encoder_peers.py TOKENIZER FILE [FILE ...] --threads 1 2 --rounds 5

TOKENIZER is a directory that `python -m cs336_basics train-bpe` wrote, or that holds GPT-2's
vocab.json and merges.txt. Every run is a separate process: it loads the tokenizer and the text,
then encodes three times. The first time is called cold, because the word cache is empty; the faster
of the others is called warm. With one thread the process may use one core only. The encoders run
alternately, so that a machine that slows down slows all of them.

- `memory`: the bytes of the file in memory to one NumPy array (tiktoken and tokenizers take text,
  which is decoded before; with several threads they and gigatoken take documents, split before).
- `file`: the file to a token file on the disk. No peer writes one, so its ids are saved here: to a
  temporary file that is synchronized and renamed, as `encode_file` does; `--plain-save` only calls
  `numpy.save`, after which a crash may leave half a file.

Ids are compared by their hash. tiktoken and tokenizers encode the first `--slow-bytes` only.
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
from machine import machine_info, peak_memory_of_this_process

EOT = "<|endoftext|>"
ROOT = Path(__file__).parents[1]
SLOW = ("tiktoken", "tokenizers")
PLAIN_SAVE = "ENCODER_PEERS_PLAIN_SAVE"


# Each maker returns a function that encodes bytes in memory, and one that writes a token file.


def ours(directory, threads):
    from cs336_basics.tokenizer import encode_file

    tokenizer = load(directory)

    def to_file(source, destination):
        encode_file(tokenizer, source, destination, num_workers=threads, overwrite=True)

    return lambda data: lambda: tokenizer.encode_array(data, num_workers=threads), to_file


def gigatoken(directory, threads):
    import awkward
    import gigatoken

    tokenizer = gigatoken.Tokenizer.from_json(tokenizer_json(directory))

    def in_memory(data):
        if threads == 1:
            return lambda: tokenizer.encode(data)
        documents = with_separator(data.split(EOT.encode()), EOT.encode())
        return lambda: np.asarray(awkward.flatten(tokenizer.encode_batch(documents, parallel=True)))

    def to_file(source, destination):
        ids = tokenizer.encode_files(gigatoken.TextFileSource([source]), parallel=threads > 1)
        save(np.asarray(awkward.flatten(ids)), destination)

    return in_memory, to_file


def tiktoken(directory, threads):
    import tiktoken as peer

    from cs336_basics.pretokenization import PATTERNS

    tokenizer = load(directory)
    encoding = peer.Encoding(
        "benchmark",
        pat_str=PATTERNS["gpt2"],
        mergeable_ranks={t: i for i, t in tokenizer.vocab.items() if t != EOT.encode()},
        special_tokens={EOT: tokenizer.special_token_id(EOT)},
    )

    def in_memory(data):
        text = data.decode()
        if threads == 1:
            return lambda: encoding.encode_to_numpy(text, allowed_special="all")
        documents = with_separator(text.split(EOT), EOT)
        return lambda: np.concatenate(
            encoding.encode_batch(documents, num_threads=threads, allowed_special="all")
        )

    return in_memory, lambda source, destination: save(
        in_memory(Path(source).read_bytes())(), destination
    )


def tokenizers(directory, threads):
    import tokenizers as peer

    tokenizer = peer.Tokenizer.from_str(tokenizer_json(directory))

    def in_memory(data):
        documents = with_separator(data.decode().split(EOT), EOT)
        return lambda: np.concatenate([e.ids for e in tokenizer.encode_batch(documents)])

    return in_memory, lambda source, destination: save(
        in_memory(Path(source).read_bytes())(), destination
    )


ENCODERS = {f.__name__: f for f in (ours, gigatoken, tiktoken, tokenizers)}


def with_separator(documents, separator):
    """Return the documents; all but the last end with the separator."""
    return [document + separator for document in documents[:-1]] + documents[-1:]


def save(ids, destination):
    ids = np.asarray(ids)
    ids = ids.astype(np.uint16) if ids.max() < 1 << 16 else ids.astype(np.uint32)
    if os.environ.get(PLAIN_SAVE):
        np.save(destination, ids)
        return
    temporary = f"{destination}.tmp.npy"
    with open(temporary, "wb") as file:
        np.save(file, ids)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, destination)


def load(directory):
    from cs336_basics import Tokenizer

    if (Path(directory) / "metadata.json").exists():
        return Tokenizer.from_directory(directory)
    files = [str(next(Path(directory).glob(f"*{end}"))) for end in ("vocab.json", "merges.txt")]
    return Tokenizer.from_files(*files, [EOT])


def tokenizer_json(directory):
    """Return the tokenizer in the format of `tokenizers`."""
    from cs336_basics.formats.gpt2.byte_strings import token_to_string

    tokenizer = load(directory)
    special = {"id": tokenizer.special_token_id(EOT), "content": EOT, "special": True}
    special |= dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token_to_string(token): i for i, token in tokenizer.vocab.items()},
        "merges": [[token_to_string(a), token_to_string(b)] for a, b in tokenizer.merges],
    }
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [special],
            "normalizer": None,
            "pre_tokenizer": {**byte_level, "use_regex": True},
            "post_processor": None,
            "decoder": {**byte_level, "use_regex": True},
            "model": model,
        }
    )


def worker(name, mode, directory, path, threads):
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    in_memory, to_file = ENCODERS[name](directory, threads)
    seconds = []
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as scratch:
        destination = f"{scratch}/ids.npy"
        if mode == "memory":
            encode = in_memory(Path(path).read_bytes())
        for _ in range(3):
            start = time.perf_counter()
            if mode == "memory":
                ids = encode()
            else:
                to_file(path, destination)
            seconds.append(time.perf_counter() - start)
        if mode == "file":
            ids = np.load(destination)
    digest = hashlib.sha256(np.ascontiguousarray(ids, np.uint32)).hexdigest()
    result = {"cold": seconds[0], "warm": min(seconds[1:]), "ids": len(ids), "digest": digest}
    print(json.dumps({**result, "peak": peak_memory_of_this_process()}))


def run(name, mode, directory, path, threads):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RAYON_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
    }
    command = [sys.executable, __file__, "--worker", name, mode, directory, path, str(threads)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
        return {"error": lines[-1]}
    return json.loads(process.stdout.splitlines()[-1])


def compare(directory, path, mode, threads, rounds, names, slow_bytes):
    """Run all encoders alternately; print a table."""
    with tempfile.TemporaryDirectory() as scratch:
        # Slow encoders encode only the beginning of the text, up to the end of a document.
        data = Path(path).read_bytes()
        cut = data.rfind(EOT.encode(), 0, slow_bytes)
        part = data if len(data) <= slow_bytes or cut < 0 else data[: cut + len(EOT)]
        part_path = f"{scratch}/part.txt"
        Path(part_path).write_bytes(part)
        sizes = {name: len(part if name in SLOW else data) / 1e6 for name in names}
        paths = {name: part_path if name in SLOW else path for name in names}
        expected = dict.fromkeys(sizes.values())
        if any(name in SLOW for name in names) and len(part) < len(data):
            reference = run("ours", "memory", directory, part_path, 1)
            expected[len(part) / 1e6] = reference["digest"]
        runs = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                runs[name].append(run(name, mode, directory, paths[name], threads))
    print(f"\n**{Path(path).stem}, {mode}, {threads} thread{'s' * (threads > 1)}**\n")
    print("| encoder | cold MB/s | ours is | warm MB/s | ours is | peak MB | ids |")
    print("|---|---|---|---|---|---|---|")
    base = {}
    for name in names:
        errors = [r["error"] for r in runs[name] if "error" in r]
        if errors:
            print(f"| {name} | failed: {errors[0]} | | | | | |")
            continue
        cells = [name]
        for phase in ("cold", "warm"):
            speed = sizes[name] / statistics.median(r[phase] for r in runs[name])
            base.setdefault(phase, speed)
            cells += [f"{speed:,.1f}", f"{base[phase] / speed:.2f} times"]
        cells.append(f"{statistics.median(r['peak'] for r in runs[name]) / 1e6:,.0f}")
        wanted = expected[sizes[name]] or runs["ours"][0]["digest"]
        same = all(r["digest"] == wanted for r in runs[name])
        cells.append("identical" if same else "DIFFERENT")
        print("| " + " | ".join(cells) + " |", flush=True)


def main():
    if sys.argv[1:2] == ["--worker"]:
        name, mode, directory, path, threads = sys.argv[2:]
        worker(name, mode, directory, path, int(threads))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer")
    parser.add_argument("files", nargs="+")
    parser.add_argument(
        "--modes", nargs="+", choices=["memory", "file"], default=["memory", "file"]
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--encoders", nargs="+", choices=ENCODERS, default=list(ENCODERS))
    parser.add_argument("--slow-bytes", type=int, default=5_000_000)
    parser.add_argument("--plain-save", action="store_true", help="peers: numpy.save, no fsync")
    options = parser.parse_args()
    if options.plain_save:
        os.environ[PLAIN_SAVE] = "1"
    names = ["ours", *[name for name in options.encoders if name != "ours"]]
    print(", ".join(f"{key} {value}" for key, value in machine_info().items()))
    for path in options.files:
        for mode in options.modes:
            for threads in options.threads:
                compare(options.tokenizer, path, mode, threads, options.rounds, names,
                        options.slow_bytes)  # fmt: skip


if __name__ == "__main__":
    main()
