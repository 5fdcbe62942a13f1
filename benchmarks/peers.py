"""BPE training against its peers: whole processes, the same file, the same number of threads.

    pip install -r benchmarks/peers.txt
    python benchmarks/peers.py FILE [FILE ...] --vocab-size 32000 --threads 2 --rounds 5

Every run is a separate process that reads the file, trains, and reports the seconds from the
call to the result, the peak memory, and the merged tokens. The trainers run alternately, so
that other load on the machine affects all of them. Files end their documents with `<|endoftext|>`.

Expected agreement: ffbpe, with ties broken by the largest content, learns exactly our merges;
gigabpe, gigatoken and tokenizers break ties by ids, rustbpe and bpeasy in other ways, so for these
the share of common tokens is shown. rustbpe and bpeasy have no special tokens and learn one token
less. gigabpe counts the special token as text, and its vocabulary begins with the bytes that occur,
so it learns a few merges more; on text without special tokens its merges are those of
`tie_break="huggingface"`.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import machine_info, peak_memory_of_this_process

EOT = "<|endoftext|>"
ROOT = Path(__file__).parents[1]


def documents(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [document for document in file.read().split(EOT) if document]


def ours(path, vocab_size, threads):
    from cs336_basics import train_bpe

    _, merges = train_bpe(path, vocab_size, [EOT], trainer="native", num_workers=threads)
    return [left + right for left, right in merges]


def gigatoken(path, vocab_size, threads):
    import gigatoken

    source = gigatoken.TextFileSource([path], separator=EOT)
    _, merges = gigatoken.train_bpe(source, vocab_size, [EOT])
    return [left + right for left, right in merges]


def gigabpe(path, vocab_size, threads):
    import gigabpe

    from cs336_basics.tokenizer.byte_strings import string_to_token

    _, merges = gigabpe.train_bpe(
        [str(path)], vocab_size, special_tokens=[EOT], pretokenizer="bytelevel", threads=threads
    )
    return [string_to_token(left) + string_to_token(right) for left, right in merges]


def ffbpe(path, vocab_size, threads):
    import ffbpe

    splitter = ffbpe.PreTokenizer([EOT], eot_token=EOT)
    trainer = ffbpe.BpeTrainer([EOT], unit="byte", tie_break="largest_content")
    trainer.add_words(splitter.get_words_from_file(path))
    trainer.train(vocab_size)
    tokens = sorted(trainer.vocab, key=trainer.vocab.get)
    return [token for token in tokens if len(token) > 1 and token != EOT.encode()]


def rustbpe(path, vocab_size, threads):
    import rustbpe

    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(iter(documents(path)), vocab_size - 1, pattern=gpt2())
    return [bytes(token) for token, _ in tokenizer.get_mergeable_ranks()[256:]]


def bpeasy(path, vocab_size, threads):
    import bpeasy

    vocab = bpeasy.train_bpe(iter(documents(path)), gpt2(), 1 << 20, vocab_size - 1)
    return [token for token in sorted(vocab, key=vocab.get) if len(token) > 1]


def tokenizers(path, vocab_size, threads):
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[EOT],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents(path), trainer)
    from cs336_basics.tokenizer.byte_strings import string_to_token

    vocab = tokenizer.get_vocab()
    mapped = sorted(vocab, key=vocab.get)
    return [string_to_token(token) for token in mapped if len(token) > 1 and token != EOT]


TRAINERS = {f.__name__: f for f in (ours, gigabpe, gigatoken, ffbpe, rustbpe, tokenizers, bpeasy)}


def gpt2():
    from cs336_basics.pretokenization import PATTERNS

    return PATTERNS["gpt2"]


def worker(name, path, vocab_size, threads, output):
    importlib.import_module("cs336_basics.bpe" if name == "ours" else name)
    start = time.perf_counter()
    tokens = TRAINERS[name](path, vocab_size, threads)
    seconds = time.perf_counter() - start
    Path(output).write_text("\n".join(token.hex() for token in tokens))
    print(json.dumps({"seconds": seconds, "peak": peak_memory_of_this_process()}))


def run(name, path, vocab_size, threads, output):
    """Return {"seconds", "peak", "whole"} of one run in a new process, or an error."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RAYON_NUM_THREADS": str(threads),
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, __file__, "--worker", name, str(path), str(vocab_size), str(threads)]
    start = time.perf_counter()
    process = subprocess.run(
        [*command, output], capture_output=True, text=True, check=False, env=environment
    )
    whole = time.perf_counter() - start
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
        return {"error": lines[-1]}
    return {**json.loads(process.stdout.splitlines()[-1]), "whole": whole}


