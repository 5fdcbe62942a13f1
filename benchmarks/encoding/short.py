"""Compare short calls with those of other libraries: few words, many short texts, few ids.

    pip install -r benchmarks/peers/peers.txt
    python -m benchmarks.encoding.short TOKENIZER TEXT [--rounds 15] [--cells PATTERN]

TOKENIZER is a directory with a tokenizer.json, such as GPT-2's, or a rank file of tiktoken with the
pattern cl100k. TEXT is a file of at least 2 MB.

Everything runs in one process on one core. In every round, each library makes the same calls, and
the libraries take turns, so that other load on the machine affects all of them. The table shows CPU
time in µs, per call, text or id: the minimum over the rounds, and the median in brackets. Before a
cell is timed, its result is compared with ours; a library with another result is left out. toktok
and splintr contain cl100k and take part only with this vocabulary. Everything is warm: each text
has been encoded before.
"""

import argparse
import os
import re
import statistics
import tempfile
import time
from itertools import repeat
from pathlib import Path

import numpy as np

from benchmarks.machine import machine_line
from benchmarks.peers.encoding import EOT
from cs336_basics import Tokenizer
from cs336_basics.tokenizer import StreamingDecoder

TEN_WORDS = "The quick brown fox jumps over the lazy dog today"
MIN_NS = 2_000_000  # of CPU time per library and round


# Each function takes our tokenizer and its tokenizer.json, and returns a mapping of operation ->
# function. Operations: a text to a list of ids; a text to an array; texts to arrays; texts to a
# padded array; a list of ids to text; ids to text, one by one.


def ours(tokenizer, _):
    def stream(ids):
        decoder = StreamingDecoder(tokenizer)
        return "".join([*map(decoder.push, ids), decoder.finish()])

    return {
        "list": tokenizer.encode,
        "array": tokenizer.encode_array,
        "arrays": lambda texts: tokenizer.encode_batch_array(texts, num_workers=1).ids,
        "padded": lambda texts: (
            tokenizer.pad(tokenizer.encode_batch_array(texts, num_workers=1)).ids
        ),
        "decode": tokenizer.decode,
        "stream": stream,
    }


def gigatoken(tokenizer, path):
    import awkward
    import gigatoken

    if tokenizer.pattern == "cl100k":
        peer = gigatoken.Tokenizer.from_tiktoken(
            rank_file(tokenizer, path), "cl100k", tokenizer.definition.special_ids
        )
    else:
        peer = gigatoken.Tokenizer.from_json(path.read_text())
    return {
        "array": peer.encode,
        "arrays": lambda texts: awkward.flatten(peer.encode_batch(texts, parallel=False)),
        "padded": lambda texts: peer.encode_batch_padded(texts, 0, parallel=False)[0],
        "decode": lambda ids: peer.decode(ids).decode(),
    }


def tiktoken(tokenizer, _):
    import tiktoken

    from cs336_basics.splitting import PATTERNS

    special = tokenizer.definition.special_ids
    peer = tiktoken.Encoding(
        "benchmark",
        pat_str=PATTERNS[tokenizer.pattern],
        mergeable_ranks={t: i for i, t in tokenizer.vocab.items() if i not in special.values()},
        special_tokens=special,
    )
    return {
        "list": lambda text: peer.encode(text, allowed_special="all"),
        "array": lambda text: peer.encode_to_numpy(text, allowed_special="all"),
        "decode": peer.decode,
    }


def tokenizers(_, path):
    import tokenizers
    from tokenizers.decoders import DecodeStream

    peer = tokenizers.Tokenizer.from_file(str(path))

    def stream(ids):
        decoder = DecodeStream(skip_special_tokens=False)
        return "".join(filter(None, (decoder.step(peer, token_id) for token_id in ids)))

    return {
        "list": lambda text: peer.encode(text).ids,
        "decode": lambda ids: peer.decode(ids, skip_special_tokens=False),
        "stream": stream,
    }


def tokie(_, path):
    import tokie

    peer = tokie.Tokenizer.from_json(str(path))
    return {"list": lambda text: peer.encode(text, False).ids, "decode": peer.decode}


def toktok(tokenizer, _):
    from toktok import _encoding

    need_cl100k(tokenizer)
    peer = _encoding("cl100k_base")
    return {
        "list": peer.encode,
        "array": peer.encode_to_numpy,
        "arrays": lambda texts: peer.encode_batch_to_numpy(texts, 1)[0],
        "decode": peer.decode,
    }


def splintr(tokenizer, _):
    import splintr

    need_cl100k(tokenizer)
    peer = splintr.Tokenizer.from_pretrained("cl100k_base")

    def stream(ids):
        decoder = peer.streaming_decoder()
        return "".join([*filter(None, map(decoder.add_token, ids)), decoder.flush()])

    return {"list": peer.encode, "decode": peer.decode, "stream": stream}


