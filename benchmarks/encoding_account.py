"""The account of encoding: what a word costs, by phase, in instructions, misses and nanoseconds.

    python benchmarks/encoding_account.py [FILE ...] [--bytes 8000000] [--rounds 7]

Without files: blogs, Python code and Chinese from the directory `CS336_DATA`, else the embedded
sample. The vocabulary is GPT-2's from that directory, else one trained on the sample.

The C++ of the encoder is compiled with debug information, with `variants/encoding_phases.cpp`, and

- counted: valgrind's cachegrind runs one pass over the text with an empty word cache (cold) and a
  second one (warm). It counts by line of the source, inlined or not, and `PHASES` maps lines to
  phases. Its caches have the sizes of this CPU, once with the L2 and once with the L3 cache as the
  last level, but prefetching counts for nothing; its branch predictor is a simple one of 2004, so
  that a modern CPU mispredicts less. On a busy machine the counts are the same.
- timed: CPU time of the phases alone, medians of rounds. Cycles are times multiplied by the clock
  rate, which is measured by a chain of operations that take one cycle each.

Figures are for each word of the text, those of merging and inserting also for each new word.
"""

import argparse
import concurrent.futures
import hashlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from corpora import CACHE, EOT, data_directory, sample_file
from machine import ROOT, cpu_model

from cs336_basics import Tokenizer
from cs336_basics.bpe import TRAINERS
from cs336_basics.pretokenization import Splitter, count_words

NATIVE = ROOT / "cs336_basics" / "native"
PROGRAM = Path(__file__).parent / "variants" / "encoding_phases.cpp"
TEXTS = ("blogs.txt", "code_python.txt", "multi_zh_wiki.txt")
EVENTS = ("instructions", "branches", "mispredicted", "L1 misses", "L2 misses", "L3 misses")

# The phase of a line, by the first rule that matches: a pattern of the compiled function (into
# which others are inlined), and one of "file function", those that the source line belongs to.
LOOP = r"Scanner::scan<|Worker::encode"  # the loop over words is inlined into these
PHASES = [
    ("UTF-8 check", r"first_invalid", r""),
    ("special tokens", r"Occurrences|SpecialTokens|memchr", r""),
    ("special tokens", r"", r"^special_tokens\.hpp"),
    ("scanner", r"::fill<|^cs336::(run_end|white_space|\w+_character|Gpt2::)", r""),
    ("merging", r"\w+Merger<|MergeTable<|PairRanks<|fill_some_gaps", r""),
    ("inserting", r"WordCache<.*>::(insert|add_block)|memset|malloc|operator new", r""),
    ("hash and lookup", r"rare_key|make_long_key|Worker::look_up|memcmp|memcpy|memmove", r""),
    ("hash and lookup", LOOP, r"^(word_\w+|hashing)\.hpp|^\w*intrin\.h|^encoder\.hpp loop"),
    ("writing ids", LOOP, r"^encoder\.hpp writing"),
    ("scanner", LOOP, r"^scanner\.hpp"),
    ("other", r"", r""),
]  # fmt: skip
ORDER = list(dict.fromkeys(phase for phase, *_ in PHASES))
ONCE = ("merging", "inserting")  # phases of new words
WRITING = re.compile(r"std::memcpy\(out,|out \+= entry\.count\(\)")


# --- counting ------------------------------------------------------------------------------------


def read_counts(path):
    """Return (function, file name, line) -> event -> count, of a file that cachegrind wrote."""
    counts = defaultdict(Counter)
    names, file, function = [], "", ""
    for line in Path(path).read_text().splitlines():
        if line.startswith("events:"):
            names = line.split()[1:]
        elif line.startswith("fl="):
            file = Path(line[3:]).name
        elif line.startswith("fn="):
            function = line[3:]
        elif line[:1].isdigit():
            number, *values = map(int, line.split())
            counts[function, file, number].update(dict(zip(names, values, strict=False)))
    return counts


def functions_of_encoder():
    """Return line -> "loop" or "writing", for the loops over words in encoder.hpp."""
    lines = (NATIVE / "encoding" / "encoder.hpp").read_text().splitlines()
    functions = {}
    for name in ("encode_batch", "make_keys"):
        start = next(
            i for i, text in enumerate(lines) if re.search(rf"^ +\S.* {name}\(const", text)
        )
        indent = len(lines[start]) - len(lines[start].lstrip())
        end = lines.index(" " * indent + "}", start)
        for i in range(start, end + 1):
            functions[i + 1] = "writing" if WRITING.search(lines[i]) else "loop"
    return functions


def phase_of(function, file, line, functions):
    """Return the phase that a line of the source belongs to."""
    source_line = f"{file} {functions.get(line, '')}" if file == "encoder.hpp" else file
    return next(p for p, compiled, source in PHASES
                if re.search(compiled, function) and re.search(source, source_line))  # fmt: skip