def agreement(tokens, reference):
    if tokens == reference:
        return "identical"
    common = len(set(tokens) & set(reference)) / max(len(reference), 1)
    return f"{common:.2%} of tokens"


def compare(path, vocab_size, threads, rounds, names):
    """Run all trainers alternately; return a row for each."""
    runs = {name: [] for name in names}
    tokens = {}
    failed = {}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(rounds):
            for name in names:
                if name in failed:
                    continue
                output = str(Path(directory) / name)
                result = run(name, path, vocab_size, threads, output)
                if "error" in result:
                    failed[name] = result["error"]
                    continue
                runs[name].append(result)
                tokens[name] = Path(output).read_text().split("\n")
    rows = []
    for name in names:
        if name in failed:
            rows.append({"trainer": name, "error": failed[name]})
            continue
        rows.append(
            {
                "trainer": name,
                "rounds": [r["seconds"] for r in runs[name]],
                "seconds": statistics.median(r["seconds"] for r in runs[name]),
                "seconds_min": min(r["seconds"] for r in runs[name]),
                "seconds_max": max(r["seconds"] for r in runs[name]),
                "whole_process_seconds": statistics.median(r["whole"] for r in runs[name]),
                "peak_megabytes": statistics.median(r["peak"] for r in runs[name]) / 1e6,
                "agreement": agreement(tokens[name], tokens["ours"]),
            }
        )
    return rows


def show(path, vocab_size, threads, rows):
    size = Path(path).stat().st_size / 1e6
    print(f"\n**{Path(path).stem}, {size:.1f} MB, {vocab_size:,} tokens, {threads} threads**\n")
    print("| trainer | seconds (min-max) | times ours | whole process | peak MB | agreement |")
    print("|---|---|---|---|---|---|")
    base = next(row["seconds"] for row in rows if row["trainer"] == "ours")
    for row in rows:
        if "error" in row:
            print(f"| {row['trainer']} | failed: {row['error']} | | | | |")
            continue
        print(
            f"| {row['trainer']} | {row['seconds']:.2f} "
            f"({row['seconds_min']:.2f}-{row['seconds_max']:.2f}) | {row['seconds'] / base:.1f} | "
            f"{row['whole_process_seconds']:.2f} | {row['peak_megabytes']:,.0f} | "
            f"{row['agreement']} |",
            flush=True,
        )


def main():
    if sys.argv[1:2] == ["--worker"]:
        name, path, vocab_size, threads, output = sys.argv[2:]
        worker(name, path, int(vocab_size), int(threads), output)
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--vocab-size", type=int, nargs="+", default=[32_000])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trainers", nargs="+", choices=TRAINERS, default=list(TRAINERS))
    parser.add_argument("--json", help="file for the rows, as data")
    options = parser.parse_args()
    names = list(dict.fromkeys(["ours", *options.trainers]))
    print("machine:", ", ".join(f"{k} {v}" for k, v in machine_info().items()))
    results = []
    for path in options.files:
        for vocab_size in options.vocab_size:
            rows = compare(path, vocab_size, options.threads, options.rounds, names)
            show(path, vocab_size, options.threads, rows)
            results.append({"file": Path(path).name, "vocab_size": vocab_size, "rows": rows})
            if options.json:
                content = {"machine": machine_info(), "threads": options.threads, "runs": results}
                Path(options.json).write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