LIBRARIES = {f.__name__: f for f in (ours, gigatoken, toktok, splintr, tokie, tiktoken, tokenizers)}


def need_cl100k(tokenizer):
    if tokenizer.pattern != "cl100k" or len(tokenizer.merges) != 100_000:
        raise LookupError("has only its own vocabularies")


def rank_file(tokenizer, path):
    """Write the ranks of a tokenizer for tiktoken, and return the path."""
    import base64

    special = set(tokenizer.definition.special_ids.values())
    written = path.with_name("ranks.tiktoken")
    written.write_bytes(b"".join(
        base64.b64encode(token) + b" %d\n" % token_id
        for token_id, token in sorted(tokenizer.vocab.items()) if token_id not in special
    ))  # fmt: skip
    return written


def load(path):
    if path.is_dir():
        return Tokenizer.from_pretrained(path)
    return Tokenizer.from_tiktoken(path, {EOT: 100_257}, pattern="cl100k")


def cells(tokenizer, text):
    """Return the rows of the table: name -> (operation, argument, number of texts or ids)."""
    words = text.split()
    ten = [" ".join(words[i : i + 10]) for i in range(0, 200_000, 10)]
    documents = [text[i : i + 10_000] for i in range(0, 2_000_000, 10_000)]
    ids = tokenizer.encode(text[:20_000])
    found = {}
    for operation in ("list", "array"):
        found |= {
            f"one word, {operation}": (operation, "Hello", 1),
            f"two words, {operation}": (operation, "Hello world", 1),
            f"ten words, {operation}": (operation, TEN_WORDS, 1),
            f"1 kB, {operation}": (operation, text[5_000:6_000], 1),
        }
    return found | {
        "20,000 texts of ten words, arrays, each": ("arrays", ten, len(ten)),
        "20,000 texts of ten words, padded, each": ("padded", ten, len(ten)),
        "200 texts of 10 kB, array, each": ("array", documents, len(documents)),
        "decode one id": ("decode", ids[:1], 1),
        "decode ten ids": ("decode", ids[:10], 1),
        "decode a stream, each id": ("stream", ids, len(ids)),
    }


def caller(operation, argument, function):
    """Return a function without arguments that makes the calls of a cell."""
    if operation == "array" and isinstance(argument, list):
        return lambda: [function(text) for text in argument]
    return lambda: function(argument)


def equal(result, expected):
    if isinstance(expected, str):
        return result == expected
    if isinstance(expected, list) and expected and not isinstance(expected[0], int):
        return all(map(equal, result, expected))
    return np.array_equal(np.asarray(result), np.asarray(expected))


def seconds(function, argument, number):
    """Return the CPU time of a call."""
    start = time.process_time_ns()
    for _ in repeat(None, number):
        function(argument)
    return (time.process_time_ns() - start) / number


def measure(functions, operation, argument, rounds):
    """Return the times of each library in nanoseconds, after checking its results."""
    is_loop = operation == "array" and isinstance(argument, list)
    expected = caller(operation, argument, functions["ours"])()
    callers = {}
    for name, function in functions.items():
        if not equal(caller(operation, argument, function)(), expected):
            print(f"<!-- {name} is left out: other ids or text -->")
        elif is_loop:
            callers[name] = lambda texts, f=function: [f(text) for text in texts]
        else:
            callers[name] = function  # called directly, without a frame around it
    numbers = {
        name: max(1, int(MIN_NS / max(seconds(f, argument, 3), 1))) for name, f in callers.items()
    }
    times = {name: [] for name in callers}
    for turn in range(rounds):
        for name in list(callers)[:: 1 if turn % 2 else -1]:
            times[name].append(seconds(callers[name], argument, numbers[name]))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cells", default="", help="only rows whose name matches this pattern")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(machine_line())
    tokenizer = load(options.tokenizer)
    libraries = {}
    with tempfile.TemporaryDirectory() as directory:
        tokenizer.save(directory)
        for name, make in LIBRARIES.items():
            try:
                libraries[name] = make(tokenizer, Path(directory, "tokenizer.json"))
            except (ImportError, LookupError) as error:
                print(f"{name} is left out: {error}")
    text = options.text.read_text(encoding="utf-8").replace(EOT, "")
    print(f"\n| {tokenizer.pattern}, {len(tokenizer):,} tokens | " + " | ".join(libraries) + " |")
    print("|---" * (1 + len(libraries)) + "|")
    for row, (operation, argument, number) in cells(tokenizer, text).items():
        if not re.search(options.cells, row):
            continue
        functions = {n: f[operation] for n, f in libraries.items() if operation in f}
        times = measure(functions, operation, argument, options.rounds)
        shown = [row]
        for name in libraries:
            if name not in times:
                shown.append("")
                continue
            least, middle = min(times[name]), statistics.median(times[name])

            shown.append(f"{least / number / 1e3:.3f} ({middle / number / 1e3:.3f})")
        print("| " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