def by_phase(before, after, functions):
    """Return phase -> event -> count, of what was counted between two runs."""
    counted = {phase: Counter() for phase in ORDER}
    for key in before.keys() | after.keys():
        phase = counted[phase_of(*key, functions)]
        for event, count in (after[key] if key in after else Counter()).items():
            phase[event] += count
        for event, count in (before[key] if key in before else Counter()).items():
            phase[event] -= count
    return counted


def count(program, vocabulary, text, scratch):
    """Return "cold" and "warm" -> phase -> event -> count for the whole text."""
    levels = {level: cache_size(level) for level in ("L2", "L3")}
    jobs = [(level, passes) for level in levels for passes in range(3)]

    def run(job):
        level, passes = job
        output = f"{scratch}/{level}-{passes}"
        command = [
            "valgrind", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes",
            f"--D1={cache_size('L1')}", f"--LL={levels[level]}",
            f"--cachegrind-out-file={output}", program, vocabulary, text, "passes", str(passes),
        ]  # fmt: skip
        environment = {**os.environ, "CS336_HASH_SEED": "1"}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        return read_counts(output)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = dict(zip(jobs, pool.map(run, jobs), strict=True))
    functions = functions_of_encoder()
    passes = {}
    for name, first in (("cold", 0), ("warm", 1)):
        found = {
            level: by_phase(counts[level, first], counts[level, first + 1], functions)
            for level in levels
        }
        passes[name] = {
            phase: {
                "instructions": events["Ir"],
                "branches": events["Bc"] + events["Bi"],
                "mispredicted": events["Bcm"] + events["Bim"],
                "L1 misses": events["D1mr"] + events["D1mw"],
                "L2 misses": events["DLmr"] + events["DLmw"],
                "L3 misses": found["L3"][phase]["DLmr"] + found["L3"][phase]["DLmw"],
            }
            for phase, events in found["L2"].items()
        }
    return passes


def cache_size(level):
    """Return a cache of this CPU as valgrind takes it: size, ways, bytes of a line."""
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        read = {name: (cache / name).read_text().strip()
                for name in ("level", "type", "size", "ways_of_associativity")}  # fmt: skip
        if f"L{read['level']}" == level and read["type"] != "Instruction":
            size = int(read["size"].rstrip("K")) * 1024
            ways = int(read["ways_of_associativity"])
            # valgrind takes powers of two only
            return f"{1 << size.bit_length() - 1},{1 << ways.bit_length() - 1},64"
    return {"L1": "32768,8,64", "L2": "1048576,16,64", "L3": "33554432,16,64"}[level]


# --- timing --------------------------------------------------------------------------------------


def measure(program, vocabulary, text, rounds):
    """Return fact -> number: of words, and medians of the times, in nanoseconds for the text."""
    command = [program, vocabulary, text, "rounds", str(rounds)]
    values = defaultdict(list)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        name, value = line.split()
        values[name].append(float(value))
    return {name: statistics.median(found) for name, found in values.items()}


def times_by_phase(facts):
    """Return "cold" and "warm" -> phases that were timed together -> nanoseconds for the text."""
    shared = {
        ("UTF-8 check",): facts["utf8"],
        ("special tokens",): facts["special"],
        ("scanner",): facts["scan"],
        ("hash and lookup", "writing ids"): facts["warm"] - facts["scan"] - facts["special"],
    }
    new = {
        ("merging",): facts["merge"],
        ("inserting",): facts["cold"] - facts["warm"] - facts["merge"],
    }
    return {"warm": shared, "cold": {**shared, **new}}


# --- the tables ----------------------------------------------------------------------------------


def show(name, num_bytes, facts, counts):
    words, new = facts["words"], facts["distinct"]
    print(
        f"\n**{name}, {num_bytes / 1e6:.1f} MB**: {words:,.0f} words of "
        f"{num_bytes / words:.2f} bytes, {facts['ids'] / words:.2f} ids each. New: "
        f"{new / words:.2%}. Longer than 15 bytes: {facts['long'] / words:.2%}. More ids than an "
        f"entry holds: {facts['many_ids'] / words:.2%}. Not in their first slot: "
        f"{facts['displaced'] / words:.2%}. Word cache: {facts['table_bytes'] / 1e6:.1f} MB. "
        f"Keys and hashes alone: {(facts['keys'] - facts['scan']) / words:.1f} ns a word. "
        f"Clock: {facts['gigahertz']:.2f} GHz.\n"
    )
    times = times_by_phase(facts)
    print(header("for each word, warm"))
    rows(counts["warm"], times["warm"], words, facts["gigahertz"], ONCE)
    total("all but the UTF-8 check", counts["warm"], facts["warm"], words, facts["gigahertz"])
    print("\n" + header("for each word, cold"))
    total("all but the UTF-8 check", counts["cold"], facts["cold"], words, facts["gigahertz"])
    print("\n" + header("for each new word"))
    rows(counts["cold"], times["cold"], new, facts["gigahertz"], set(ORDER) - set(ONCE))
    speeds = (f"{phase} {num_bytes * 1e3 / facts[phase]:,.0f}" for phase in ("cold", "warm"))
    print(f"\nMB/s of text: {', '.join(speeds)}", flush=True)


def header(title):
    cells = [title, *EVENTS, "ns", "cycles"]
    return f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}"


def rows(counted, times, divisor, gigahertz, without):
    for phase in ORDER:
        if phase in without:
            continue
        group = next((group for group in times if phase in group), ())
        nanoseconds = times[group] / divisor if group and phase == group[0] else None
        title = f"{phase} (times: with {group[1]})" if group[1:] and phase == group[0] else phase
        row(title, counted[phase], divisor, nanoseconds, gigahertz)


def total(title, counted, nanoseconds, divisor, gigahertz):
    kept = [events for phase, events in counted.items() if phase != "UTF-8 check"]
    summed = {event: sum(events[event] for events in kept) for event in EVENTS}
    row(f"**{title}**", summed, divisor, nanoseconds / divisor, gigahertz)


def row(title, events, divisor, nanoseconds, gigahertz):
    cells = [f"{events[event] / divisor:.{1 if event == 'instructions' else 3}f}"
             for event in EVENTS]  # fmt: skip
    if nanoseconds is None:
        cells += ["", ""]
    else:
        cells += [f"{nanoseconds:.1f}", f"{nanoseconds * gigahertz:.1f}"]
    print(f"| {title} | {' | '.join(cells)} |")


# --- what is run ---------------------------------------------------------------------------------


def compile_program():
    """Return the path of the compiled program.

    Raises:
        RuntimeError: it cannot be compiled.
    """
    sources = [PROGRAM, *sorted(NATIVE.rglob("*.hpp"))]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    program = CACHE / f"encoding-phases-{key[:16]}"
    if not program.exists():
        CACHE.mkdir(exist_ok=True)
        compiler = os.environ.get("CXX") or "c++"
        options = ["-std=c++17", "-O3", "-g", "-pthread", f"-I{NATIVE}"]
        command = [*compiler.split(), *options, str(PROGRAM), "-o", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{PROGRAM.name} cannot be compiled:\n{done.stderr[-2000:]}")
    return str(program)


def load_tokenizer():
    """Return GPT-2's tokenizer, or one of 10,000 tokens that is trained on the sample."""
    files = [data_directory() / f"gpt2_{name}" for name in ("vocab.json", "merges.txt")]
    if all(path.exists() for path in files):
        return Tokenizer.from_files(*files, [EOT])
    counts = count_words(sample_file(10_000_000), Splitter(special_tokens=[EOT]))
    return Tokenizer(*TRAINERS["native"]().train_from_counts(counts, 10_000, [EOT]), [EOT])


def write_vocabulary(tokenizer, path):
    """Write a vocabulary as encoding_phases.cpp reads it."""
    ids = {token: token_id for token_id, token in tokenizer.vocab.items()}
    narrow = max(tokenizer.vocab) < 1 << 16
    numbers = [narrow, len(tokenizer.merges), *(ids[bytes([byte])] for byte in range(256))]
    for left, right in tokenizer.merges:
        numbers += [ids[left], ids[right], ids[left + right]]
    np.array(numbers, np.uint32).tofile(path)


def account(paths, num_bytes, rounds):
    program = compile_program()
    tokenizer = load_tokenizer()
    print(f"{cpu_model()}; {len(tokenizer.vocab):,} tokens; {rounds} rounds")
    with tempfile.TemporaryDirectory() as scratch:
        vocabulary, text = f"{scratch}/vocabulary", f"{scratch}/text"
        write_vocabulary(tokenizer, vocabulary)
        for path in paths:
            with open(path, "rb") as file:
                data = file.read(num_bytes).decode("utf-8", "ignore").encode()
            Path(text).write_bytes(data)
            facts = measure(program, vocabulary, text, rounds)
            if facts["ids"] != len(tokenizer.encode_array(data)):
                raise RuntimeError(f"{path}: the program does not encode as the library does")
            show(Path(path).stem, len(data), facts, count(program, vocabulary, text, scratch))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--bytes", type=int, default=8_000_000, help="of each file")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed: it counts instructions and misses")
    found = [data_directory() / name for name in TEXTS if (data_directory() / name).exists()]
    account(options.files or found or [sample_file(options.bytes)], options.bytes, options.rounds)


if __name__ == "__main__":
    main()
